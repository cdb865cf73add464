"""Products of tiles by tensor cores in CUDA C.

An instruction multiplies 16 rows by 8 columns of 16-bit floats, of 16 places of the inner
dimension, and adds that up in float32. The 32 threads of a warp share out operands and sums as the
manual of PTX says. With ``g = lane / 4`` and ``q = lane % 4`` a thread gives of rows ``g`` and
``g + 8`` and of column ``g`` the neighbours ``2 q`` and ``2 q + 1``, and those 8 further on, as
pairs of 32 bits, and has the sums of rows ``g`` and ``g + 8`` in columns ``2 q`` and ``2 q + 1``.
Where there is no such instruction (bfloat16 before compute capability 8.0; the emulator of the
tests) the threads show each other their pairs, and add up in order.
"""

from __future__ import annotations

from staticflow.codegen.kernel import CORE_DEPTH, MultiplyTiles
from staticflow.graph.dtypes import DType, bfloat16, float16

__all__ = ["DEFINITIONS", "PAIR", "write_product"]

PAIR = """\
#ifndef SF_PAIR
#define SF_PAIR(array, at) (*(const unsigned*)&array[at])
#endif"""
"""Two neighbours in an array of 16-bit floats, the first at an even place, as 32 bits."""

_C = '"+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])'

_BY_INSTRUCTION = f"""\
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.@.@.f32 "
               "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
               : {_C}
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));"""

_BY_HALVES = f"""\
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  const unsigned a[] = {{a0, a1, a2, a3}}, b[] = {{b0, b1}};
  for (int half = 0; half < 2; half++)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{{%0, %1, %2, %3}}, {{%4, %5}}, {{%6}}, {{%0, %1, %2, %3}};"
                 : {_C}
                 : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
"""

_IN_ORDER = """\
  const int lane = threadIdx.x % 32u, g = lane / 4, q = lane % 4;
  for (int k = 0; k < 16; k++) {
    const int shift = k % 2 * 16, from = k % 8 / 2;
    float x[2], y[2];
    for (int i = 0; i < 2; i++) {
      const unsigned row = k < 8 ? (i ? a1 : a0) : (i ? a3 : a2), column = k < 8 ? b0 : b1;
      const unsigned own = __shfl_sync(0xffffffffu, row, g * 4 + from);
      const unsigned other = __shfl_sync(0xffffffffu, column, (2 * q + i) * 4 + from);
      x[i] = sf_f32_from_@((unsigned short)(own >> shift));
      y[i] = sf_f32_from_@((unsigned short)(other >> shift));
    }
    for (int i = 0; i < 4; i++) c[i] = fmaf(x[i / 2], y[i % 2], c[i]);
  }"""


def _define(dtype: DType) -> str:
    older = _BY_HALVES if dtype is float16 else ""
    text = f"""\
void sf_multiply_@(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                   unsigned b1) {{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
{_BY_INSTRUCTION}
{older}#else
{_IN_ORDER}
#endif
}}"""
    return text.replace("@", dtype.short)


DEFINITIONS = [_define(dtype) for dtype in (float16, bfloat16)]
"""The functions that a product is written with."""


def write_product(stmt: MultiplyTiles, dtype: DType, left: str, right: str, sums: str) -> list[str]:
    """The statements that multiply tiles in arrays of these names: a warp has 16 rows, and 32
    columns in four parts (`core_place`)."""
    pitch, parts = stmt.pitch, range(4)
    own = f"threadIdx.x % 32u / 4u) * {pitch} + threadIdx.x % 4u * 2u"
    lines = [
        f"const int row = (threadIdx.x / 64u * 16u + {own};",
        f"const int column = (threadIdx.x / 32u % 2u * 32u + {own};",
    ]
    for k in range(0, stmt.depth, CORE_DEPTH):
        places = (k, k + 8 * pitch, k + 8, k + 8 * pitch + 8)
        names = [f"a{k + i}" for i in range(4)]
        pairs = zip(names, places, strict=True)
        found = ", ".join(f"{name} = SF_PAIR({left}, row + {at})" for name, at in pairs)
        lines.append(f"const unsigned {found};")
        for part in parts:
            at = 8 * part * pitch + k
            given = ", ".join(
                [*names, *(f"SF_PAIR({right}, column + {place})" for place in (at, at + 8))]
            )
            lines.append(f"sf_multiply_{dtype.short}(&{sums}[{4 * part}], {given});")
    return lines

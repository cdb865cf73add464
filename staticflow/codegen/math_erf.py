"""The error function."""

from __future__ import annotations

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.math_exp import exp2_fraction
from staticflow.codegen.math_parts import (
    FORMATS,
    at_most,
    nearest_integer,
    polynomial,
    power_of_two,
)
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["erf"]

# Up to here the series at 0 serves, from here to `HIGHEST` the logarithm of 1 - erf; past that
# erf(x) = 1 to the last bit.
SPLIT: dict[DType, float] = {float32: 0.9, float64: 1.0}
HIGHEST: dict[DType, float] = {float32: 4.0, float64: 6.0}

# erf(a) / a - 1 as a polynomial of a**2 up to the split, to 2**-26.2 and 2**-56.7 of erf(a).
SERIES: dict[DType, tuple[float, ...]] = {
    float32: (0.12837915, -0.37612513, 0.1128204, -0.026775569, 0.0050074384, -0.00060688297),
    float64: (
        0.12837916709551256, -0.3761263890318344, 0.11283791670941533, -0.026866170642732754,
        0.005223977603200894, -0.0008548325794893303, 0.00012055289663072932,
        -1.4924638534450368e-05, 1.6446234103488648e-06, -1.6199513709567527e-07,
        1.3681810678629902e-08, -7.72537657708699e-10,
    ),
}  # fmt: skip

# log2(1 - erf(a)) as a polynomial of a above the split, such that erf(a) has an error of 2**-29.2
# and 2**-57.1.
TAIL: dict[DType, tuple[float, ...]] = {
    float32: (
        -0.00025619497, -1.6269982, -0.9190838, -0.15009354, 0.032138802, -0.004408275,
        0.00028447306,
    ),
    float64: (
        -7.410727445884386e-07, -1.6278995561200384, -0.9184832479031779, -0.14816801022050327,
        0.027393813112073985, 0.0005968040520652318, -0.0027686619830432067,
        0.0011154367308074484, -0.000197116368857085, -2.811087930407757e-05,
        3.248618401986971e-05, -1.236969192878481e-05, 3.049338680516166e-06,
        -5.328615934605911e-07, 6.622592377442318e-08, -5.6082176292843795e-09,
        2.9125092051271634e-10, -7.01292659294511e-12,
    ),
}  # fmt: skip


def erf(k: Builder, x: Operand) -> Operand:
    """The error function for float32 and float64, within 1.3 ulp (the largest error seen).

    ``a + a * P(a**2)`` for a small ``a = |x|``, ``1 - 2**Q(a)`` for a large one (after N. Juffa's
    float32 implementation, with minimax polynomials of our own, fitted by Remez's exchange).
    """
    f = FORMATS[x.dtype]
    a = at_most(k, k.apply("abs", x), HIGHEST[x.dtype])
    series = k.fma(a, polynomial(k, k.mul(a, a), SERIES[x.dtype]), a)
    exponent = polynomial(k, a, TAIL[x.dtype])
    n, bits = nearest_integer(k, exponent, 1.0, f.bias)
    fraction = exp2_fraction(k, k.sub(exponent, n))
    tail = k.fma(k.neg(power_of_two(k, bits, f)), fraction, 1.0)
    y = k.select(k.compare("lt", a, SPLIT[x.dtype]), series, tail)
    return k.apply("copysign", y, x)

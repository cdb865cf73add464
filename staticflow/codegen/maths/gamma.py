"""The logarithm of the gamma function and its derivatives: lgamma, digamma, polygamma.

The polynomials are interpolations of our own at Chebyshev's nodes. Errors are the largest seen, in
units in the last place, for positive arguments. Of negative ones the functions are reflected: next
to their zeros there no relative error is promised, but as many digits of the terms' sum.
"""

from __future__ import annotations

from math import factorial, inf, nan, pi
from math import log as log_of

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.maths.formats import at_most, polynomial
from staticflow.codegen.maths.log import log
from staticflow.codegen.maths.trig import sin, tan
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["digamma", "lgamma", "polygamma"]

# lgamma(2 + z) / z for -1 <= z <= 1, to 2**-29.4 and 2**-60.7.
NEAR: dict[DType, tuple[float, ...]] = {
    float32: (
        0.42278433, 0.32246703, -0.0673523, 0.020580811, -0.007385453, 0.002890464,
        -0.0011935233, 0.0005100348, -0.00022021917, 9.806395e-05, -5.0896488e-05,
        2.3340692e-05, -2.9482114e-06, 1.295402e-06, -5.3987364e-06, 2.5474762e-06,
    ),
    float64: (
        0.42278433509846713, 0.3224670334241132, -0.0673523010531981, 0.02058080842778455,
        -0.007385551028673411, 0.0028905103307412436, -0.001192753911722489,
        0.0005096695247524056, -0.00022315475811650142, 9.945751261766563e-05,
        -4.492624030231414e-05, 2.050721451125786e-05, -9.439463611832424e-06,
        4.374854780167925e-06, -2.039333242707789e-06, 9.551984225602348e-07,
        -4.488492699436866e-07, 2.1187822306160198e-07, -1.0140589058049062e-07,
        4.8172175505272526e-08, -2.0974738440629997e-08, 9.993249545051599e-09,
        -7.428764465712621e-09, 3.5768169442146917e-09, 8.747100877968034e-10,
        -4.3305440418883345e-10, -1.5773775586381365e-09, 7.665420058300449e-10,
        4.5189392857141965e-10, -2.201442007704676e-10, -1.2019015479590512e-10,
        5.844112753446888e-11,
    ),
}  # fmt: skip
# a (lgamma(a) - (a - 1/2) log(a) + a) less its constant, of 1 / a**2 for a >= 3, to 2**-26.9 and
# 2**-54.2 (Stirling's series begins so).
FAR: dict[DType, tuple[float, ...]] = {
    float32: (
        0.083333336, -0.0027775862, 0.00078471843, -0.00045442831,
    ),
    float64: (
        0.08333333333333333, -0.002777777777767353, 0.0007936507891020488,
        -0.0005952373063227015, 0.0008416788625987502, -0.0019135564194569658,
        0.006266355072198439, -0.025917635484147064, 0.11229667461283968,
        -0.41302940090814255, 1.0364376286904355, -1.2591741378230412,
    ),
}  # fmt: skip
CONSTANT = log_of(2 * pi) / 2

# digamma(x) / (x - ROOT) by x - 1.5 for 1 <= x <= 2, to 2**-30.4 and 2**-58.4.
AROUND: dict[DType, tuple[float, ...]] = {
    float32: (
        0.9510559, -0.4236274, 0.24054265, -0.14840503, 0.09498082, -0.06191686,
        0.040893562, -0.027064258, 0.016915224, -0.011247037, 0.011223156, -0.007476843,
    ),
    float64: (
        0.9510558760318328, -0.4236274212814606, 0.24054248424078697, -0.14840492305388092,
        0.09498872445289039, -0.06192213327548831, 0.040760833940846085,
        -0.026975796659787055, 0.017907248317313294, -0.011908220105959716,
        0.007927021796868154, -0.005279937255532708, 0.003518106563802472,
        -0.0023454947397380833, 0.0015633696313653504, -0.0010364584817312839,
        0.0006909255761282986, -0.00048595039220036254, 0.00032395945401345196,
        -0.00014480643368061614, 9.653646261410062e-05, -0.0001782188548855923,
        0.00011881232908510335,
    ),
}  # fmt: skip
ROOT: dict[DType, tuple[float, float]] = {
    float32: (1.4616321325302124, 1.2438149938918909e-08),
    float64: (1.4616321449683622, 9.549995429965697e-17),
}
"""Where the positive zero of digamma is, as the sum of two floats."""
# x x (log(x) - 1 / (2 x) - digamma(x)) of 1 / x**2 for x >= 3, to 2**-28.0 and 2**-55.0.
BEYOND: dict[DType, tuple[float, ...]] = {
    float32: (
        0.083333336, -0.008333195, 0.0039579626, -0.0038856694, 0.004109371,
    ),
    float64: (
        0.08333333333333333, -0.008333333333325033, 0.003968253963318731,
        -0.004166665495022904, 0.007575610069498594, -0.021081441106057426,
        0.08275092617555414, -0.4221373927659686, 2.4853225179346112, -14.509465068056548,
        72.40846099193358, -269.9594777372371, 643.1483984342367, -720.4954060380383,
    ),
}  # fmt: skip


def _fraction(k: Builder, x: Operand) -> Operand:
    """x less the nearest integer, which is exact; NaN of infinity."""
    return k.sub(x, k.apply("round", x))


def lgamma(k: Builder, x: Operand) -> Operand:
    """log |gamma(x)| for float32 and float64, within 4.3 ulp; infinite at 0, -1, -2, ....

    For ``a = |x|``: ``z P(z) - log(a)`` with ``z = a - 1`` below 1.5, ``z P(z)`` with ``z = a - 2``
    below 3, from there Stirling's formula. Of a negative x reflected:
    ``log(pi / |x sin(pi x)|) - lgamma(a)``.
    """
    dtype = x.dtype
    a = k.apply("abs", x)
    log_a = log(k, a)
    low = k.compare("lt", a, 1.5)
    z = at_most(k, k.sub(a, k.select(low, k.const(1.0, dtype), 2.0)), 1.0)
    near = k.fma(z, polynomial(k, z, NEAR[dtype]), k.select(low, k.neg(log_a), 0.0))
    t = k.div(k.const(1.0, dtype), a)
    rest = k.fma(t, polynomial(k, at_most(k, k.mul(t, t), 1 / 9), FAR[dtype]), CONSTANT - 0.5)
    far = k.fma(k.sub(a, 0.5), k.sub(log_a, 1.0), rest)
    y = k.select(k.compare("lt", a, 3.0), near, far)
    sine = k.apply("abs", sin(k, k.mul(_fraction(k, x), pi)))
    mirrored = k.sub(k.sub(log_of(pi), log(k, k.mul(a, sine))), y)
    mirrored = k.select(k.compare("eq", sine, 0.0), inf, mirrored)
    small = k.compare("lt", a, 2.0**-60)  # whose product with the sine may be 0
    y = k.select(k.compare("lt", x, 0.0), k.select(small, k.neg(log_a), mirrored), y)
    return k.select(k.compare("eq", a, inf), inf, y)


def digamma(k: Builder, x: Operand) -> Operand:
    """The derivative of lgamma for float32 and float64, within 2.4 ulp; -inf at 0, inf at -0,
    NaN at -1, -2, ....

    On [1, 2] a polynomial times the distance to the zero there, from 3 on
    ``log(x) - 1 / (2 x) - P(1 / x**2) / x**2``; between and below by
    ``digamma(x + 1) = digamma(x) + 1 / x``, of a negative x by
    ``digamma(1 - x) - pi / tan(pi x)``.
    """
    dtype = x.dtype
    below = k.compare("lt", x, 0.0)
    y = k.select(below, k.sub(1.0, x), x)
    first, third = k.compare("lt", y, 1.0), k.compare("ge", y, 2.0)
    shift = k.select(first, k.const(1.0, dtype), k.select(third, k.const(-1.0, dtype), 0.0))
    u = at_most(k, k.add(y, shift), 2.0)
    step = k.div(shift, k.select(first, k.neg(y), k.neg(u)))
    step = k.select(first, step, k.select(third, step, 0.0))
    high, lost = ROOT[dtype]
    distance = k.sub(k.sub(u, high), lost)
    near = k.fma(distance, polynomial(k, k.sub(u, 1.5), AROUND[dtype]), step)
    t = k.div(k.const(1.0, dtype), y)
    square = at_most(k, k.mul(t, t), 1 / 9)
    rest = k.fma(t, 0.5, k.mul(square, polynomial(k, square, BEYOND[dtype])))
    value = k.select(k.compare("lt", y, 3.0), near, k.sub(log(k, y), rest))
    r = _fraction(k, x)
    cotangent = k.div(k.const(pi, dtype), tan(k, k.mul(r, pi)))
    cotangent = k.select(k.compare("eq", r, 0.0), nan, cotangent)
    return k.select(below, k.sub(value, cotangent), value)


# B(2j) / (2j)!, Bernoulli's numbers, for the sum of Euler and Maclaurin.
BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000,
)  # fmt: skip
STEPS: dict[DType, int] = {float32: 5, float64: 10}


def polygamma(k: Builder, x: Operand, n: int) -> Operand:
    """The ``n``-th derivative (``n >= 1``) of digamma for float32 and float64, within 5 ulp
    for n = 1 and 10 up to n = 4, unless the powers leave the range of normal numbers.

    ``(-1)**(n + 1) n!`` times the sum of ``(x + i)**-(n + 1)``, the first terms one by one and the
    rest by the formula of Euler and Maclaurin; of a negative x by the n-th derivative of
    ``pi cot(pi x)``, a polynomial of the cotangent.
    """
    dtype = x.dtype
    below = k.compare("lt", x, 0.0)
    y = k.select(below, k.sub(1.0, x), x)
    total = k.mul(_zeta(k, n + 1, y), (-1.0) ** (n + 1) * factorial(n))
    r = _fraction(k, x)
    cotangent = k.div(k.const(1.0, dtype), tan(k, k.mul(r, pi)))
    bend = k.mul(polynomial(k, cotangent, _derivative_of_cotangent(n)), pi ** (n + 1))
    mirrored = k.sub(k.neg(total) if n % 2 else total, bend)
    return k.select(below, mirrored, total)


def _derivative_of_cotangent(n: int) -> list[float]:
    """The n-th derivative of the cotangent as a polynomial of it, by ``cot' = -1 - cot**2``."""
    p = [0.0, 1.0]
    for _ in range(n):
        slope = [i * c for i, c in enumerate(p)][1:]
        p = [-a - b for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]
    return p


def _zeta(k: Builder, s: int, q: Operand) -> Operand:
    """The sum of ``(q + i)**-s`` over i from 0 on, for q >= 0."""
    one = k.const(1.0, q.dtype)

    def power(t: Operand, n: int) -> Operand:
        y = t
        for bit in bin(n)[3:]:
            y = k.mul(y, y)
            y = k.mul(y, t) if bit == "1" else y
        return y

    steps = STEPS[q.dtype]
    w = k.div(one, k.add(q, float(steps)))
    square, factor = k.mul(w, w), 1.0
    weights = []
    for j, b in enumerate(BERNOULLI):
        factor *= (s + 2 * j - 1) * (s + 2 * j) if j else s
        weights.append(b * factor)
    tail = k.fma(k.mul(w, w), polynomial(k, square, weights), k.fma(w, 0.5, 1 / (s - 1)))
    total = k.mul(tail, power(w, s - 1))
    for i in reversed(range(steps)):
        total = k.add(total, power(k.div(one, k.add(q, float(i))), s))
    return total

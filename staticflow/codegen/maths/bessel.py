"""The modified Bessel functions of the first kind, of order 0 and 1, plain and scaled by exp(-|x|).

The polynomials are interpolations of our own at Chebyshev's nodes, computed with 60 digits. Errors
are the largest seen, in units in the last place.
"""

from __future__ import annotations

from math import inf

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.maths.exp import exp
from staticflow.codegen.maths.formats import at_least, at_most, polynomial
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["bessel_i", "bessel_ie"]

Orders = tuple[tuple[float, ...], tuple[float, ...]]
"""The coefficients for order 0 and for order 1."""

LIMIT: dict[DType, float] = {float32: 6.0, float64: 10.0}
"""Up to here by the power series (Abramowitz and Stegun, 9.6.10), above by the behaviour at
infinity (9.7.1), each as the polynomial that does it in between."""

# I_n(x) / (x / 2)**n of x**2 / 4 up to the limit, to 2**-30.3 and 2**-59.8.
NEAR: dict[DType, Orders] = {
    float32: (
        (
            1.0, 1.0, 0.24999994, 0.027777862, 0.0017360506, 6.9469344e-05, 1.9227994e-06,
            4.0320373e-08, 5.28023e-10, 1.1851878e-11,
        ),
        (
            1.0, 0.5, 0.08333333, 0.006944452, 0.00034721688, 1.1576273e-05, 2.750239e-07,
            5.005309e-09, 6.06155e-11, 1.1393485e-12,
        ),
    ),
    float64: (
        (
            1.0, 1.0, 0.25000000000000006, 0.027777777777777693, 0.0017361111111111967,
            6.94444444443921e-05, 1.9290123457002865e-06, 3.9367598885345104e-08,
            6.151187339355388e-10, 7.594058233627197e-12, 7.594060710185583e-14,
            6.276060842624124e-16, 4.358531351789233e-18, 2.5781805317840824e-20,
            1.3187796769527578e-22, 5.758629120327846e-25, 2.4745599143162142e-27,
            5.1920095880135685e-30, 4.6840935481549837e-32,
        ),
        (
            1.0, 0.5, 0.08333333333333322, 0.0069444444444446305, 0.0003472222222220547,
            1.1574074074165636e-05, 2.755731922067518e-07, 4.920949869783589e-09,
            6.834652432663126e-11, 7.594060493638071e-13, 6.903668472468027e-15,
            5.2302295103087567e-17, 3.3516655119285563e-19, 1.8462095224407276e-21,
            8.63937671464028e-24, 3.9578734525239104e-26, 8.831186128594353e-29,
            8.433514105622934e-31,
        ),
    ),
}  # fmt: skip
# exp(-x) sqrt(x) I_n(x) of 1 / x from the limit on, to 2**-29.1 and 2**-60.0.
FAR: dict[DType, Orders] = {
    float32: (
        (
            0.3989423, 0.049868386, 0.027956204, 0.03483578, -0.118609704, 2.6601472, -22.006111,
            99.22916, -166.65886,
        ),
        (
            0.3989423, -0.14960334, -0.04675487, -0.04050842, -0.07858782, 0.50050026, -10.3609915,
            92.93394, -453.10318, 831.5545,
        ),
    ),
    float64: (
        (
            0.3989422804014327, 0.049867785050182516, 0.02805062908469519, 0.02921940950916022,
            0.04474066047343489, 0.09095458783788532, 0.17524344234977357, 6.370997760330108,
            -444.2041372630937, 26551.928879737818, -1216151.0847194942, 43559032.91092253,
            -1230208391.9713197, 27523550947.270294, -488108042851.5814, 6837471803026.963,
            -75040800740534.83, 636241995468772.8, -4075481424085808.0, 1.9036119672710056e+16,
            -6.109505642627741e+16, 1.2034650859878611e+17, -1.0963778835296763e+17,
        ),
        (
            0.3989422804014327, -0.14960335515054085, -0.046751048478227704, -0.04090717182777235,
            -0.05752407790620416, -0.11110479774227379, -0.21434947531529336, -6.731918081870687,
            463.5714031990172, -27700.319258727002, 1267561.0529164616, -45355705.547003865,
            1279593188.2143483, -28596160600.356808, 506525610806.69434, -7086587692822.739,
            77673187284807.42, -657667153885485.0, 4206818980429399.5, -1.9621356517023516e+16,
            6.28812914786429e+16, -1.236823193491149e+17, 1.1251019654693306e+17,
        ),
    ),
}  # fmt: skip


def _near(k: Builder, a: Operand, order: int) -> Operand:
    """I_n of a >= 0 up to the limit, and its value there beyond."""
    half = k.mul(at_most(k, a, LIMIT[a.dtype]), 0.5)
    value = polynomial(k, k.mul(half, half), NEAR[a.dtype][order])
    return k.mul(value, half) if order else value


def _far(k: Builder, a: Operand, order: int) -> Operand:
    """exp(-a) I_n(a) from the limit on, and its value there below."""
    a = at_least(k, a, LIMIT[a.dtype])
    value = polynomial(k, k.div(k.const(1.0, a.dtype), a), FAR[a.dtype][order])
    return k.div(value, k.apply("sqrt", a))


def _give_sign(k: Builder, value: Operand, x: Operand, order: int) -> Operand:
    return k.apply("copysign", value, x) if order else value


def bessel_i(k: Builder, x: Operand, order: int) -> Operand:
    """I_0 or I_1 for float32 and float64, within 6 ulp."""
    a = k.apply("abs", x)
    root = exp(k, k.mul(a, 0.5))  # its square may overflow where the product does not
    far = k.mul(k.mul(_far(k, a, order), root), root)
    far = k.select(k.compare("eq", a, inf), inf, far)
    value = k.select(k.compare("gt", a, LIMIT[x.dtype]), far, _near(k, a, order))
    return _give_sign(k, value, x, order)


def bessel_ie(k: Builder, x: Operand, order: int) -> Operand:
    """exp(-|x|) I_0(x) or exp(-|x|) I_1(x) for float32 and float64, within 6.5 ulp."""
    a = k.apply("abs", x)
    near = k.mul(_near(k, a, order), exp(k, k.neg(a)))
    value = k.select(k.compare("gt", a, LIMIT[x.dtype]), _far(k, a, order), near)
    return _give_sign(k, value, x, order)

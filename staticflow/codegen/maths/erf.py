"""The error function, its complement, also scaled, and its inverse.

The polynomials are minimax ones of our own, fitted by Remez's exchange. Errors are the largest
seen, in units in the last place.
"""

from __future__ import annotations

from math import inf, pi, prod, sqrt

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.maths.exp import EXP, exp, exp2_fraction, reduce_by_ln2
from staticflow.codegen.maths.formats import (
    FORMATS,
    at_least,
    at_most,
    nearest_integer,
    polynomial,
    power_of_two,
)
from staticflow.codegen.maths.log import log
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["ERFC_HIGHEST", "erf", "erfc", "erfc_of_positive", "erfcx", "erfinv"]

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
    series = _series(k, a)
    exponent = polynomial(k, a, TAIL[x.dtype])
    n, bits = nearest_integer(k, exponent, 1.0, f.bias)
    fraction = exp2_fraction(k, k.sub(exponent, n))
    tail = k.fma(k.neg(power_of_two(k, bits, f)), fraction, 1.0)
    y = k.select(k.compare("lt", a, SPLIT[x.dtype]), series, tail)
    return k.apply("copysign", y, x)


def _series(k: Builder, x: Operand) -> Operand:
    """erf(x) for ``|x|`` below the split."""
    return k.fma(x, polynomial(k, k.mul(x, x), SERIES[x.dtype]), x)


@dataclass(frozen=True, slots=True)
class _Curve:
    """``first + P(t)``: a polynomial whose constant coefficient is the sum of ``first`` and of the
    first one of ``rest``, so that it is not rounded."""

    first: float
    rest: tuple[float, ...]


# Past the limit 1 - erf(a) is 0: as such, since products below the least denormal take CPUs a
# hundred cycles.
ERFC_HIGHEST: dict[DType, float] = {float32: 10.2, float64: 27.4}
# (1 + 2a) e**(a a) erfc(a) by (a - c) / (a + c) for 0 <= a, to 2**-26.0 and 2**-56.1.
ERFC_CENTRE: dict[DType, float] = {float32: 2.0, float64: 4.0}
ERFC: dict[DType, _Curve] = {
    float32: _Curve(
        1.2769784,
        (
            2.0460083e-08, -0.09276398, -0.16603146, 0.16405542, -0.05420388, -0.008060141,
            0.008630087, 0.0013133024, -0.0012279894, -0.00039943957,
        ),
    ),
    float64: _Curve(
        1.2329951186255526,
        (
            -4.636823927840244e-17, -0.13962111684056286, 0.01537965210262009,
            0.06809705425473396, -0.10103906603632054, 0.09373283499690144, -0.06633036581211103,
            0.037167515560872666, -0.01619773405384055, 0.005031969769530009,
            -0.0007577733675869389, -0.00019925557653545232, 0.00015062231621256538,
            -2.4402953238799118e-05, -1.1224888530256949e-05, 5.717471116751308e-06,
            3.0137370103890495e-07, -8.346915309161247e-07, 6.281373712448344e-08,
            1.1507345701433483e-07, -7.83178143242135e-09, -1.3611217524683225e-08,
            -1.788126280627228e-09,
        ),
    ),
}  # fmt: skip


# Powers of two are kept normal by this many binary places, which are taken back at the end.
SPARE = 100

# For a small a, where that is rounded too often, erf(a) / a - 1 as a polynomial of a**2: to
# 2**-24.0 and 2**-52.9 of erf(a).
ERFC_SPLIT = 0.45
ERFC_SERIES: dict[DType, tuple[float, ...]] = {
    float32: (0.1283791, -0.37611613, 0.11258432, -0.024839714),
    float64: (
        0.12837916709551245, -0.3761263890317532, 0.11283791670083541, -0.02686617030140761,
        0.005223970957699771, -0.0008547623113205009, 0.00012014015009549734,
        -1.3652142420208862e-05,
    ),
}  # fmt: skip


def erfc(k: Builder, x: Operand) -> Operand:
    """1 - erf(x) for float32 and float64, within 2.1 ulp, denormal results included.

    ``e**(-a a) G / (1 + 2a)`` for ``a = |x|`` (after N. Juffa's), 2 minus that for a negative x,
    with what the square and the divisor lose to rounding put back; for a small a, where that is
    rounded too often, indeed 1 - erf(x).
    """
    a = at_most(k, k.apply("abs", x), ERFC_HIGHEST[x.dtype])
    y = erfc_of_positive(k, a)
    y = k.select(k.compare("lt", x, 0.0), k.sub(2.0, y), y)
    near = k.fma(x, polynomial(k, k.mul(x, x), ERFC_SERIES[x.dtype]), x)
    return k.select(k.compare("lt", a, ERFC_SPLIT), k.sub(1.0, near), y)


def erfc_of_positive(k: Builder, a: Operand) -> Operand:
    """`erfc` from 0 to `ERFC_HIGHEST`, within 3 ulp."""
    dtype = a.dtype
    square = k.mul(a, a)
    layout = FORMATS[dtype]
    r, _, bits = reduce_by_ln2(k, k.neg(square), layout.bias + SPARE)
    r = k.sub(r, k.fma(a, a, k.neg(square)))
    power_less_1 = k.fma(k.mul(r, r), polynomial(k, r, EXP[dtype]), r)
    ratio = _scaled_erfc(k, a)
    y = k.mul(k.fma(ratio, power_less_1, ratio), power_of_two(k, bits, layout))
    y = k.select(k.compare("ge", a, ERFC_HIGHEST[dtype]), 0.0, y)
    return k.mul(y, 2.0**-SPARE)


def _scaled_erfc(k: Builder, a: Operand) -> Operand:
    """``e**(a a) erfc(a)`` from 0 to `ERFC_HIGHEST`."""
    dtype = a.dtype
    centre, curve = ERFC_CENTRE[dtype], ERFC[dtype]
    bend = polynomial(k, k.div(k.sub(a, centre), k.add(a, centre)), curve.rest)
    above, below = k.add(bend, curve.first), k.fma(a, 2.0, 1.0)
    lost_above = k.sub(bend, k.sub(above, curve.first))
    lost_below = k.fma(a, 2.0, k.sub(1.0, below))
    inverse = k.div(k.const(1.0, dtype), below)
    ratio = k.mul(above, inverse)
    residue = k.fma(k.neg(ratio), lost_below, k.fma(k.neg(ratio), below, above))
    return k.fma(k.add(residue, lost_above), inverse, ratio)


# a e**(a a) erfc(a) above `ERFC_HIGHEST` by the reciprocal of a**2, its asymptotic series.
ERFCX_FAR: dict[DType, tuple[float, ...]] = {
    dtype: tuple((-1) ** n * prod(range(1, 2 * n, 2)) / 2**n / sqrt(pi) for n in range(terms))
    for dtype, terms in ((float32, 5), (float64, 8))
}


def erfcx(k: Builder, x: Operand) -> Operand:
    """``e**(x x) erfc(x)`` for float32 and float64, within 3.5 ulp: for a negative x it is
    ``2 e**(x x)`` less that of -x, with what the square loses to rounding put back."""
    dtype = x.dtype
    a, highest = k.apply("abs", x), ERFC_HIGHEST[dtype]
    inverse = k.div(k.const(1.0, dtype), at_least(k, a, highest))
    far = k.mul(inverse, polynomial(k, k.mul(inverse, inverse), ERFCX_FAR[dtype]))
    near = at_most(k, a, highest)
    y = k.select(k.compare("lt", a, highest), _scaled_erfc(k, near), far)
    square = k.mul(near, near)
    power = exp(k, square)
    fine = k.fma(power, k.fma(near, near, k.neg(square)), power)
    power = k.select(k.compare("eq", power, inf), power, fine)
    y = k.select(k.compare("lt", x, 0.0), k.fma(power, 2.0, k.neg(y)), y)
    return k.select(k.compare("ne", x, x), x, y)


@dataclass(frozen=True, slots=True)
class _Piece:
    """erfinv(x) / x for ``w = -log(1 - x x)`` below ``end``: a curve of ``w - centre``, or of
    ``sqrt(w) - centre`` in all pieces but the first."""

    end: float
    centre: float
    curve: _Curve


# To 2**-26.5 and 2**-27.4, 2**-55.0, 2**-55.2 and 2**-54.7.
ERFINV: dict[DType, tuple[_Piece, ...]] = {
    float32: (
        _Piece(
            5.0, 2.5,
            _Curve(1.5014093, (
                5.9474814e-08, 0.24664028, -0.0041773245, -0.0012527049, 0.00021826357,
                -4.998755e-06, -3.4260158e-06, 4.7969695e-07, 1.6457859e-08, -1.1022899e-08,
                4.3699241e-10, 1.3284063e-10,
            )),
        ),
        _Piece(
            inf, 3.0,
            _Curve(2.8329768, (
                -1.6590175e-08, 1.0016752, 0.009445302, -0.007642765, 0.0056877066, -0.0035670903,
                0.0014750935, -0.000120041615, -0.0002774776, 0.00016054799, -2.9517601e-05,
            )),
        ),
    ),
    float64: (
        _Piece(
            6.25, 3.125,
            _Curve(1.6536545626831027, (
                -1.8753604501134043e-17, 0.24015818242558834, -0.006033670871426996,
                -0.0007407025341545542, 0.000186734208020529, -1.3882523394196483e-05,
                -1.3654691772629357e-06, 4.234788171188332e-07, -2.907038989676376e-08,
                -4.112660641487323e-09, 1.0512225676192763e-09, -5.4142946922167586e-11,
                -1.2978504439072452e-11, 2.630503651016683e-12, -8.079284907006227e-14,
                -4.001593499145342e-14, 6.5333301081359264e-15, -3.987345615978286e-17,
                -1.2344736794534388e-16, 1.5544855844131958e-17, 6.955656289346142e-19,
                -3.4875016528155684e-19, 1.654339217071952e-20, 3.2190974045089788e-21,
                -3.002342462649799e-22,
            )),
        ),
        _Piece(
            16.0, 3.25,
            _Curve(3.0838856104922208, (
                -8.762461278956287e-17, 1.0052589676941652, 0.005370914553555197,
                -0.0037512085082143268, 0.0024914420979470528, -0.001688275535845139,
                0.0009532893418103246, -0.00035503780685688306, 2.4031510137488944e-05,
                6.828705073860007e-05, -4.732066217700019e-05, 1.2465414016130732e-05,
                2.932502274001942e-06, -3.987106519664731e-06, 1.481791865566636e-06,
                -2.4404677253561495e-08, -2.457967066386137e-07, 1.270667473690951e-07,
                -2.0660528663428644e-08, -1.1744739653533328e-08, 7.588410226838373e-09,
                -1.2025749562791705e-09,
            )),
        ),
        _Piece(
            inf, 5.0,
            _Curve(4.849906401408584, (
                -7.652091489493614e-17, 1.0103004648645453, -0.0001387193183807075,
                -0.0002150301198298836, 7.599527810990607e-05, -1.968177066762185e-05,
                4.5260524082398136e-06, -9.93029626815944e-07, 2.2905334622717555e-07,
                -6.755523417534733e-08, 2.901732288542234e-08, -1.525721681770792e-08,
                7.823374437879036e-09, -3.4686483425641164e-09, 1.314368938133582e-09,
                -4.392989744826911e-10, 7.028069714552316e-11, 4.33230004131089e-11,
                -2.0515570245619126e-11,
            )),
        ),
    ),
}  # fmt: skip


def erfinv(k: Builder, x: Operand) -> Operand:
    """The inverse of the error function for float32 and float64, within 2.2 ulp: infinite at -1 and
    1, NaN outside (after M. Giles, "Approximating the erfinv function", GPU Computing Gems 2)."""
    w = k.neg(log(k, k.fma(k.neg(x), x, 1.0)))
    root = k.apply("sqrt", w)
    first, *others = ERFINV[x.dtype]
    y = _times(k, x, k.sub(w, first.centre), first.curve)
    end = first.end
    for piece in others:
        far = _times(k, x, k.sub(root, piece.centre), piece.curve)
        y = k.select(k.compare("lt", w, end), y, far)
        end = piece.end
    ends = k.compare("eq", k.apply("abs", x), 1.0)
    return k.apply("copysign", k.select(ends, inf, y), x)


def _times(k: Builder, x: Operand, t: Operand, curve: _Curve) -> Operand:
    """x times the curve at t, rounded but once."""
    bend = polynomial(k, t, curve.rest)
    total = k.add(bend, curve.first)
    lost = k.sub(bend, k.sub(total, curve.first))
    return k.fma(x, total, k.mul(x, lost))

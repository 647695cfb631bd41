"""Cases of elementwise ops."""

import zlib

import torch
import torch.nn.functional as F

from draw import BF16, BOOL, F16, F32, F64, INF, NAN, U8, normal, of, uniform, whole
from suite import View, close, exact, expand, smooth, sums, transposed

TINY = (1e-40, -1e-40, 1.1754944e-38, -3e-45)


def unary(s, op, f, rule, grad, special, draw=normal, attrs=None, others=(), signed=True):
    """The usual cases of a function of one operand; `others`: further attributes, with the f that they make."""
    attrs = attrs or {}

    def add(slug, x, g=grad, a=attrs, f=f, tags=()):
        s.case(op, slug, f, {"x": x}, a, rule, g, tags=tags)

    add("basic", draw(2, 4))
    add("special", of(*special), None, tags=["signed_zero"] if signed else [])
    add("strided", transposed(draw(2, 3, key="strided")))
    # One way through the code serves all of them: an op has one of each two, and all of them together have both.
    which = zlib.crc32(op.encode()) % 2
    add(*[("scalar", draw(key="scalar")), ("empty", draw(0, 3))][which])
    add(*[("f16", draw(2, 3, dtype=F16)), ("bf16", draw(2, 3, dtype=BF16))][which])
    add("f64", draw(3, dtype=F64))
    for k, (a, g) in enumerate(others):
        add(f"attrs{k}", draw(2, 3, key=f"attrs{k}"), a=a, f=g)


def wide(*shape, dtype=F32, key=""):
    return normal(*shape, dtype=dtype, scale=3.0, key=key)


def positive(*shape, dtype=F32, key=""):
    return uniform(0.01, 20.0, *shape, dtype=dtype, key=key)


def unit(*shape, dtype=F32, key=""):
    return uniform(0.02, 0.98, *shape, dtype=dtype, key=key)


def cases(s):
    usual = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, *TINY)
    unary(s, "exp2", torch.exp2, close(4), smooth(8), (*usual, 127.9, 128.0, -126.0, -127.0, -149.0, -151.0, 10.0), wide)
    near_one = (1.0000001, 0.99999994, 1.5, 10.0, 100.0, 1e10, 3e38)
    unary(s, "log10", torch.log10, close(4), smooth(8), (*usual, *near_one), positive)
    far = (20.0, -20.0, 88.0, -88.0, 110.0, -110.0, 1e30, -1e30)
    unary(s, "log_sigmoid", F.logsigmoid, close(6), smooth(8), (*usual, *far), wide)
    cut = [({"eps": e}, lambda x, e=e: torch.logit(x, e)) for e in (0.125, 0.0625)]
    ends = (2.0, 0.25, 0.75, 0.99999994, 1e-30)
    unary(s, "logit", torch.logit, smooth(4), smooth(8), (*usual, *ends), unit, {"eps": None}, cut)
    x = of(NAN, INF, -INF, 0.0, -0.0, 1.0, -2.0, 0.5)
    s.case("logit", "special_cut", lambda x: torch.logit(x, 0.125), {"x": x}, {"eps": 0.125}, smooth(4))
    unary(s, "relu6", F.relu6, exact, exact, (*usual, 6.0, 5.9999995, 6.0000005, 3e38, -3e38), wide, signed=False)
    alpha = [({"alpha": a}, lambda x, a=a: F.celu(x, a)) for a in (0.5, 2.5)]
    unary(s, "celu", F.celu, close(6), smooth(8), (*usual, *far), wide, {"alpha": 1.0}, alpha)
    bounds = (3.0, -3.0, 2.9999998, -2.9999998, 100.0, -100.0)
    # PyTorch's own gradient multiplies by a sixth of float32 in float64, too.
    unary(s, "hardsigmoid", lambda x: F.relu6(x + 3) / 6, smooth(4), close(4), (*usual, *bounds), wide)
    shrink = (0.5000001, -0.5, -0.50000006, 0.49999997, 3e38, -3e38, 0.25, -0.25)
    by = lambda f: [({"lambd": v}, lambda x, v=v: f(x, v)) for v in (0.0, 1.25)]
    half = {"lambd": 0.5}
    # PyTorch's zeros have the sign of x at the end of a vector, and none in front of it: their sign is not compared.
    soft, special = F.softshrink, (*usual, *shrink)
    unary(s, "softshrink", soft, close(2), exact, special, attrs=half, others=by(soft), signed=False)
    unary(s, "hardshrink", F.hardshrink, exact, exact, (*usual, *shrink), attrs=half, others=by(F.hardshrink))
    unary(s, "tanhshrink", F.tanhshrink, smooth(6), smooth(8), (*usual, 9.5, -9.5, 30.0, 3e38, 1e-5))
    f = lambda x: F.threshold(x, 0.25, -20.0)
    other = [({"threshold": -1.0, "value": 7.5}, lambda x: F.threshold(x, -1.0, 7.5))]
    at = (0.25, 0.24999999, 0.25000003, 3e38)
    unary(s, "threshold", f, exact, exact, (*usual, *at), attrs={"threshold": 0.25, "value": -20.0}, others=other)
    isfinite(s, usual)
    copysign(s)
    fma(s)


def isfinite(s, usual):
    def add(slug, x):
        s.case("isfinite", slug, torch.isfinite, {"x": x})

    add("special", of(*usual, 3.4028235e38, -3.4028235e38))
    add("f16", of(NAN, INF, -INF, 65504.0, 0.0, dtype=F16))
    add("bf16", of(NAN, INF, -INF, 3e38, 0.0, dtype=BF16))
    add("f64", of(NAN, INF, -INF, 1e308, 0.0, dtype=F64))
    add("i64", whole(-5, 5, 2, 3))
    add("u8", whole(0, 255, 4, dtype=U8))
    add("bool", of(True, False, dtype=BOOL))
    add("strided", transposed(of([1.0, NAN, 2.0], [INF, 3.0, -INF])))
    add("scalar", of(INF).reshape(()))
    add("empty", normal(2, 0))


def copysign(s):
    def add(slug, x, y, g=exact, **more):
        s.case("copysign", slug, torch.copysign, {"x": x, "y": y}, grad=g, **more)

    add("basic", normal(3, 4), normal(3, 4, key="y"))
    add("broadcast", normal(2, 1, 3), normal(4, 1, key="y"), sums)
    some = of(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 1e-40, 3e38)
    add("special", some[:, None], some[None], None, tags=["signed_zero"])
    add("zero", of(0.0, -0.0, 1.0, -2.0), of(1.0, -1.0, 0.0, -0.0), tags=["signed_zero"])
    add("strided", transposed(normal(2, 3)), View(normal(1, 3, key="y"), expand(2, 3)))
    add("empty", normal(0, 3), normal(1, 3, key="y"))
    for dtype, name in [(F16, "f16"), (BF16, "bf16"), (F64, "f64")]:
        add(name, normal(2, 3, dtype=dtype), normal(2, 3, dtype=dtype, key="y"))
    for value in (-2.5, 3):
        attrs = {"scalar": value, "scalar_side": "right"}
        f = lambda x, v=value: torch.copysign(x, v)
        s.case("copysign", "number", f, {"x": normal(2, 3, key=value)}, attrs, grad=exact)


def fma(s):
    """PyTorch has none: x * y + z in float64, where products of all shorter types are exact."""

    def add(slug, x, y, z, rule=close(1), grad=close(2), **more):
        f = lambda x, y, z: x * y + z
        s.case("fma", slug, f, {"x": x, "y": y, "z": z}, rule=rule, grad=grad, own=False, **more)

    add("basic", normal(3, 4), normal(3, 4, key="y"), normal(3, 4, key="z"))
    x, y = uniform(1, 2, 6), uniform(1, 2, 6, key="y")
    add("cancels", x, y, -(x * y))
    add("broadcast", normal(2, 1, 3), normal(4, 1, key="y"), normal(key="z"), grad=sums)
    some = (NAN, INF, 0.0, -0.0, 3e38, 1e-30)
    x, y = of(*some)[:, None], of(*some)[None]
    add("special", x, y, of(-0.0), grad=None, tags=["signed_zero"])
    add("opposite_inf", of(INF, INF, 1e30, 3e38), of(1.0, -1.0, 1e30, 2.0), of(-INF, -INF, -INF, -3e38), grad=None)
    add("strided", transposed(normal(2, 3)), View(normal(1, 3, key="y"), expand(2, 3)), normal(2, 3, key="z"), grad=sums)
    add("empty", normal(0), normal(0), normal(0))
    for dtype, name in [(F16, "f16"), (BF16, "bf16")]:
        add(name, *(normal(2, 3, dtype=dtype, key=k) for k in "xyz"))
    # Of 26 bits each, so that float64 holds the product and rounds once.
    x, y = (whole(-(2**25), 2**25, 5, key=k).double() / 2**24 for k in "xy")
    add("f64", x, y, -(x * y) + 2.0**-60, exact, close(2))

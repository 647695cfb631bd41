"""Cases of special functions, of `fmax` and its kin, and of ops beside them."""

import torch

from draw import BF16, F16, F32, F64, I32, INF, NAN, U8, distinct, normal, of, uniform, whole
from elementwise import TINY, positive, unary, unit, wide
from indexing import at
from suite import View, close, cut, exact, expand, products, smooth, sums, transposed


def cases(s):
    functions(s)
    polygamma(s)
    frexp(s)
    binary(s)
    extremes(s)
    heaviside(s)
    ldexp(s)
    rrelu(s)
    indices(s)
    histogram(s)
    addbmm(s)
    divisors(s)


def between(low, high):
    return lambda *shape, dtype=F32, key="": uniform(low, high, *shape, dtype=dtype, key=key)


def trigamma(r):
    """PyTorch's own is off by 1e-10 in float64: it ends its series early."""
    return max(16 * r.eps, 1e-9), max(r.tiny, 16 * r.eps * r.seed)


def functions(s):
    usual = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, *TINY)
    big = (1e4, -1e4, 1e10, 3e38, -3e38)
    unary(s, "asinh", torch.asinh, close(4), smooth(8), (*usual, *big, 1e-4, 0.3), wide)
    unary(s, "acosh", torch.acosh, close(4), smooth(8), (NAN, INF, 1.0, 1.0000001, 1.5, 1e4, 1e10, 3e38, 0.5, -2.0), between(1.1, 9), signed=False)
    unary(s, "atanh", torch.atanh, close(4), smooth(8), (*usual, 0.99999994, -0.999, 1e-4, 2.0, -1.5), between(-0.95, 0.95))
    tails = (0.5624, 0.5626, 3.0, -3.0, 9.0, 10.0, 12.0, -6.0)
    unary(s, "erfc", torch.erfc, close(8), smooth(8), (*usual, *tails), wide, signed=False)
    unary(s, "erfcx", torch.special.erfcx, close(8), smooth(16), (NAN, INF, -INF, 0.0, 1.0, -1.0, *tails, 11.0, 1e4, 1e30, -20.0), normal, signed=False)
    unary(s, "erfinv", torch.erfinv, close(8), smooth(16), (*usual, 0.99999994, -0.9999, 0.9, 1e-4, 1.5, -2.0), between(-0.97, 0.97))
    unary(s, "ndtr", torch.special.ndtr, close(8), smooth(8), (*usual, 0.796, 0.797, -0.797, -5.0, -12.0, 6.0), wide, signed=False)
    unary(s, "log_ndtr", torch.special.log_ndtr, close(8), smooth(8), (NAN, -INF, 0.0, 1.0, -1.0, 0.5, 0.797, -0.797, -5.0, -40.0, -1e4, -1e10, 6.0), wide, signed=False)
    unary(s, "ndtri", torch.special.ndtri, close(8), smooth(32), (NAN, 0.0, 1.0, 0.5, 0.25, 0.50000006, 1e-30, 1e-4, 0.9999, 2.0, -1.0), unit, signed=False)
    unary(s, "lgamma", torch.lgamma, smooth(8), smooth(8), (NAN, INF, -INF, 0.0, 1.0, 2.0, 0.5, 1.5, 2.5, 7.9, 8.0, 1e4, 1e10, 1e-30, -0.25, -1.5, -2.5, -7.3), positive, signed=False)
    unary(s, "digamma", torch.digamma, smooth(16), trigamma, (NAN, INF, 0.0, -0.0, 1.0, 2.0, 0.5, 1.4616321, 7.9, 8.0, 1e4, 1e-20, -0.25, -1.5, -2.5, -7.3, -3.0), positive, signed=False)
    unary(s, "entr", torch.special.entr, close(6), smooth(8), (NAN, INF, -INF, 0.0, -0.0, 1.0, 0.5, -1.0, 1e-40, 1e30), positive, signed=False)
    unary(s, "sinc", torch.sinc, smooth(8), smooth(16), (NAN, 0.0, -0.0, 0.5, 1.5, 0.25, -2.5, 1e-10, 1e-40), wide, signed=False)


def polygamma(s):
    for n in range(10):
        f = lambda x, n=n: torch.polygamma(n, x)
        draw = uniform(0.3, 9.0, 2, 3, key=n)
        # PyTorch's own zeta stops early: it is good for 1e-7 of higher orders.
        rule, grad = smooth(32), smooth(64)
        s.case("polygamma", f"order{n}", f, {"x": draw}, {"n": n}, rule, grad if n < 9 else None)
    f = lambda x: torch.polygamma(1, x)
    s.case("polygamma", "special", f, {"x": of(NAN, INF, 0.5, 1e4, -0.5, -1.25, -7.75)}, {"n": 1}, smooth(32))
    s.case("polygamma", "strided", f, {"x": transposed(uniform(0.3, 9.0, 2, 3))}, {"n": 1}, smooth(32), smooth(64))
    s.case("polygamma", "f64", f, {"x": uniform(0.3, 9.0, 4, dtype=F64)}, {"n": 1}, trigamma, smooth(64))
    s.case("polygamma", "f16", f, {"x": uniform(0.5, 9.0, 4, dtype=F16)}, {"n": 1}, smooth(32), smooth(64))


def frexp(s):
    def add(slug, x, grad=exact):
        s.case("frexp", slug, torch.frexp, {"x": x}, grad=grad)

    add("basic", normal(3, 4))
    add("special", of(0.0, -0.0, 1.0, -2.0, 0.99999994, 3e38, 1e-40, -3e-45, 1.1754944e-38, 8.0, 7.9999995), None)
    add("strided", transposed(normal(2, 3)))
    add("empty", normal(0, 3))
    add("scalar", normal())
    add("f16", normal(2, 3, dtype=F16))
    add("bf16", normal(2, 3, dtype=BF16))
    add("f64", of(1e-310, 1.0, -3.5, 1e300, 0.0, 1 - 2.0**-53, dtype=F64), None)


def pairs(s, op, f, rule, grad, x, y, special):
    """The usual cases of a function of two operands, drawn by x and y."""

    def add(slug, x, y, g=grad, **more):
        s.case(op, slug, f, {"x": x, "y": y}, rule=rule, grad=g, **more)

    add("basic", x(3, 4), y(3, 4, key="y"))
    add("broadcast", x(2, 1, 3), y(4, 1, key="y"))
    add("special", of(*special)[:, None], of(*special)[None], None)
    add("strided", transposed(x(2, 3)), View(y(1, 3, key="y"), expand(2, 3)))
    add("empty", x(0, 3), y(1, 3, key="y"))
    for dtype, name in [(F16, "f16"), (BF16, "bf16"), (F64, "f64")]:
        add(name, x(2, 3, dtype=dtype), y(2, 3, dtype=dtype, key="y"))
    attrs = {"scalar": 1.5, "scalar_side": "right"}
    s.case(op, "number", lambda x: f(x, torch.tensor(1.5, dtype=x.dtype)), {"x": x(2, 3)}, attrs, rule, grad)


def binary(s):
    # A sum of gradients, where one side was broadcast.
    grad = lambda k: lambda r: (max(sums(r)[0], k * r.eps), max(sums(r)[1], k * r.eps * r.seed))
    some = (NAN, INF, 0.0, 1.0, 0.5, 2.0, 1e-40, 1e30)
    pairs(s, "xlogy", torch.xlogy, smooth(4), grad(8), positive, positive, (*some, -1.0))
    pairs(s, "xlog1py", torch.special.xlog1py, smooth(4), grad(8), positive, positive, (*some, -0.5))
    pairs(s, "hypot", torch.hypot, close(2), grad(8), normal, normal, (NAN, INF, -INF, 0.0, 1.0, -3.0, 1e-40, 1e-30, 1e30, 2e38))


def extremes(s):
    for op, f in [("fmax", torch.fmax), ("fmin", torch.fmin)]:
        pairs(s, op, f, exact, sums, normal, normal, (NAN, INF, -INF, 0.0, 1.0, -3.0, 1e-40))
        s.case(op, "tie", f, {"x": of(1.0, 2.0, NAN, NAN), "y": of(1.0, 3.0, 1.0, NAN)}, grad=exact)
        s.case(op, "i64", f, {"x": whole(-9, 9, 4), "y": whole(-9, 9, 4, key="y")})
        s.case(op, "u8", f, {"x": whole(0, 255, 4, dtype=U8), "y": whole(0, 255, 4, dtype=U8, key="y")})


def heaviside(s):
    def add(slug, x, values):
        s.case("heaviside", slug, torch.heaviside, {"x": x, "values": values})

    add("special", of(NAN, INF, -INF, 0.0, -0.0, 1e-40, -1e-40), of(0.5))
    add("broadcast", of([0.0], [1.0], [-1.0]), normal(4))
    add("strided", transposed(of([0.0, 1.0], [0.0, -1.0])), normal(2))
    add("empty", normal(0), normal(1))
    add("f16", of(0.0, 1.0, -2.0, dtype=F16), of(0.25, dtype=F16))
    add("f64", of(0.0, 1.0, -2.0, dtype=F64), of(0.25, dtype=F64))
    add("i64", whole(-2, 3, 6), whole(5, 9, 6, key="v"))


def ldexp(s):
    def add(slug, x, y, grad=smooth(8), **more):
        s.case("ldexp", slug, torch.ldexp, {"x": x, "y": y}, rule=close(4), grad=grad, **more)

    add("basic", normal(3, 4), normal(3, 4, key="y"))
    add("whole", normal(2, 5), of(-3.0, 0.0, 1.0, 30.0, -40.0), sums)
    add("i64", normal(2, 5), whole(-20, 20, 2, 5), diff=["x"])
    add("i32", normal(5), whole(-20, 20, 5, dtype=I32), diff=["x"])
    add("far", of(1e-30, 1e30, 3e-45, 1e38, 1.0), of(200.0, -200.0, 270.0, 1.0, 128.0), None)
    add("special", of(NAN, INF, -INF, 0.0, -0.0, 1.0), of(1.0, 2.0, -3.0, 5.0, 7.0, -10.0), None)
    add("strided", transposed(normal(2, 3)), transposed(normal(2, 3, key="y")))
    add("f64", normal(5, dtype=F64), normal(5, dtype=F64, key="y"))
    add("bf16", normal(5, dtype=BF16), of(1.0, 2.0, -3.0, 0.0, 5.0, dtype=BF16))
    add("empty", normal(0), normal(0))


def rrelu(s):
    def add(slug, x, rule=close(2), lower=0.125, upper=1 / 3, training=False):
        f = lambda x: torch.nn.functional.rrelu(x, lower, upper, training)
        attrs = {"lower": lower, "upper": upper, "training": training}
        if training:
            # PyTorch draws from a generator of its own: one slope, between equal bounds.
            attrs |= {"seed": 7, "stream": 3}
            f = lambda x: torch.where(x > 0, x, x * lower)
        s.case("rrelu", slug, f, {"x": x}, attrs, rule, rule)

    add("defaults", normal(3, 4))
    add("bounds", normal(3, 4), lower=-0.5, upper=1.5)
    add("training", normal(3, 4), exact, 0.25, 0.25, True)
    add("strided", transposed(normal(2, 3)))
    add("strided_training", transposed(normal(2, 3)), exact, 0.5, 0.5, True)
    add("special", of(0.0, -0.0, INF, -INF, 1e-40))
    add("empty", normal(0, 2))
    add("f16", normal(5, dtype=F16))
    add("f64", normal(5, dtype=F64))


def indices(s):
    for op, f in [("tril_indices", torch.tril_indices), ("triu_indices", torch.triu_indices)]:
        for k, (row, col, offset) in enumerate([(3, 3, 0), (4, 3, 1), (3, 5, -1), (2, 4, 9), (3, 3, -9), (0, 3, 0), (3, 0, 0)]):
            g = lambda like: f(row, col, offset)
            s.case(op, f"case{k}", g, {"like": normal(1)}, {"row": row, "col": col, "offset": offset})


def histogram(s):
    def add(slug, x, bins, range=None, weight=None, density=False):
        more = {} if weight is None else {"weight": weight}
        attrs = {"density": density, "range": range}
        if isinstance(bins, int):
            attrs["bins"] = bins
            f = lambda x, *w: torch.histogram(x.contiguous(), bins, range=range, density=density, weight=w[0] if w else None)
        else:
            more = {"bins": bins} | more
            f = lambda x, b, *w: torch.histogram(x.contiguous(), b, density=density, weight=w[0] if w else None)
        s.case("histogram", slug, f, {"x": x} | more, attrs, rule=sums)

    add("range", normal(4, 5), 4, (-2.0, 2.0))
    add("range_of_the_elements", normal(20), 5)
    add("edges", of(0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -1.0), of(0.0, 0.5, 1.25, 2.0))
    add("weights", normal(12), 3, (-1.0, 1.5), normal(12, key="w"))
    add("density", normal(12), of(-2.0, -0.5, 0.25, 3.0), None, None, True)
    add("density_of_weights", normal(12), 3, (-3.0, 3.0), uniform(0, 1, 12), True)
    add("equal", of(2.0, 2.0, 2.0), 4)
    add("strided", transposed(normal(3, 4)), 3, (-1.0, 1.0))
    add("empty", normal(0), 3, (0.0, 1.0))
    add("f64", normal(9, dtype=F64), 4)


def addbmm(s):
    def add(slug, input, x, y, beta=1, alpha=1, grad=products, **more):
        f = lambda i, x, y: torch.addbmm(i, x, y, beta=beta, alpha=alpha)
        attrs = {"beta": beta, "alpha": alpha}
        s.case("addbmm", slug, f, {"input": input, "x": x, "y": y}, attrs, products, grad, **more)

    add("plain", normal(3, 5), normal(2, 3, 4), normal(2, 4, 5, key="y"))
    add("factors", normal(3, 5), normal(2, 3, 4), normal(2, 4, 5, key="y"), 0.5, -2.0)
    add("without_input", of(NAN).expand(3, 5).clone(), normal(2, 3, 4), normal(2, 4, 5, key="y"), 0, 1, None)
    add("broadcast", normal(5), normal(2, 3, 4), normal(2, 4, 5, key="y"))
    add("strided", normal(2, 3), transposed(normal(2, 2, 4)), transposed(normal(2, 4, 3, key="y")))
    add("no_batches", normal(3, 5), normal(0, 3, 4), normal(0, 4, 5))
    add("f64", normal(3, 2, dtype=F64), normal(2, 3, 4, dtype=F64), normal(2, 4, 2, dtype=F64, key="y"))
    add("f16", normal(3, 2, dtype=F16), normal(2, 3, 4, dtype=F16), normal(2, 4, 2, dtype=F16, key="y"))
    add("i64", whole(-9, 9, 3, 2), whole(-9, 9, 2, 3, 4), whole(-9, 9, 2, 4, 2, key="y"), 2, 3, None)


def divisors(s):
    for op, f, x, k in [
        ("avg_pool2d", torch.nn.functional.avg_pool2d, normal(2, 3, 5, 6), [2, 3]),
        ("avg_pool3d", torch.nn.functional.avg_pool3d, normal(1, 2, 4, 5, 4), [2, 3, 2]),
    ]:
        attrs = {"kernel_size": k, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False, "divisor_override": 5}
        g = lambda x: f(x, k, 2, 1, True, False, 5)
        s.case(op, "divisor", g, {"x": x}, attrs, sums, sums)

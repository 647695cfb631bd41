"""Cases of comparisons with a tolerance, order statistics and running extremes."""

import math

import torch

from draw import BF16, BOOL, F16, F64, I32, I64, INF, NAN, U8, distinct, normal, of, whole
from suite import View, cut, exact, smooth, sums, transposed


def cases(s):
    closeness(s)
    signs(s)
    nan_to_num(s)
    isin(s)
    extremes(s)
    moments(s)
    medians(s)
    running(s)
    logaddexp(s)
    diff(s)
    kthvalue(s)
    mode(s)
    quantiles(s)
    without_nan(s)


def closeness(s):
    def add(slug, x, y, both=True, **attrs):
        all = {"rtol": 1e-5, "atol": 1e-8, "equal_nan": False} | attrs
        inputs = {"x": x, "y": y}
        s.case("isclose", slug, lambda x, y: torch.isclose(x, y, **all), inputs, all, own=False)
        if both:
            f = lambda x, y: torch.tensor(torch.allclose(x, y, **all))
            s.case("allclose", slug, f, inputs, all, own=False)

    x = normal(2, 3)
    add("near", x, x * (1 + 2.0**-20))
    add("far", x, x * (1 + 2.0**-10))
    add("tolerances", of(0.0, 1.0, 100.0), of(0.5, 1.5, 80.0), rtol=0.25, atol=0.375)
    add("special", of(NAN, INF, INF, -0.0, -INF), of(NAN, INF, -INF, 0.0, 1.0))
    add("equal_nan", of(NAN, INF, NAN), of(NAN, INF, 1.0), equal_nan=True)
    add("broadcast", x, x[:1])
    add("empty", normal(0, 2), normal(0, 2, key="y"))
    add("strided", transposed(normal(2, 3)), transposed(normal(2, 3)))
    add("f16", normal(4, dtype=F16), normal(4, dtype=F16), rtol=0.0)
    add("i64", torch.tensor([1, 5, 100, -7]), torch.tensor([1, 6, 90, -7]), rtol=0.125, atol=0.0)
    add("i64_exactly", torch.tensor([1, 2**53 + 1]), torch.tensor([1, 2**53]), rtol=0.0, atol=0.0)
    add("bool", whole(0, 2, 4, dtype=BOOL), whole(0, 2, 4, dtype=BOOL), False, rtol=0.0, atol=0.0)

    def equal(slug, x, y):
        s.case("equal", slug, lambda x, y: torch.tensor(torch.equal(x, y)), {"x": x, "y": y})

    equal("same", x, x.clone())
    equal("other", x, x + 1)
    equal("shapes", x, normal(3, 2))
    equal("zeros", of(0.0, -0.0), of(-0.0, 0.0))
    equal("nan", of(NAN), of(NAN))
    equal("empty", normal(0), normal(0))
    equal("strided", transposed(normal(2, 3)), normal(2, 3))
    equal("i64", whole(-9, 9, 4), whole(-9, 9, 4))
    equal("bool", whole(0, 2, 4, dtype=BOOL), whole(0, 2, 4, dtype=BOOL, key="y"))


def signs(s):
    special = of(NAN, INF, -INF, 0.0, -0.0, 1.5, -1e-40)
    numbers = special
    for op in ["isposinf", "isneginf", "signbit"]:
        f = getattr(torch, op)
        # The sign of NaN is not specified.
        special = numbers[~numbers.isnan()] if op == "signbit" else numbers
        s.case(op, "special", f, {"x": special})
        s.case(op, "f64", f, {"x": special.double()})
        s.case(op, "f16", f, {"x": special.half()})
        s.case(op, "bf16", f, {"x": special.to(BF16)})
        s.case(op, "strided", f, {"x": View(torch.stack([special, special]), cut(1, 0, None, 2))})
        s.case(op, "empty", f, {"x": normal(0, 2)})
        s.case(op, "scalar", f, {"x": normal()})
        s.case(op, "i64", f, {"x": whole(-9, 9, 4)})
        s.case(op, "u8", f, {"x": whole(0, 255, 4, dtype=U8)})
        s.case(op, "bool", f, {"x": whole(0, 2, 4, dtype=BOOL)})


def nan_to_num(s):
    def add(slug, x, nan=0.0, posinf=None, neginf=None, grad=exact):
        # JSON has no such numbers.
        word = lambda v: v if v is None or math.isfinite(v) else str(v)
        attrs = {"nan": word(nan), "posinf": word(posinf), "neginf": word(neginf)}
        dtype = (x.base if isinstance(x, View) else x).dtype
        # In the dtype of the case, whose largest number it is.
        if dtype.is_floating_point:
            most = torch.finfo(dtype).max
            told = {"nan": nan, "posinf": most if posinf is None else posinf, "neginf": -most if neginf is None else neginf}
        else:
            told = {"nan": nan}
        f = lambda x: torch.nan_to_num(x, **told)
        s.case("nan_to_num", slug, f, {"x": x}, attrs, grad=grad)

    special = of(NAN, INF, -INF, 0.0, -0.0, 1.5)
    add("special", special)
    add("numbers", special, 2.5, 100.0, -7.0)
    add("nan_for_inf", special, 1.0, NAN, INF, None)
    add("f64", special.double())
    add("f16", special.half())
    add("bf16", special.to(BF16))
    add("strided", transposed(normal(2, 3)))
    add("empty", normal(0))
    add("i64", whole(-9, 9, 4), 1.0, grad=None)


def isin(s):
    def add(slug, x, y, invert=False):
        f = lambda x, y: torch.isin(x.contiguous(), y.contiguous(), invert=invert)
        s.case("isin", slug, f, {"elements": x, "test_elements": y}, {"invert": invert})

    add("some", whole(0, 9, 3, 4), torch.tensor([1, 4, 4, 7]))
    add("none_of_them", whole(0, 9, 3, 4), torch.tensor([[1, 4], [4, 7]]), True)
    add("floats", of(1.0, NAN, INF, -0.0, 2.5), of(0.0, INF, NAN, 2.5))
    add("of_nothing", whole(0, 9, 3), torch.zeros(0, dtype=I64))
    add("nothing", torch.zeros(0, 2, dtype=I64), whole(0, 9, 3), True)
    add("one", whole(0, 3, 4, dtype=I32), torch.tensor([1], dtype=I32))
    add("strided", transposed(distinct(3, 4)), transposed(distinct(2, 4)))


def extremes(s):
    def add(slug, x, dim=None, keepdim=False, grad=sums):
        f = lambda x: torch.aminmax(x, dim=dim, keepdim=keepdim)
        s.case("aminmax", slug, f, {"x": x}, {"dim": dim, "keepdim": keepdim}, grad=grad)

    add("all", distinct(3, 4))
    add("rows", distinct(3, 4), 1)
    add("keepdim", distinct(3, 4), 0, True)
    add("nan", of([1.0, NAN], [2.0, 3.0]), 1, grad=None)
    add("strided", transposed(distinct(3, 4)), -1)
    add("scalar", normal(), 0)
    add("f16", distinct(2, 3, dtype=F16), 1)
    add("i64", whole(-9, 9, 3, 4), 1, grad=None)


def moments(s):
    for op, f in [("var_mean", torch.var_mean), ("std_mean", torch.std_mean)]:
        def add(slug, x, dim=None, correction=1, keepdim=False):
            attrs = {"dim": dim, "correction": correction, "keepdim": keepdim}
            g = lambda x: f(x, dim, correction=correction, keepdim=keepdim)
            s.case(op, slug, g, {"x": x}, attrs, sums, sums)

        add("all", normal(3, 4))
        add("rows", normal(3, 4), 1)
        add("several", normal(2, 3, 4), [0, 2], 0, True)
        add("strided", transposed(normal(3, 4)), 0, 2)
        add("f64", normal(3, 4, dtype=F64), 1)


def medians(s):
    def all(op, f, slug, x, grad=exact):
        s.case(op, slug, f, {"x": x}, {"dim": None, "keepdim": False}, grad=grad)

    all("nanmedian", torch.nanmedian, "all", distinct(3, 5))
    all("nanmedian", torch.nanmedian, "all_but_nan", of([1.0, NAN, 3.0], [2.0, NAN, 9.0]))

    def add(slug, x, dim, keepdim=False, grad=exact):
        f = lambda x: torch.nanmedian(x, dim, keepdim)
        s.case("nanmedian", slug, f, {"x": x}, {"dim": dim, "keepdim": keepdim}, grad=grad, seeded=[0])

    add("odd", distinct(3, 5), 1)
    add("even_takes_the_lower", distinct(2, 6), -1, True)
    add("some_nan", of([1.0, NAN, 3.0, 2.0], [4.0, 2.0, 9.0, -1.0], [NAN, 2.0, NAN, NAN]), 1)
    add("strided", transposed(distinct(3, 4)), 1)
    add("f16", distinct(2, 5, dtype=F16), 1)
    add("i64", torch.tensor([[5, -3, 9, 2**40], [1, 0, -7, 8]]), 1, grad=None)


def running(s):
    for op, f in [("cummax", torch.cummax), ("cummin", torch.cummin)]:
        def add(slug, x, dim, grad=sums):
            s.case(op, slug, lambda x: f(x, dim), {"x": x}, {"dim": dim}, grad=grad)

        add("rows", distinct(3, 5), 1)
        add("columns", distinct(9, 2), 0)
        add("equal", of(1.0, 2.0, 2.0, 1.0, 2.0, 1.0, 1.0), 0)
        add("nan", of(1.0, NAN, 3.0, NAN, 5.0), 0, None)
        add("inf", of(-INF, INF, -INF, INF), 0, None)
        add("one", distinct(3, 1), 1)
        add("empty", normal(2, 0), 1)
        add("scalar", normal(), 0)
        add("strided", transposed(distinct(3, 4)), -1)
        add("bf16", distinct(2, 5, dtype=BF16), 1)
        add("i64", whole(-9, 9, 3, 6), 1, None)

    def add(slug, x, dim, grad=sums):
        f = lambda x: torch.logcumsumexp(x, dim)
        s.case("logcumsumexp", slug, f, {"x": x}, {"dim": dim}, sums, grad)

    add("rows", normal(3, 5), 1)
    add("columns", normal(9, 2), 0)
    add("large", of(1000.0, 1000.5, -1000.0, 999.0), 0)
    add("inf", of(-INF, -INF, 1.0, INF, 2.0), 0, None)
    add("one", normal(3, 1), 1)
    add("strided", transposed(normal(3, 4)), -1)
    add("f64", normal(2, 7, dtype=F64), 1)
    add("f16", normal(2, 5, dtype=F16), 1)


def logaddexp(s):
    def add(slug, x, y, grad=smooth(4)):
        s.case("logaddexp", slug, torch.logaddexp, {"x": x, "y": y}, {}, smooth(4), grad)

    add("plain", normal(3, 4), normal(3, 4, key="y"))
    add("equal", of(0.0, 2.0, -300.0), of(0.0, 2.0, -300.0))
    add("large", of(1000.0, -1000.0, 1e30), of(1001.0, 5.0, -1e30))
    add("special", of(INF, -INF, -INF, NAN, INF), of(1.0, -INF, 2.0, 1.0, -INF), None)
    add("broadcast", normal(3, 4), normal(4, key="y"))
    add("strided", transposed(normal(2, 3)), transposed(normal(2, 3, key="y")))
    add("f64", normal(5, dtype=F64), normal(5, dtype=F64, key="y"))
    add("bf16", normal(5, dtype=BF16), normal(5, dtype=BF16, key="y"))


def diff(s):
    def add(slug, x, n=1, dim=-1, grad=sums, **ends):
        f = lambda x, *e: torch.diff(x, n=n, dim=dim, **dict(zip(ends, e)))
        s.case("diff", slug, f, {"x": x} | ends, {"n": n, "dim": dim}, sums, grad)

    add("rows", normal(3, 5))
    add("columns_twice", normal(4, 2), 2, 0)
    add("never", normal(3), 0)
    add("too_often", normal(2, 3), 5)
    add("ends", normal(2, 3), prepend=normal(2, 2, key="p"), append=normal(2, 1, key="a"))
    add("strided", transposed(normal(3, 4)))
    add("i64", whole(-9, 9, 2, 4), grad=None)
    add("bool", whole(0, 2, 2, 5, dtype=BOOL), grad=None)


def kthvalue(s):
    def add(slug, x, k, dim=-1, keepdim=False, grad=exact):
        f = lambda x: torch.kthvalue(x, k, dim, keepdim)
        s.case("kthvalue", slug, f, {"x": x}, {"k": k, "dim": dim, "keepdim": keepdim}, grad=grad)

    add("first", distinct(3, 5), 1)
    add("last", distinct(3, 5), 5)
    add("columns", distinct(4, 3), 2, 0, True)
    add("nan_is_the_largest", of([1.0, NAN, 3.0], [4.0, 2.0, -1.0]), 3, grad=None)
    add("scalar", normal(), 1, 0)
    add("strided", transposed(distinct(3, 4)), 2)
    add("f16", distinct(2, 5, dtype=F16), 4)
    add("i64", torch.tensor([[5, -3, 9, 2**40], [1, 0, -7, 8]]), 2, grad=None)


def mode(s):
    def add(slug, x, dim=-1, keepdim=False, grad=exact):
        f = lambda x: torch.mode(x, dim, keepdim)
        s.case("mode", slug, f, {"x": x}, {"dim": dim, "keepdim": keepdim}, grad=grad)

    add("one_wins", of([1.0, 2.0, 2.0, 5.0], [3.0, 3.0, 3.0, 0.0]))
    add("the_smallest_of_several", distinct(3, 5))
    add("columns", of([1.0, 4.0], [1.0, 2.0], [0.0, 4.0]), 0, True)
    add("one", distinct(3, 1))
    add("scalar", normal(), 0)
    add("strided", transposed(of([1.0, 4.0, 1.0], [1.0, 2.0, 2.0])))
    add("i64", torch.tensor([[5, -3, 9, 5], [1, 0, 0, 8]]), grad=None)


def quantiles(s):
    for op, f in [("quantile", torch.quantile), ("nanquantile", torch.nanquantile)]:
        def add(slug, x, q, dim=None, keepdim=False, how="linear", grad=sums):
            dtype = (x.base if isinstance(x, View) else x).dtype
            attrs = {"q": q, "dim": dim, "keepdim": keepdim, "interpolation": how}
            t = lambda x: torch.tensor(q, dtype=dtype).to(x.dtype)
            g = lambda x: f(x, t(x), dim, keepdim, interpolation=how)
            s.case(op, slug, g, {"x": x}, attrs, sums, grad)

        add("half", distinct(3, 5), 0.5)
        add("several", distinct(3, 6), [0.0, 0.3, 0.75, 1.0], 1)
        add("keepdim", distinct(4, 3), [0.4, 0.9], 0, True)
        add("number_keepdim", distinct(4, 3), 0.4, None, True)
        for how in ["lower", "higher", "midpoint", "nearest"]:
            add(how, distinct(2, 8), [0.1, 0.45, 0.6], -1, False, how)
        add("nan", of([1.0, NAN, 3.0, 2.0], [4.0, 2.0, 9.0, -1.0], [NAN, NAN, NAN, NAN]), [0.25, 0.5], 1, grad=None)
        add("one", distinct(3, 1), 0.7, 1)
        add("strided", transposed(distinct(3, 4)), [0.2, 0.5], -1)
        add("f64", distinct(2, 7, dtype=F64), 0.35, 1)


def without_nan(s):
    for op, f in [("nansum", torch.nansum), ("nanmean", torch.nanmean)]:
        def add(slug, x, dim=None, keepdim=False, grad=sums):
            s.case(op, slug, lambda x: f(x, dim, keepdim), {"x": x}, {"dim": dim, "keepdim": keepdim}, sums, grad)

        nan = of([1.0, NAN, 3.0, 2.0], [4.0, 2.0, 9.0, -1.0], [NAN, NAN, NAN, NAN])
        add("plain", normal(3, 4))
        add("rows", nan[:2], 1)
        add("all_nan", nan, 1, True, None)
        add("inf", of(INF, NAN, 1.0), 0, grad=None)
        add("several", normal(2, 3, 4), [0, 2])
        add("strided", transposed(normal(3, 4)), 0)
        add("f16", of(1.0, NAN, 3.0, dtype=F16), 0)
    s.case("nansum", "i64", torch.nansum, {"x": whole(-9, 9, 3)}, {"dim": None, "keepdim": False}, sums)

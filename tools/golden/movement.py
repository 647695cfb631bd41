"""Cases of ops that move, choose and count elements."""

import torch
import torch.nn.functional as F

from draw import BF16, BOOL, F16, F32, F64, I32, I64, INF, NAN, U8, distinct, normal, of, whole
from suite import View, cut, exact, expand, permute, sums, transposed


def cases(s):
    median(s)
    slice_assign(s)
    unbind(s)
    diag(s)
    trace(s)
    fold(s)
    movedim(s)
    meshgrid(s)
    repeat_interleave(s)
    index_fill(s)
    searchsorted(s)
    bincount(s)


def median(s):
    def add(slug, x, dim, keepdim=False, grad=exact, **more):
        f = lambda x: torch.median(x, dim, keepdim)
        s.case("median", slug, f, {"x": x}, {"dim": dim, "keepdim": keepdim}, grad=grad, seeded=[0], **more)

    add("odd", distinct(3, 5), 1)
    add("even_takes_the_lower", distinct(2, 6), -1)
    add("keepdim", distinct(4, 3), 0, True)
    add("one", distinct(3, 1), 1)
    add("nan_wins", of([1.0, NAN, 3.0, 2.0], [4.0, 2.0, 9.0, -1.0], [NAN, 2.0, NAN, 1.0]), 1, grad=None)
    add("inf", of([INF, 1.0, -INF], [INF, INF, 2.0], [-INF, 5.0, 3.0])[:, :], 0, grad=None)
    add("strided", transposed(distinct(3, 4)), 1)
    add("scalar", of(2.5).reshape(()), 0)
    add("empty", normal(0, 3), 1)
    add("f16", distinct(2, 5, dtype=F16), 1)
    add("bf16", distinct(2, 5, dtype=BF16), 0)
    add("i64", torch.tensor([[5, -3, 9, 2**40], [1, 0, -7, 8]]), 1, grad=None)


def slice_assign(s):
    def add(slug, x, slices, src, grad=sums, index=None, **more):
        where = index or tuple(slice(None) if r is None else slice(*r) for r in slices)

        def f(x, src):
            y = x.clone()
            y[where] = src
            return y

        s.case("slice_assign", slug, f, {"x": x, "src": src}, {"slices": slices}, exact, grad, **more)

    add("range", normal(4, 3), [[1, 3, 1], None], normal(2, 3, key="src"))
    add("step", normal(5, 4), [[0, None, 2], [1, None, 3]], normal(3, 1, key="src"))
    add("from_the_end", normal(4, 4), [[-3, -1, 1], [None, -2, 1]], normal(2, 2, key="src"))
    add("number", normal(4, 3), [None, [1, 2, 1]], normal(key="src"))
    add("nothing", normal(3, 2), [[2, 2, 1], None], normal(0, 2, key="src"))
    back = torch.tensor([3, 2, 1])
    add("backwards", normal(4, 2), [[3, 0, -1], None], normal(3, 2, key="src"), index=(back,))
    add("strided", transposed(normal(3, 4)), [[1, None, 1], [0, 4, 2]], View(normal(1, 2, key="src"), expand(2, 2)))
    add("special", of(NAN, INF, 0.0, 1.0), [[2, None, 1]], of(-0.0, NAN), None, tags=["signed_zero"])
    add("i64", whole(-9, 9, 3, 3), [[0, 2, 1]], whole(-9, 9, 3, key="src"), None)
    add("bool", whole(0, 2, 4, dtype=BOOL), [[0, 4, 2]], of(True, False, dtype=BOOL), None)


def unbind(s):
    def add(slug, x, dim, grad=exact, **more):
        s.case("unbind", slug, lambda x: torch.unbind(x, dim), {"x": x}, {"dim": dim}, grad=grad, **more)

    add("first", normal(3, 4), 0)
    add("negative", normal(2, 3, 2), -1)
    add("some_take_part", normal(2, 3), 1, seeded=[0, 2])
    add("strided", transposed(normal(2, 3)), 0)
    add("of_empty", normal(2, 0), 0)
    add("i64", whole(-9, 9, 2, 3), 1, None)


def diag(s):
    def add(slug, x, diagonal, grad=exact):
        s.case("diag", slug, lambda x: torch.diag(x, diagonal), {"x": x}, {"diagonal": diagonal}, grad=grad)

    add("vector", normal(3), 0)
    add("vector_below", normal(2), -2)
    add("empty_vector", normal(0), 1)
    add("matrix", normal(3, 4), 0)
    add("matrix_above", normal(3, 4), 2)
    add("matrix_below", normal(4, 3), -1)
    add("strided", transposed(normal(3, 3)), 1)
    add("i64", whole(-9, 9, 2), 0, None)
    add("bool", whole(0, 2, 3, 3, dtype=BOOL), 0, None)


def trace(s):
    def add(slug, x, grad=exact):
        s.case("trace", slug, torch.trace, {"x": x}, rule=sums, grad=grad)

    add("square", normal(4, 4))
    add("wide", normal(2, 5))
    add("strided", transposed(normal(3, 3)))
    add("empty", normal(0, 3))
    add("special", of([INF, 1.0], [NAN, 2.0]), None)
    add("f16", normal(3, 3, dtype=F16))
    add("i64", whole(-9, 9, 3, 3), None)
    add("i32", whole(2**30, 2**31 - 1, 3, 3, dtype=I32), None)


def fold(s):
    def add(slug, x, size, kernel, dilation=(1, 1), padding=(0, 0), stride=(1, 1), **more):
        attrs = {"output_size": size, "kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
        attrs = {k: list(v) for k, v in attrs.items()}
        s.case("fold", slug, lambda x: F.fold(x, **attrs), {"x": x}, attrs, sums, exact, **more)

    add("overlap", normal(1, 4, 4), (3, 3), (2, 2))
    add("stride", normal(1, 8, 4), (4, 4), (2, 2), stride=(2, 2))
    add("padding_rect", normal(1, 6, 6), (3, 2), (3, 2), padding=(1, 1), stride=(2, 1))
    add("dilation", normal(1, 4, 4), (4, 4), (2, 2), (2, 2))
    add("gaps", normal(1, 1, 4), (4, 4), (1, 1), stride=(3, 3))
    add("without_batch", normal(4, 2), (2, 3), (2, 2))
    add("strided", transposed(normal(4, 4)), (3, 3), (2, 2))
    add("f16", normal(1, 4, 4, dtype=F16), (3, 3), (2, 2))


def movedim(s):
    def add(slug, x, source, destination, grad=exact):
        attrs = {"source": source, "destination": destination}
        s.case("movedim", slug, lambda x: torch.movedim(x, source, destination), {"x": x}, attrs, grad=grad)

    add("one", normal(2, 3, 2), 0, 2)
    add("negative", normal(2, 3, 2), -1, 0)
    add("none", normal(2, 3), [], [])
    add("rank5", normal(1, 2, 1, 3, 2), [1, 4], [3, 0])
    add("strided", transposed(normal(2, 3)), 0, 1)
    add("empty", normal(2, 0, 3), 0, 1)
    add("bool", whole(0, 2, 2, 3, dtype=BOOL), 1, 0, None)


def meshgrid(s):
    def add(slug, xs, indexing="ij", grad=sums, **more):
        f = lambda *x: torch.meshgrid(*x, indexing=indexing)
        inputs = {f"x{i}": x for i, x in enumerate(xs)}
        s.case("meshgrid", slug, f, inputs, {"indexing": indexing}, grad=grad, **more)

    add("two", [normal(3), normal(2)])
    add("xy", [normal(3), normal(2)], "xy")
    add("with_a_scalar", [normal(2), normal()])
    add("empty", [normal(2), normal(0)])
    add("strided", [View(normal(6), cut(0, 1, None, 2)), normal(2)])
    add("one_takes_part", [normal(2), normal(3)], seeded=[1])
    add("f16", [normal(2, dtype=F16), normal(2, dtype=F16, key="y")])
    add("i64", [whole(-9, 9, 2), whole(-9, 9, 3)], grad=None)


def repeat_interleave(s):
    def add(slug, x, repeats, dim=None, grad=sums):
        f = lambda x: torch.repeat_interleave(x, repeats, dim)
        s.case("repeat_interleave", slug, f, {"x": x}, {"repeats": repeats, "dim": dim}, grad=grad)

    add("flat", normal(2, 3), 2)
    add("rows", normal(2, 3), 3, 0)
    add("negative", normal(2, 3), 2, -1)
    add("never", normal(2, 2), 0, 1)
    add("scalar", normal(), 3)
    add("empty", normal(0, 2), 2, 1)
    add("strided", transposed(normal(2, 3)), 2, 1)
    add("i64", whole(-9, 9, 2, 2), 2, 1, None)


def index_fill(s):
    def add(slug, x, dim, index, value, grad=exact, **more):
        f = lambda x, index: torch.index_fill(x, dim, index, value)
        s.case("index_fill", slug, f, {"x": x, "index": index}, {"dim": dim, "value": value}, grad=grad, diff=["x"], **more)

    at = lambda *v: torch.tensor(v, dtype=I64)
    add("rows", normal(4, 3), 0, at(0, 2), 1.5)
    add("negative_dim", normal(2, 3), -1, at(1), -7.0)
    add("from_the_end", normal(4, 2), 0, at(-1, -3), 0.5)
    add("repeated", normal(3, 2), 0, at(1, 1), 2)
    add("scalar", normal(), 0, at(0), 3.0)
    add("empty", normal(3, 0), 0, at(1), 3.0)
    add("special", of(NAN, INF, -0.0, 1.0), 0, at(1), -0.0, None, tags=["signed_zero"])
    add("strided", transposed(normal(2, 3)), 1, View(at(2, 0, 0, 1), cut(0, 0, None, 2)), 1.0)
    add("i64", whole(-9, 9, 3, 2), 0, at(2), 2**40, None)
    add("bool", whole(0, 2, 2, 3, dtype=BOOL), 1, at(1), True, None)


def searchsorted(s):
    def add(slug, rows, values, right=False):
        f = lambda a, b: torch.searchsorted(a.contiguous(), b.contiguous(), right=right)
        s.case("searchsorted", slug, f, {"sorted": rows, "values": values}, {"right": right})

    row = of(-2.0, -1.0, 0.0, 0.0, 0.0, 2.5, 3.0)
    values = of(-3.0, -2.0, 0.0, -0.0, 2.0, 3.0, 4.0)
    add("left", row, values)
    add("right", row, values, True)
    rows = normal(2, 5).sort().values
    add("rows", rows, torch.cat([rows[:, 1:3], normal(2, 2)], -1))
    add("rows_right", rows, torch.cat([rows[:, 1:3], normal(2, 2)], -1), True)
    add("special", of(-INF, 0.0, INF, INF), of(INF, -INF, NAN, 1e-40))
    add("special_right", of(-INF, 0.0, INF, INF), of(INF, -INF, NAN, -1e-40), True)
    add("empty_row", normal(0), normal(3))
    add("no_values", row, normal(0))
    add("strided", View(rows.mT.contiguous(), permute(1, 0)), View(normal(2, 4), cut(1, 0, None, 2)))
    add("f16", row.half(), values.half())
    add("i64", whole(-5, 5, 6).sort().values, whole(-6, 6, 2, 4).flatten(), True)
    add("u8", of(1, 7, 7, 200, dtype=U8), of(7, 0, 255, dtype=U8))


def bincount(s):
    def add(slug, x, min_length=0):
        s.case("bincount", slug, lambda x: torch.bincount(x, minlength=min_length), {"x": x}, {"min_length": min_length})

    add("basic", of(3, 1, 1, 0, 5, dtype=I64))
    add("longer", of(1, 1, 2, dtype=I64), 6)
    add("shorter", of(4, 4, dtype=I64), 2)
    add("empty", of(dtype=I64))
    add("empty_longer", of(dtype=I64), 3)
    add("i32", of(2, 0, 2, dtype=I32))
    add("u8", of(20, 0, 20, 3, dtype=U8))
    add("strided", View(of(1, 9, 2, 9, 1, 9, dtype=I64), cut(0, 0, None, 2)))

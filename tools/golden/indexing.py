"""Cases of ops that read and write elements by index."""

import torch
import torch.nn.functional as F

from draw import BF16, BOOL, F16, F32, I64, INF, NAN, distinct, normal, of, whole
from suite import View, close, cut, exact, permute, sums, transposed


def cases(s):
    index(s)
    index_put(s)
    index_copy(s)
    index_reduce(s)
    scatter_reduce(s)
    segment_reduce(s)
    masked_scatter(s)
    take(s)
    put(s)
    embedding_bag(s)


def at(*v):
    return torch.tensor(v, dtype=I64)


def mask(*v):
    return torch.tensor(v, dtype=BOOL)


def spoken(items, tensors):
    """An index as Python has it, from its attribute."""
    one = lambda v: slice(*v) if isinstance(v, list) else ... if v == "..." else tensors[v] if isinstance(v, str) else v
    return tuple(one(v) for v in items)


def index(s):
    def add(slug, x, items, grad=sums, **tensors):
        f = lambda x, *t: x[spoken(items, dict(zip(tensors, t)))]
        s.case("index", slug, f, {"x": x} | tensors, {"index": items}, grad=grad, diff=["x"])

    x = normal(3, 4, 5)
    i, j = at(2, 0, 2), at(-1, 3, 0)
    add("one", x, ["i"], i=i)
    add("pairs", x, ["i", "j"], i=i, j=j)
    add("broadcast", x, ["i", "j"], i=i[:, None], j=j)
    add("behind_a_range", x, [[None, None, 2], "i", "j"], i=i, j=j)
    add("apart", x, ["i", [1, None], "j"], i=i, j=j)
    add("apart_by_a_new_axis", x, ["i", None, "j"], i=i, j=j)
    add("number_and_tensor", x, [1, [None, None], "j"], j=j)
    add("number_between", x, ["i", -1, "j"], i=i, j=j)
    add("scalar_tensor", x, ["p", [None, None], "j"], p=torch.tensor(-1), j=j)
    add("mask", x, ["m"], m=x[..., 0] > 0)
    add("mask_of_one_axis", x, [[None, None], "m", "j"], m=mask(True, False, True, True), j=j)
    add("mask_of_all", x, ["m"], m=x > 0.5)
    add("mask_of_nothing", x, ["m"], m=torch.zeros(3, dtype=BOOL))
    add("truth", x, [True, 0])
    add("lie", x, [False])
    add("ellipsis_and_new_axes", x, [None, "...", "j", None], j=j)
    add("from_the_end", x, ["...", [-3, -1]])
    add("i32", x, ["i"], i=i.int())
    add("no_indices", x, ["i"], i=torch.zeros(0, 2, dtype=I64))
    add("of_nothing", normal(0, 3), ["i"], i=torch.zeros(2, 0, dtype=I64))
    add("matrix", x, [[None, None], "i"], i=at(0, 1, 1, 3).reshape(2, 2))
    add("strided", transposed(normal(3, 4)), ["i", "j"], i=View(at(2, 9, 0, 9, 1, 9), cut(0, 0, None, 2)), j=j)
    add("scalar", normal(), ["..."])
    add("f16", normal(3, 4, dtype=F16), ["i"], i=i)
    add("bool", whole(0, 2, 3, 4, dtype=BOOL), ["i", "j"], None, i=i, j=j)


def index_put(s):
    def add(slug, x, items, values, accumulate=False, grad=sums, **tensors):
        def f(x, values, *t):
            where = spoken(items, dict(zip(tensors, t)))
            y = x.clone()
            if not accumulate:
                y[where] = values
                return y
            at = torch.arange(x.numel()).reshape(x.shape)[where]
            return y.flatten().index_put((at,), values.expand(at.shape), True).reshape(x.shape)

        attrs = {"index": items, "accumulate": accumulate}
        s.case("index_put", slug, f, {"x": x, "values": values} | tensors, attrs, sums, grad, diff=["x", "values"] if grad else [])

    x = normal(3, 4, 5)
    i, j = at(2, 0, 1), at(-1, 3, 0)
    v = lambda *shape: normal(*shape, key="values")
    add("one", x, ["i"], v(3, 4, 5), i=i)
    add("second_axis", x, [[None, None], "i"], v(3, 1), i=i)
    add("pairs", x, ["i", "j"], v(3, 5), i=i, j=j)
    add("behind_a_range", x, [[None, None, 2], "i", "j"], v(2, 3), i=i, j=j)
    add("apart", x, ["i", [1, None], "j"], v(3, 3), i=i, j=j)
    add("number", x, ["i", 1, "j"], v(), i=i, j=j)
    add("broadcast", x, ["i", None, "j"], v(1, 5), i=i[:, None], j=j)
    add("scalar_tensor", x, ["p", [None, None], "j"], v(4, 3), p=torch.tensor(-1), j=j)
    add("mask", x, ["m"], v(), m=x > 0.5)
    add("mask_of_rows", x, [[1, None], "m"], v(2, 5), m=mask(True, False, False, True))
    add("ones_in_front", x, [0, [1, 3]], v(1, 1, 2, 5))
    add("truth", x, [True, 0], v(4, 5))
    add("lie", x, [False], v(4, 5))
    add("added", x, ["i", "j"], v(4, 5), True, i=at(1, 0, 1, 1), j=at(2, 0, 2, 2))
    add("rows_added", x, ["i"], v(4, 4, 5), True, i=at(1, 0, 1, -2))
    add("range_added", x, [[None, None, 2], 1], v(5), True)
    add("strided", transposed(normal(3, 4)), ["i"], View(normal(4, 3, key="values"), permute(1, 0)), i=i)
    add("f16", normal(3, 4, dtype=F16), ["i"], normal(4, 4, dtype=F16), True, i=at(1, 1, 1, 0))
    add("i64", whole(-9, 9, 3, 4), ["i"], whole(-9, 9, 4), True, None, i=at(1, 1))
    add("bool", whole(0, 2, 3, 4, dtype=BOOL), ["i", "j"], mask(True), False, None, i=i, j=j)


def index_copy(s):
    def add(slug, x, dim, index, src, grad=exact):
        f = lambda x, index, src: torch.index_copy(x, dim, index, src)
        s.case("index_copy", slug, f, {"x": x, "index": index, "src": src}, {"dim": dim}, grad=grad)

    src = lambda *shape, dtype=F32: normal(*shape, dtype=dtype, key="src")
    add("rows", normal(4, 3), 0, at(2, 0), src(2, 3))
    add("negative_dim", normal(2, 4), -1, at(3, 1, 0), src(2, 3))
    add("nothing", normal(3, 2), 0, at(), src(0, 2))
    add("scalar", normal(), 0, at(0), src())
    add("strided", transposed(normal(2, 3)), 1, at(2, 0), transposed(src(2, 2)))
    add("bf16", normal(3, 2, dtype=BF16), 0, at(1), src(1, 2, dtype=BF16))
    add("i64", whole(-9, 9, 3, 2), 0, at(2), whole(-9, 9, 1, 2), None)


REDUCE = ["sum", "prod", "mean", "amax", "amin"]


def rule(how):
    return exact if how in ("amax", "amin") else sums if how in ("sum", "mean") else close(8)


def scatter_reduce(s):
    def add(slug, x, dim, index, src, how, include_self=True, grad=True, **more):
        f = lambda x, index, src: torch.scatter_reduce(x, dim, index, src, how, include_self=include_self)
        attrs = {"dim": dim, "reduce": how, "include_self": include_self}
        g = (close(16) if how == "prod" else sums) if grad else None
        s.case("scatter_reduce", slug, f, {"x": x, "index": index, "src": src}, attrs, rule(how), g, **more)

    index = whole(0, 4, 6, 3)
    for how in REDUCE:
        add(how, distinct(4, 3), 0, index, distinct(6, 3, key="src"), how)
        add(f"{how}_without", distinct(4, 3), 0, index, distinct(6, 3, key="src"), how, False)
        add(f"{how}_small_index", normal(3, 4), 1, whole(0, 4, 2, 5), normal(3, 6, key="src"), how, grad=False)
        add(f"{how}_part", normal(3, 4), 1, whole(0, 4, 2, 5), normal(2, 5, key="src"), how)
        add(f"{how}_of_nothing", normal(2, 3), 1, torch.zeros(2, 0, dtype=I64), normal(2, 3, key="src"), how, grad=False)
        add(f"{how}_i64", whole(0, 9, 4, 3), 0, index, whole(-9, 9, 6, 3), how, True, False)
        add(f"{how}_f16", normal(4, 3, dtype=F16), 0, index, normal(6, 3, dtype=F16, key="src"), how, grad=False)
    add("one_target", normal(2), 0, torch.zeros(9, dtype=I64), normal(9, key="src"), "prod")
    add("zeros", of(2.0, 0.0, 3.0), 0, at(0, 0, 1, 1, 2), of(0.0, 3.0, 2.0, 5.0, 4.0), "prod")
    add("equal", of(1.0, 5.0), 0, at(0, 0, 1, 0), of(1.0, 1.0, 2.0, -1.0), "amax")
    add("special", of(1.0, 2.0, 3.0), 0, at(0, 1, 1), of(NAN, INF, 1.0), "amax", grad=False)
    add("strided", transposed(normal(3, 4)), 0, whole(0, 3, 3, 4), transposed(normal(3, 4, key="src")), "mean")
    add("scalar", normal(), 0, at(0), normal(1, key="src").reshape(1), "amin", grad=False)


def index_reduce(s):
    def add(slug, x, dim, index, src, how, include_self=True, grad=True):
        f = lambda x, index, src: torch.index_reduce(x, dim, index, src, how, include_self=include_self)
        attrs = {"dim": dim, "reduce": how, "include_self": include_self}
        g = (close(16) if how == "prod" else sums) if grad else None
        s.case("index_reduce", slug, f, {"x": x, "index": index, "src": src}, attrs, rule(how), g)

    for how in REDUCE[1:]:
        add(how, distinct(3, 4), 0, at(1, 0, 1, 1), distinct(4, 4, key="src"), how)
        add(f"{how}_without", distinct(3, 4), 1, at(2, 2, 0), distinct(3, 3, key="src"), how, False)
    add("nothing", normal(3, 2), 0, at(), normal(0, 2), "mean")
    add("strided", transposed(normal(3, 4)), 0, at(1, 1), transposed(normal(2, 4, key="src")), "amax")
    add("i64", whole(-9, 9, 3, 2), 0, at(1, 1), whole(-9, 9, 2, 2), "prod", True, False)


def segment_reduce(s):
    def add(slug, x, how, lengths=None, offsets=None, initial=None, grad=True):
        def f(x, where):
            # In PyTorch's own words, by a loop: its op checks neither offsets nor empty segments.
            ends = torch.cumsum(where, 0) if offsets is None else where[1:]
            starts = torch.cat([ends.new_zeros(1), ends[:-1]])
            return torch.stack([reduced(x[a:b]) for a, b in zip(starts, ends)])

        def reduced(part):
            whole = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -INF, "min": INF}[how] if initial is None else initial
            start = torch.full((1, *part.shape[1:]), whole, dtype=part.dtype)
            if how == "mean":
                n = len(part)
                return (start[0] + part.sum(0)) / (max(n, 1) if initial is not None else n)
            all = part if initial is None and len(part) else torch.cat([start, part])
            return {"sum": all.sum, "prod": all.prod, "max": all.amax, "min": all.amin}[how](0)

        inputs = {"x": x} | ({"lengths": lengths} if offsets is None else {"offsets": offsets})
        attrs = {"reduce": how, "initial": initial}
        g = close(16) if how == "prod" else sums
        s.case("segment_reduce", slug, f, inputs, attrs, rule({"max": "amax", "min": "amin"}.get(how, how)), g, diff=["x"])

    for how in ["sum", "mean", "prod", "max", "min"]:
        add(how, distinct(6, 3), how, at(2, 3, 1))
        add(f"{how}_vector_offsets", distinct(5), how, offsets=at(0, 1, 5))
        add(f"{how}_initial", distinct(4, 2), how, at(3, 0, 1), initial=1.5)
    add("empty", normal(3), "mean", at(0, 3))
    add("f16", normal(5, dtype=F16), "sum", at(4, 1))

    def along(slug, x, how, axis, lengths):
        def f(x, lengths):
            reduced = {"sum": lambda v: v.sum(axis), "max": lambda v: v.amax(axis), "mean": lambda v: v.mean(axis)}[how]
            rows = [
                torch.stack([reduced(v[None] if axis == 1 else v[None, None]) for v in row.split(n.tolist())])
                for row, n in zip(x.flatten(0, axis - 1), lengths.flatten(0, -2))
            ]
            return torch.stack(rows).reshape(*x.shape[:axis], lengths.shape[-1], *x.shape[axis + 1 :])

        inputs, attrs = {"x": x, "lengths": lengths}, {"reduce": how, "initial": None, "axis": axis}
        s.case("segment_reduce", slug, f, inputs, attrs, rule({"max": "amax"}.get(how, how)), sums, diff=["x"])

    along("second_axis", distinct(2, 5, 3), "sum", 1, torch.tensor([[2, 3], [4, 1]]))
    along("last_axis", distinct(2, 6), "mean", 1, torch.tensor([[2, 3, 1], [4, 1, 1]]))
    along("third_axis", distinct(2, 2, 4), "max", 2, torch.tensor([[[2, 2], [1, 3]], [[3, 1], [2, 2]]]))


def masked_scatter(s):
    def add(slug, x, mask, source, grad=exact):
        f = lambda x, mask, source: torch.masked_scatter(x, mask, source)
        inputs = {"x": x, "mask": mask, "source": source}
        s.case("masked_scatter", slug, f, inputs, {}, grad=grad)

    x = normal(3, 4)
    add("some", x, x > 0, normal(12, key="source"))
    add("matrix_source", x, x < 0.5, normal(4, 5, key="source"))
    add("broadcast_mask", x, mask(True, False, True, False), normal(7, key="source"))
    add("none", x, torch.zeros(3, 4, dtype=BOOL), normal(2, key="source"))
    add("strided", transposed(x), x > 0, transposed(normal(3, 4, key="source")))
    add("i64", whole(-9, 9, 4), mask(True, False, False, True), whole(-9, 9, 3), None)


def take(s):
    def add(slug, x, index, grad=sums):
        s.case("take", slug, torch.take, {"x": x, "index": index}, {}, grad=grad, diff=["x"])

    add("matrix", normal(3, 4), at(0, 11, -1, 5))
    add("shaped", normal(3, 4), whole(-12, 12, 2, 3))
    add("scalar", normal(3), torch.tensor(1))
    add("nothing", normal(3), torch.zeros(0, 2, dtype=I64))
    add("strided", transposed(normal(2, 3)), at(1, 1, 4))
    add("bool", whole(0, 2, 2, 3, dtype=BOOL), at(0, 5), None)


def put(s):
    def add(slug, x, index, source, accumulate=False, grad=sums):
        f = lambda x, index, source: torch.put(x, index, source, accumulate=accumulate)
        inputs = {"x": x, "index": index, "source": source}
        s.case("put", slug, f, inputs, {"accumulate": accumulate}, sums, grad)

    add("written", normal(3, 4), at(0, 11, -3), normal(3, key="source"))
    add("added", normal(3, 4), at(1, 1, -11, 2).reshape(2, 2), normal(4, key="source"), True)
    add("nothing", normal(3), at(), normal(0))
    add("strided", transposed(normal(2, 3)), at(1, 4), normal(2, 1, key="source"))
    add("i64", whole(-9, 9, 4), at(2, 2), at(5, 6), True, None)


def embedding_bag(s):
    def add(slug, index, weight, mode="mean", offsets=None, weights=None, grad=sums, **more):
        f = lambda index, weight, *t: F.embedding_bag(
            index.contiguous(), weight.contiguous(), mode=mode, **dict(zip(optional, t)), **more
        )
        optional = {"offsets": offsets, "per_sample_weights": weights}
        optional = {k: v for k, v in optional.items() if v is not None}
        attrs = {"mode": mode} | more
        inputs = {"index": index, "weight": weight} | optional
        diff = ["weight"] + (["per_sample_weights"] if weights is not None else [])
        s.case("embedding_bag", slug, f, inputs, attrs, sums, grad, diff=diff)

    table = normal(5, 3)
    matrix = at(0, 2, 2, 4, 1, 0).reshape(2, 3)
    row = at(0, 2, 2, 4, 1, 0)
    for mode in ["sum", "mean", "max"]:
        add(f"{mode}_matrix", matrix, table, mode)
        add(f"{mode}_offsets", row, table, mode, at(0, 2, 2, 5))
        add(f"{mode}_padding", row, table, mode, at(0, 1, 3), padding_idx=2)
    add("last_offset", row, table, "sum", at(0, 2, 6), include_last_offset=True)
    add("weights", matrix, table, "sum", None, normal(2, 3, key="w"))
    add("weights_padding", row, table, "sum", at(0, 3), normal(6, key="w"), padding_idx=-5)
    add("strided", matrix, transposed(normal(5, 3)), "sum")

"""Cases of scaled sums, distances, products along an axis, diagonals, counts and unpooling."""

import torch
import torch.nn.functional as F

from draw import BF16, BOOL, F16, F64, I32, I64, INF, NAN, U8, distinct, normal, of, uniform, whole
from suite import View, close, cut, exact, permute, products, smooth, sums, transposed


def cases(s):
    addcdiv(s)
    scaled_products(s)
    along_an_axis(s)
    distances(s)
    bilinear(s)
    diagonals(s)
    turns(s)
    groups(s)
    counts(s)
    normalize(s)
    unpool(s)


def addcdiv(s):
    def add(slug, x, t1, t2, value=1.0, grad=smooth(8, 8)):
        f = lambda x, t1, t2: torch.addcdiv(x, t1, t2, value=value)
        s.case("addcdiv", slug, f, {"x": x, "t1": t1, "t2": t2}, {"value": value}, smooth(4, 4), grad)

    t2 = lambda *shape, **more: uniform(0.5, 2.0, *shape, key="t2", **more)
    add("plain", normal(3, 4), normal(3, 4, key="t1"), t2(3, 4))
    add("value", normal(3, 4), normal(3, 4, key="t1"), t2(3, 4), -0.3)
    add("broadcast", normal(3, 4), normal(4, key="t1"), t2(3, 1), 2.5)
    add("special", of(1.0, INF, 0.0), of(1.0, 1.0, NAN), of(0.0, 2.0, 1.0), 1.0, None)
    add("strided", transposed(normal(2, 3)), transposed(normal(2, 3, key="t1")), t2(2, 3))
    add("f16", normal(4, dtype=F16), normal(4, dtype=F16, key="t1"), t2(4, dtype=F16), 0.5)
    add("empty", normal(0), normal(0), normal(0))


def scaled_products(s):
    def add(op, slug, input, x, y, beta=1, alpha=1, grad=products):
        f = lambda input, x, y: getattr(torch, op)(input, x, y, beta=beta, alpha=alpha)
        inputs = {"input": input, "x": x, "y": y}
        s.case(op, slug, f, inputs, {"beta": beta, "alpha": alpha}, products, grad)

    add("addmv", "plain", normal(3), normal(3, 4), normal(4, key="y"))
    add("addmv", "factors", normal(3), normal(3, 4), normal(4, key="y"), 0.5, -2.0)
    add("addmv", "number", normal(), normal(3, 4), normal(4, key="y"))
    add("addmv", "nothing_to_sum", normal(3), normal(3, 0), normal(0))
    add("addmv", "strided", View(normal(6), cut(0, 0, None, 2)), transposed(normal(3, 4)), normal(4, key="y"))
    add("addmv", "f16", normal(2, dtype=F16), normal(2, 3, dtype=F16), normal(3, dtype=F16), 2, 0.5)
    add("addmv", "i64", whole(-9, 9, 2), whole(-9, 9, 2, 3), whole(-9, 9, 3), 2, 3, None)
    add("addr", "plain", normal(3, 4), normal(3, key="x"), normal(4, key="y"))
    add("addr", "factors", normal(3, 4), normal(3, key="x"), normal(4, key="y"), 0.5, -2.0)
    add("addr", "broadcast", normal(4), normal(3, key="x"), normal(4, key="y"))
    add("addr", "strided", transposed(normal(3, 4)), View(normal(6), cut(0, 0, None, 2)), normal(4, key="y"))
    add("addr", "bf16", normal(2, 2, dtype=BF16), normal(2, dtype=BF16, key="x"), normal(2, dtype=BF16, key="y"))
    add("addr", "i64", whole(-9, 9, 2, 3), whole(-9, 9, 2), whole(-9, 9, 3), 2, 3, None)


def along_an_axis(s):
    def dot(slug, x, y, dim=-1, grad=products):
        f = lambda x, y: torch.linalg.vecdot(x, y, dim=dim) if x.is_floating_point() else (x * y).sum(dim).to(x.dtype)
        s.case("vecdot", slug, f, {"x": x, "y": y}, {"dim": dim}, products, grad)

    dot("rows", normal(3, 4), normal(3, 4, key="y"))
    dot("columns", normal(3, 4), normal(3, 4, key="y"), 0)
    dot("broadcast", normal(3, 4), normal(4, key="y"))
    dot("empty", normal(2, 0), normal(2, 0))
    dot("strided", transposed(normal(3, 4)), transposed(normal(3, 4, key="y")))
    dot("f16", normal(2, 5, dtype=F16), normal(2, 5, dtype=F16, key="y"))
    dot("i32", whole(-9, 9, 2, 3, dtype=I32), whole(-9, 9, 2, 3, dtype=I32), grad=None)

    def cross(slug, x, y, dim=None, grad=products):
        f = lambda x, y: torch.linalg.cross(x, y, dim=dim if dim is not None else [i for i, n in enumerate(x.shape) if n == 3][0])
        s.case("cross", slug, f, {"x": x, "y": y}, {"dim": dim}, products, grad)

    cross("rows", normal(2, 3), normal(2, 3, key="y"), -1)
    cross("first_axis_of_three", normal(3, 2, 3), normal(3, 2, 3, key="y"))
    cross("broadcast", normal(4, 3), normal(1, 3, key="y"), 1)
    cross("strided", transposed(normal(3, 4)), transposed(normal(3, 4, key="y")), 0)
    cross("f16", normal(2, 3, dtype=F16), normal(2, 3, dtype=F16, key="y"), 1)
    cross("i64", whole(-9, 9, 2, 3), whole(-9, 9, 2, 3), 1, None)


def distances(s):
    # Far enough apart that no derivative is large.
    apart = lambda *shape, **more: normal(*shape, key="y", **more) + 4
    for p in [0.0, 1.0, 1.5, 2.0, INF]:
        name = f"p_{p}".replace(".", "_")
        attrs = {"p": "inf" if p == INF else p}
        f = lambda x, y: torch.norm(x.unsqueeze(-2) - y.unsqueeze(-3), p=p, dim=-1)
        grad = None if p == 0.0 else products
        s.case("cdist", name, f, {"x": normal(3, 4), "y": apart(2, 4)}, attrs, products, grad)
        g = lambda x: torch.stack([torch.norm(x[i] - x[j], p=p) for i in range(4) for j in range(i + 1, 4)])
        s.case("pdist", name, g, {"x": normal(4, 3) + torch.arange(4)[:, None] * 3}, attrs, products, grad)
    f = lambda x, y: torch.cdist(x.contiguous(), y.contiguous())
    s.case("cdist", "batches", f, {"x": normal(2, 3, 4), "y": apart(1, 2, 4)}, {"p": 2.0}, products, products)
    s.case("cdist", "strided", f, {"x": transposed(normal(3, 4)), "y": transposed(apart(2, 4))}, {"p": 2.0}, products, products)
    s.case("cdist", "no_rows", f, {"x": normal(0, 4), "y": normal(2, 4)}, {"p": 2.0}, products, products)
    s.case("cdist", "f64", f, {"x": normal(3, 2, dtype=F64), "y": apart(2, 2, dtype=F64)}, {"p": 2.0}, products, products)
    s.case("pdist", "one_row", torch.pdist, {"x": normal(1, 3)}, {"p": 2.0}, products, products)
    h = lambda x: torch.pdist(x.contiguous())
    s.case("pdist", "strided", h, {"x": transposed(normal(3, 4) * 3)}, {"p": 2.0}, products, products)

    def add(slug, x, y, p=2.0, eps=1e-6, keepdim=False):
        f = lambda x, y: F.pairwise_distance(x, y, p, eps, keepdim)
        attrs = {"p": "inf" if p == INF else p, "eps": eps, "keepdim": keepdim}
        s.case("pairwise_distance", slug, f, {"x": x, "y": y}, attrs, products, products)

    add("rows", normal(3, 4), apart(3, 4))
    add("sum", normal(3, 4), apart(3, 4), 1.0, 0.25, True)
    add("largest", normal(3, 4), apart(3, 4), INF)
    add("broadcast", normal(3, 4), apart(4), 3.0)
    add("strided", transposed(normal(3, 4)), transposed(apart(3, 4)))
    add("f16", normal(2, 4, dtype=F16), apart(2, 4, dtype=F16))


def bilinear(s):
    def add(slug, x1, x2, weight, bias=None):
        inputs = {"x1": x1, "x2": x2, "weight": weight} | ({} if bias is None else {"bias": bias})
        f = lambda x1, x2, w, b=None: F.bilinear(x1.contiguous(), x2.contiguous(), w.contiguous(), b)
        s.case("bilinear", slug, f, inputs, {}, products, products)

    add("rows", normal(2, 3), normal(2, 4, key="y"), normal(5, 3, 4), normal(5))
    add("without_bias", normal(2, 3), normal(2, 4, key="y"), normal(5, 3, 4))
    add("vectors", normal(3), normal(4, key="y"), normal(2, 3, 4), normal(2))
    add("batches", normal(2, 2, 3), normal(2, 2, 1, key="y"), normal(2, 3, 1), normal(2))
    add("strided", transposed(normal(2, 3)), transposed(normal(2, 2, key="y")), transposed(normal(2, 3, 2)))
    add("f16", normal(2, 2, dtype=F16), normal(2, 3, dtype=F16), normal(2, 2, 3, dtype=F16))


def diagonals(s):
    def embed(slug, x, offset=0, dim1=-2, dim2=-1, grad=exact):
        attrs = {"offset": offset, "dim1": dim1, "dim2": dim2}
        s.case("diag_embed", slug, lambda x: torch.diag_embed(x, offset, dim1, dim2), {"x": x}, attrs, grad=grad)

    embed("vector", normal(3))
    embed("rows", normal(2, 3))
    embed("above", normal(2, 3), 1)
    embed("below", normal(2, 3), -2)
    embed("axes", normal(2, 3), 1, 0, 2)
    embed("axes_turned", normal(2, 3), 1, 2, 0)
    embed("empty", normal(0))
    embed("strided", transposed(normal(2, 3)))
    embed("bool", whole(0, 2, 3, dtype=BOOL), grad=None)

    def block(slug, *x, grad=exact):
        inputs = {f"x{i}": v for i, v in enumerate(x)}
        s.case("block_diag", slug, torch.block_diag, inputs, {}, grad=grad)

    block("two", normal(2, 3), normal(1, 2, key="y"))
    block("vector_and_number", normal(3), normal(), normal(2, 2))
    block("one", normal(2, 2))
    block("empty", normal(0, 2), normal(2, 0), normal(1, 1))
    block("strided", transposed(normal(2, 3)), normal(1, 1))
    block("i64", whole(-9, 9, 2, 2), whole(-9, 9, 1, 3), grad=None)


def turns(s):
    def rot(slug, x, k=1, dims=(0, 1), grad=exact):
        f = lambda x: torch.rot90(x, k, dims)
        s.case("rot90", slug, f, {"x": x}, {"k": k, "dims": list(dims)}, grad=grad)

    for k in [0, 1, 2, 3, -1, 6]:
        rot(f"quarters_{k}".replace("-", "minus_"), normal(2, 3), k)
    rot("axes", normal(2, 3, 2), 1, (2, 0))
    rot("empty", normal(0, 3))
    rot("strided", transposed(normal(2, 3)))
    rot("i64", whole(-9, 9, 2, 3), grad=None)

    def shuffle(slug, x, groups, grad=exact):
        f = lambda x: torch.channel_shuffle(x.contiguous(), groups)
        s.case("channel_shuffle", slug, f, {"x": x}, {"groups": groups}, grad=grad)

    shuffle("two", normal(1, 4, 2, 2), 2)
    shuffle("three", normal(2, 6, 2), 3)
    shuffle("one", normal(1, 2, 2, 2), 1)
    shuffle("strided", transposed(normal(1, 4, 2, 2)), 2)
    shuffle("f16", normal(1, 4, 2, 1, dtype=F16), 2)


def groups(s):
    def unique(slug, x, dim=None):
        f = lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=dim)
        s.case("unique_consecutive", slug, f, {"x": x}, {"dim": dim})

    unique("vector", of(1.0, 1.0, 2.0, 2.0, 2.0, 1.0))
    unique("matrix", whole(0, 2, 3, 4))
    unique("rows", torch.tensor([[1, 2], [1, 2], [2, 1], [1, 2]]), 0)
    unique("columns", torch.tensor([[1, 1, 2], [3, 3, 3]]), 1)
    unique("special", of(NAN, NAN, INF, INF, -0.0, 0.0))
    unique("strided", transposed(whole(0, 2, 3, 4)))
    unique("bool", whole(0, 2, 8, dtype=BOOL))

    def unravel(slug, index, shape):
        s.case("unravel_index", slug, lambda i: torch.unravel_index(i, shape), {"index": index}, {"shape": shape})

    unravel("vector", torch.tensor([0, 5, 23]), [2, 3, 4])
    unravel("matrix", whole(0, 12, 2, 3), [3, 4])
    unravel("scalar", torch.tensor(7), [2, 5])
    unravel("i32", whole(0, 6, 4, dtype=I32).long(), [6])


def counts(s):
    def histc(slug, x, bins=100, min=0.0, max=0.0):
        f = lambda x: torch.histc(x.contiguous(), bins, min, max)
        s.case("histc", slug, f, {"x": x}, {"bins": bins, "min": min, "max": max})

    histc("range", of(-1.0, 0.0, 0.3, 0.5, 1.5, 1.9, 2.0, 2.1, 7.0), 4, 0.0, 2.0)
    histc("own_range", of(-1.0, 0.1, 0.3, 0.7, 1.6, 3.0), 8)
    histc("equal", of(2.0, 2.0, 2.0), 4)
    histc("negative", of(-3.0, -2.5, -1.2, -0.1, 0.5), 3, -3.0, 0.0)
    histc("strided", transposed(normal(3, 4)), 5, -2.0, 2.0)
    histc("empty", normal(0), 3, 0.0, 1.0)
    histc("f64", of(0.1, 0.6, 0.9, dtype=F64), 2, 0.0, 1.0)

    def weights(slug, x, w, min_length=0):
        f = lambda x, w: torch.bincount(x, w, minlength=min_length).to(w.dtype)
        s.case("bincount", slug, f, {"x": x, "weights": w}, {"min_length": min_length}, sums)

    weights("weights", of(3, 1, 1, 0, 5, dtype=I64), normal(5))
    weights("weights_longer", of(1, 1, 2, dtype=I64), normal(3, dtype=F64), 6)

    def sorter(slug, rows, values, right=False):
        order = rows.argsort(-1)
        f = lambda a, b, o: torch.searchsorted(a.contiguous(), b.contiguous(), right=right, sorter=o)
        inputs = {"sorted": rows, "values": values, "sorter": order}
        s.case("searchsorted", slug, f, inputs, {"right": right})

    sorter("sorter", distinct(7), normal(4))
    sorter("sorter_rows", distinct(2, 5), distinct(2, 3), True)

    def repeats(slug, x, repeats, dim=None, grad=sums):
        f = lambda x, repeats: torch.repeat_interleave(x, repeats, dim)
        s.case("repeat_interleave", slug, f, {"x": x, "repeats": repeats}, {"dim": dim}, grad=grad)

    repeats("by_tensor", normal(3, 2), torch.tensor([2, 0, 3]), 0)
    repeats("by_tensor_flat", normal(2, 2), torch.tensor([1, 0, 0, 2]))
    repeats("by_one", normal(3, 2), torch.tensor([2]), 1)


def normalize(s):
    def add(slug, x, p=2.0, dim=1, eps=1e-12):
        f = lambda x: F.normalize(x, p, dim, eps)
        attrs = {"p": "inf" if p == INF else p, "dim": dim, "eps": eps}
        s.case("normalize", slug, f, {"x": x}, attrs, smooth(8), smooth(32, 4))

    add("rows", normal(3, 4))
    add("columns", normal(3, 4), 2.0, 0)
    add("sum", normal(3, 4), 1.0)
    add("largest", distinct(3, 4) + 0.125, INF)
    add("odd_power", normal(2, 3), 3.0)
    add("small", normal(2, 3) * 0.1, 2.0, 1, 10.0)
    add("strided", transposed(normal(3, 4)), 2.0, -1)
    add("f16", normal(2, 4, dtype=F16))


def unpool(s):
    for k in [1, 2, 3]:
        pool, back = getattr(F, f"max_pool{k}d"), getattr(F, f"max_unpool{k}d")

        def add(slug, x, kernel, stride, padding=0, output_size=None, grad=exact, dtype=None):
            many = lambda v: [v] * k
            y, at = pool(x.double(), kernel, stride, padding, return_indices=True)
            f = lambda y, at: back(y.contiguous(), at, kernel, stride, padding, output_size=output_size)
            attrs = {"kernel_size": many(kernel), "stride": many(stride), "padding": many(padding), "output_size": output_size}
            s.case(f"max_unpool{k}d", slug, f, {"x": y.to(x.dtype), "indices": at}, attrs, grad=grad)

        size = {1: (8,), 2: (4, 6), 3: (2, 4, 4)}[k]
        add("apart", distinct(1, 2, *size), 2, 2)
        add("without_batch", distinct(2, *size), 2, 2)
        add("larger", distinct(1, 1, *[n + 1 for n in size]), 2, 2, 0, [n + 1 for n in size])
        add("padding", distinct(1, 1, *([4] * k)), 3, 3, 1)
        add("f16", distinct(1, 1, *size, dtype=F16), 2, 2)

        def indices(slug, x, kernel, stride):
            many = lambda v: [v] * k
            f = lambda x: pool(x, kernel, stride, return_indices=True)
            attrs = {"kernel_size": many(kernel), "stride": many(stride), "padding": many(0), "dilation": many(1)}
            attrs |= {"ceil_mode": False, "return_indices": True}
            s.case(f"max_pool{k}d", slug, f, {"x": x}, attrs, grad=exact)

        # The other pools have their cases in the sample.
        if k == 3:
            indices("indices", distinct(1, 2, *size), 2, 2)

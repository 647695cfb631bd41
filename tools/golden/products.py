"""Cases of products, convolutions and pools."""

import torch
import torch.nn.functional as F

from draw import BF16, F16, F32, F64, I32, I64, INF, NAN, distinct, normal, of, whole
from suite import View, close, cut, exact, expand, means, permute, products, sums, transposed


def cases(s):
    baddbmm(s)
    kron(s)
    tensordot(s)
    conv_transpose3d(s)
    max_pool3d(s)
    avg_pool(s, "avg_pool1d", F.avg_pool1d, 1)
    avg_pool(s, "avg_pool3d", F.avg_pool3d, 3)
    adaptive(s)


def baddbmm(s):
    def add(slug, input, x, y, beta=1, alpha=1, grad=products, **more):
        f = lambda input, x, y: torch.baddbmm(input, x, y, beta=beta, alpha=alpha)
        inputs = {"input": input, "x": x, "y": y}
        s.case("baddbmm", slug, f, inputs, {"beta": beta, "alpha": alpha}, products, grad, **more)

    x, y = normal(2, 2, 3), normal(2, 3, 2, key="y")
    add("basic", normal(2, 2, 2), x, y)
    add("factors", normal(2, 2, 2), x, y, 0.5, 2.5)
    add("broadcast", normal(2), x, y)
    add("not_looked_at", torch.full((2, 2, 2), NAN), x, y, 0, 1, diff=["x", "y"])
    add("nothing_to_sum", normal(2, 2, 2), normal(2, 2, 0), normal(2, 0, 2))
    add("strided", View(normal(2, 1), expand(2, 2, 2)), transposed(x), View(normal(3, 2, 2), permute(1, 0, 2)))
    add("long", normal(1, 1, 2), normal(1, 1, 70), normal(1, 70, 2))
    add("f16", *(normal(*n, dtype=F16) for n in [(1, 2, 2), (1, 2, 3), (1, 3, 2)]), 0.5, 2)
    add("i64", whole(-9, 9, 1, 2, 2), whole(-9, 9, 1, 2, 3), whole(-9, 9, 1, 3, 2), 2, 3, None)


def kron(s):
    def add(slug, x, y, grad=products):
        f = lambda x, y: torch.kron(x.contiguous(), y.contiguous())
        s.case("kron", slug, f, {"x": x, "y": y}, rule=close(2), grad=grad)

    add("matrices", normal(2, 3), normal(2, 2, key="y"))
    add("ranks_differ", normal(2), normal(2, 1, 3, key="y"))
    add("number", normal(2, 2), normal(key="y"))
    add("empty", normal(2, 0), normal(2, 2, key="y"))
    add("strided", transposed(normal(2, 2)), transposed(normal(1, 3, key="y")))
    add("special", of([INF, -0.0], [1.0, 2.0]), of(NAN, 0.0), None)
    add("bf16", normal(2, 2, dtype=BF16), normal(1, 2, dtype=BF16, key="y"))
    add("i32", whole(-9, 9, 2, 2, dtype=I32), whole(-(2**30), 2**30, 2, dtype=I32), None)


def tensordot(s):
    def add(slug, x, y, dims_x, dims_y, grad=products):
        f = lambda x, y: torch.tensordot(x, y, (dims_x, dims_y))
        s.case("tensordot", slug, f, {"x": x, "y": y}, {"dims_x": dims_x, "dims_y": dims_y}, products, grad)

    add("matmul", normal(2, 3), normal(3, 2, key="y"), [1], [0])
    add("two_axes", normal(2, 3, 2), normal(2, 2, 3, key="y"), [1, 0], [2, 1])
    add("negative", normal(2, 3, 2), normal(3, 2, key="y"), [-2], [-2])
    add("outer", normal(2), normal(3, key="y"), [], [])
    add("all", normal(2, 3), normal(3, 2, key="y"), [0, 1], [1, 0])
    add("empty_sum", normal(2, 0), normal(0, 2), [1], [0])
    add("strided", transposed(normal(2, 3)), transposed(normal(2, 3, key="y")), [1], [1])
    add("long", normal(2, 65), normal(65, key="y"), [1], [0])
    add("i64", whole(-9, 9, 2, 3), whole(-9, 9, 3, 2), [1], [0], None)


def conv_transpose3d(s):
    def add(slug, x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        three = lambda v: [v] * 3 if isinstance(v, int) else v
        attrs = {"stride": three(stride), "padding": three(padding), "output_padding": three(output_padding)}
        attrs |= {"groups": groups, "dilation": three(dilation)}
        inputs = {"x": x, "weight": w} | ({} if bias is None else {"bias": bias})
        f = lambda x, w, b=None: F.conv_transpose3d(x, w, b, **attrs)
        s.case("conv_transpose3d", slug, f, inputs, attrs, products, products)

    add("basic", normal(1, 2, 2, 2, 2), normal(2, 2, 2, 2, 1), normal(2))
    add("no_bias", normal(2, 1, 2, 1, 2), normal(1, 2, 1, 2, 2))
    add("rect", normal(1, 1, 2, 2, 1), normal(1, 2, 3, 2, 1), normal(2), [2, 3, 1], [1, 0, 0], [1, 2, 0])
    add("dilation", normal(1, 1, 2, 1, 2), normal(1, 1, 2, 2, 2), None, 1, [1, 0, 1], 0, 1, [2, 1, 2])
    add("groups", normal(1, 4, 1, 2, 2), normal(4, 1, 2, 1, 2), normal(2), groups=2)
    add("without_batch", normal(2, 1, 2, 2), normal(2, 1, 1, 2, 2), normal(1))
    x = View(normal(1, 2, 2, 4, 2), permute(0, 2, 1, 4, 3), cut(4, 0, None, 2))
    add("strided", x, View(normal(1, 2, 2, 2, 1), permute(1, 0, 2, 3, 4)), View(normal(1), expand(1)))
    add("f16", normal(1, 1, 2, 2, 1, dtype=F16), normal(1, 1, 2, 1, 2, dtype=F16), normal(1, dtype=F16))


def max_pool3d(s):
    def add(slug, x, kernel, stride=None, padding=0, dilation=1, ceil=False, grad=sums):
        three = lambda v: [v] * 3 if isinstance(v, int) else v
        attrs = {"kernel_size": three(kernel), "stride": three(stride), "padding": three(padding)}
        attrs |= {"dilation": three(dilation), "ceil_mode": ceil}
        s.case("max_pool3d", slug, lambda x: F.max_pool3d(x, **attrs), {"x": x}, attrs, exact, grad)

    add("basic", distinct(1, 2, 2, 4, 2), 2)
    add("padding", distinct(1, 1, 3, 2, 3), [3, 2, 3], 2, 1)
    add("dilation", distinct(1, 1, 3, 4, 3), 2, [1, 2, 1], 0, [2, 3, 1])
    add("ceil", distinct(1, 1, 3, 2, 5), 2, 2, 0, 1, True)
    add("ceil_drops_the_last", distinct(1, 1, 2, 3, 2), [1, 2, 1], 3, [0, 1, 0], 1, True)
    x = distinct(1, 1, 2, 4, 2).clone()
    x[0, 0, 1, 0, 1], x[0, 0, 0, 2, 0], x[0, 0, 1, 3, 1] = NAN, INF, -INF
    add("nan_and_inf", x, 2, grad=None)
    add("all_minus_inf", torch.full((1, 1, 2, 2, 2), -INF), 2, 2, grad=None)
    add("ties_first", of(1.0, 1.0, 0.0, 1.0, 2.0, 2.0, 2.0, 0.0).reshape(1, 1, 2, 2, 2), [1, 2, 2])
    add("without_batch", distinct(2, 2, 2, 3), [2, 1, 2])
    add("strided", View(distinct(1, 2, 2, 4, 2), permute(0, 2, 1, 4, 3), cut(4, 0, None, 2)), [2, 1, 2])
    add("f16", distinct(1, 1, 2, 2, 4, dtype=F16), 2)


def avg_pool(s, op, f, n):
    def add(slug, x, kernel, stride=None, padding=0, ceil=False, with_padding=True):
        axes = lambda v: [v] * n if isinstance(v, int) else v
        attrs = {"kernel_size": axes(kernel), "stride": axes(stride), "padding": axes(padding)}
        attrs |= {"ceil_mode": ceil, "count_include_pad": with_padding}
        rule = means(torch.Size(attrs["kernel_size"]).numel())
        s.case(op, slug, lambda x: f(x, **attrs), {"x": x}, attrs, rule, rule)

    def x(size, lead=(1, 1), **more):
        return normal(*lead, *([size] + [3, 2][: n - 1]), **more)

    add("basic", x(4), 2)
    add("padding", x(4), [3, 2, 2][:n], 2, 1)
    add("padding_left_out", x(4), [3, 2, 2][:n], 2, 1, False, False)
    add("ceil", x(6), [3, 2, 2][:n], [2, 2, 1][:n], 0, True)
    add("ceil_padding", x(4), [2, 3, 2][:n], 2, 1, True)
    add("ceil_padding_left_out", x(6), [4, 3, 2][:n], [3, 2, 2][:n], [2, 1, 0][:n], True, False)
    add("without_batch", x(3, (2,)), [2, 1, 2][:n])
    wide = x(8)
    add("strided", View(wide, permute(1, 0, *range(2, n + 2)), cut(2, 1, None, 2)), 2)
    add("f16", x(4, dtype=F16), 2)


def adaptive(s):
    sizes = {
        1: [("divides", [6], [3]), ("overlaps", [7], [3]), ("to_one", [5], [1]), ("grows", [3], [5])],
        3: [
            ("divides", [4, 2, 2], [2, 1, 2]),
            ("overlaps", [3, 5, 2], [2, 3, 1]),
            ("to_one", [2, 3, 2], [1, 1, 1]),
            ("grows", [2, 1, 2], [3, 2, 3]),
        ],
    }
    for n, table in sizes.items():
        for kind, draw in [("avg", normal), ("max", distinct)]:
            op = f"adaptive_{kind}_pool{n}d"
            f = getattr(F, op)

            def add(slug, x, out, volume=1, grad=True):
                size = out[0] if n == 1 else out
                rule = means(volume) if kind == "avg" else exact
                by = (rule if kind == "avg" else sums) if grad else None
                s.case(op, slug, lambda x: f(x, size), {"x": x}, {"output_size": out}, rule, by)

            for slug, given, out in table:
                volume = torch.Size([-(-a // b) + 1 for a, b in zip(given, out)]).numel()
                add(slug, draw(1, 2, *given), out, volume)
            given, out = table[0][1:]
            add("without_batch", draw(2, *given), out, 4)
            wide = draw(1, 2, *given[:-1], 2 * given[-1])
            add("strided", View(wide, permute(1, 0, *range(2, n + 2)), cut(n + 1, 0, None, 2)), out, 4)
            add("f16", draw(1, 1, *given, dtype=F16), out, 4)
            if kind == "max":
                x = draw(1, 1, *given).clone()
                x.view(-1)[1], x.view(-1)[-1] = NAN, INF
                add("nan_and_inf", x, out, grad=False)
            else:
                add("f64", draw(1, 1, *given, dtype=F64), out, 4)

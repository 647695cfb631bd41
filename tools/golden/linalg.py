"""Cases of linear algebra. Signs of singular vectors and eigenvectors are settled as the ops do."""

import torch
from draw import F64, I64, INF, normal, uniform, whole
from suite import View, cut, exact, expand, permute, products, stable, transposed

L = torch.linalg


def near_unit(*shape, **more):
    """Well conditioned: the unit matrix and noise."""
    return 2 * torch.eye(shape[-1], dtype=more.get("dtype", torch.float32)) + 0.3 * normal(*shape, **more)


def definite(*shape, **more):
    x = normal(*shape, **more)
    return x @ x.mT / shape[-1] + torch.eye(shape[-1], dtype=x.dtype)


def add(s, op, slug, f, inputs, attrs=None, k=64, grad=True, **more):
    rule = stable(k)
    s.case(op, slug, f, inputs, attrs, rule, rule if grad else None, absolute=False, **more)


def cases(s):
    multi_dot(s)
    matrix_power(s)
    matrix_norm(s)
    cholesky(s)
    systems(s)
    lu(s)
    factors(s)
    reflections(s)
    determinants(s)
    qr(s)
    lstsq(s)
    eigh(s)
    svd(s)
    pinv(s)
    matrix_exp(s)


def multi_dot(s):
    def case(slug, *x, grad=products):
        s.case("multi_dot", slug, lambda *x: L.multi_dot(x), {f"x{i}": v for i, v in enumerate(x)}, {}, products, grad)

    case("three", normal(2, 5), normal(5, 3), normal(3, 4))
    case("vectors", normal(4), normal(4, 3), normal(3, 2, key="z"), normal(2))
    case("two", normal(2, 3), normal(3, 2))
    case("row", normal(3, key="r"), normal(3, 4, key="m"))
    case("f64", normal(3, 2, dtype=F64), normal(2, 4, dtype=F64), normal(4, 1, dtype=F64))
    case("empty", normal(2, 0), normal(0, 3), normal(3, 2))
    case("strided", transposed(normal(2, 3)), normal(3, 2), normal(2, 2))


def matrix_power(s):
    def case(slug, x, n, grad=True):
        f = lambda x: L.matrix_power(x, n)
        add(s, "matrix_power", slug, f, {"x": x}, {"n": n}, grad=grad)

    x = near_unit(3, 3)
    for n in [3, 0, 1, 2, 5, -1, -3]:
        case(f"{n}".replace("-", "minus_"), x, n)
    case("batch", near_unit(2, 2, 2), 4)
    case("f64", near_unit(3, 3, dtype=F64), -2)
    s.case("matrix_power", "i64", lambda x: L.matrix_power(x, 3), {"x": whole(-3, 3, 2, 2)}, {"n": 3}, exact)


def matrix_norm(s):
    def case(slug, x, ord="fro", dim=(-2, -1), keepdim=False):
        f = lambda x: L.matrix_norm(x, ord, dim, keepdim)
        name = {INF: "inf", -INF: "-inf"}.get(ord, ord)
        add(s, "matrix_norm", slug, f, {"x": x}, {"ord": name, "dim": list(dim), "keepdim": keepdim})

    x = normal(3, 4)
    for ord in ["fro", "nuc", 1, -1, 2, -2, INF, -INF]:
        case(f"{ord}".replace("-", "minus_"), x, ord)
    case("axes", normal(3, 2, 4), 1, (2, 0))
    case("keepdim", normal(2, 3, 2), "fro", keepdim=True)
    case("nuc_axes", normal(3, 2, 2), "nuc", (0, 2), True)
    case("f64", normal(3, 3, dtype=F64), 2)


def cholesky(s):
    def case(slug, x, upper=False):
        f = lambda x: L.cholesky_ex(x, upper=upper)[0]
        add(s, "cholesky", slug, f, {"x": x}, {"upper": upper})

    case("basic", definite(3, 3))
    case("upper", definite(3, 3, key="u"), True)
    case("batch", definite(2, 2, 2))
    case("halves", definite(11, 11))
    case("one", definite(1, 1))
    case("empty", normal(0, 0))
    case("f64", definite(4, 4, dtype=F64))
    case("strided", transposed(definite(3, 3, key="s")))
    x = definite(3, 3).clone()
    x[0, 2] = INF
    add(s, "cholesky", "upper_triangle_is_not_read", lambda x: L.cholesky_ex(x)[0], {"x": x}, grad=False)

    f = lambda x: L.cholesky_ex(x)
    add(s, "cholesky_ex", "basic", f, {"x": definite(2, 3, 3)}, seeded=[0])
    add(s, "cholesky_ex", "upper", lambda x: L.cholesky_ex(x, upper=True), {"x": definite(3, 3)}, {"upper": True}, seeded=[0])


def systems(s):
    def case(slug, x, y, left=True):
        f = lambda x, y: L.solve_ex(x, y, left=left)[0]
        add(s, "solve", slug, f, {"x": x, "y": y}, {"left": left})

    case("basic", near_unit(3, 3), normal(3, 2))
    case("vector", near_unit(3, 3), normal(3))
    case("vectors", near_unit(2, 3, 3), normal(2, 3))
    case("right", near_unit(3, 3), normal(2, 3), False)
    case("broadcast", near_unit(2, 1, 2, 2), normal(3, 2, 1))
    case("halves", near_unit(10, 10), normal(10, 2))
    case("f64", near_unit(3, 3, dtype=F64), normal(3, 1, dtype=F64))
    case("pivots", torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.25, 0.0], [4.0, 0.0, 1.0]]), normal(3, 2))
    case("strided", transposed(near_unit(3, 3)), transposed(normal(3, 2)))
    case("empty", normal(0, 0), normal(0, 2))

    def case(slug, x, y, upper, left=True, unit=False):
        attrs = {"upper": upper, "left": left, "unitriangular": unit}
        f = lambda x, y: L.solve_triangular(x, y, **attrs)
        add(s, "solve_triangular", slug, f, {"x": x, "y": y}, attrs)

    x, y = near_unit(3, 3), normal(3, 2)
    case("lower", x, y, False)
    case("upper", x, y, True)
    case("right", x, normal(2, 3), False, False)
    case("upper_right", x, normal(2, 3), True, False)
    case("unit", x, y, False, unit=True)
    case("upper_unit", x, y, True, unit=True)
    case("broadcast", near_unit(2, 2, 2), normal(2, 1), False)
    case("halves", near_unit(12, 12), normal(12, 1), True)
    case("f64", near_unit(3, 3, dtype=F64), normal(3, 1, dtype=F64), True)
    case("strided", transposed(x), transposed(y), False)

    f = lambda x: L.inv_ex(x)[0]
    add(s, "inv", "basic", f, {"x": near_unit(3, 3)})
    add(s, "inv", "batch", f, {"x": near_unit(2, 2, 2)})
    add(s, "inv", "halves", f, {"x": near_unit(9, 9)})
    add(s, "inv", "f64", f, {"x": near_unit(4, 4, dtype=F64)})
    add(s, "inv", "strided", f, {"x": transposed(near_unit(3, 3))})
    add(s, "inv", "one", f, {"x": near_unit(1, 1)})
    add(s, "inv_ex", "basic", lambda x: L.inv_ex(x), {"x": near_unit(2, 3, 3)}, seeded=[0])


def lu(s):
    x = {
        "square": normal(4, 4),
        "tall": normal(5, 3),
        "wide": normal(2, 4),
        "batch": normal(2, 3, 3),
        "f64": normal(3, 3, dtype=F64),
        "halves": near_unit(11, 11),
        "ties": torch.tensor([[1.0, 2.0, 0.5], [-1.0, 1.0, 3.0], [1.0, 4.0, 1.0]]),
        "strided": transposed(normal(3, 4)),
    }
    for slug, v in x.items():
        add(s, "lu", slug, lambda x: L.lu(x), {"x": v}, seeded=[1, 2])
        if slug != "halves":
            add(s, "lu_factor", slug, lambda x: L.lu_factor(x), {"x": v}, seeded=[0])
    add(s, "lu_factor", "singular", lambda x: L.lu_factor_ex(x)[:2], {"x": torch.tensor([[1.0, 2.0], [2.0, 4.0]])}, grad=False)
    f = lambda x: L.lu_factor_ex(x)
    add(s, "lu_factor_ex", "basic", f, {"x": normal(2, 3, 3)}, seeded=[0])
    x = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    add(s, "lu_factor_ex", "singular", f, {"x": x}, grad=False)


def plain(x):
    """The packed factors without pivoting, which PyTorch has on some devices only."""
    m, n = x.shape[-2:]
    if m == 0 or n == 0:
        return x
    row, column = x[..., :1, :], x[..., 1:, :1] / x[..., :1, :1]
    rest = plain(x[..., 1:, 1:] - column * row[..., 1:])
    return torch.cat([row, torch.cat([column, rest], -1)], -2)


def factors(s):
    """Systems of which the factors are known, and factors that have no gradients."""
    attrs = {"pivot": False}
    for slug, v in {"plain": near_unit(4, 4), "plain_tall": near_unit(4, 4)[:, :2], "plain_wide": near_unit(2, 3, 3)[:, :2]}.items():
        v = v.contiguous()
        k = min(v.shape[-2:])
        count = torch.arange(1, k + 1, dtype=torch.int32).expand(*v.shape[:-2], k)
        add(s, "lu_factor", slug, lambda x: (plain(x), count), {"x": v}, attrs, seeded=[0])

        def parts(x):
            packed = plain(x)
            ones = torch.eye(x.shape[-2], k, dtype=x.dtype)
            return torch.zeros(0, dtype=x.dtype), packed[..., :k].tril(-1) + ones, packed[..., :k, :].triu()

        add(s, "lu", slug, parts, {"x": v}, attrs, seeded=[1, 2])
    f = lambda x: (plain(x), torch.arange(1, 4, dtype=torch.int32), torch.tensor(0, dtype=torch.int32))
    add(s, "lu_factor_ex", "plain", f, {"x": near_unit(3, 3)}, attrs, seeded=[0])

    def case(slug, x, y, **attrs):
        x, pivots = L.lu_factor(x)
        # Of columns that lie as rows, with a batch of one beside it, PyTorch 2.15 reads other numbers.
        f = lambda x, pivots, y: L.lu_solve(x.contiguous(), pivots, y, **attrs)
        add(s, "lu_solve", slug, f, {"x": x, "pivots": pivots, "y": y}, attrs)

    noise = normal(4, 4)
    case("basic", noise, normal(4, 2))
    case("adjoint", noise, normal(4, 1), adjoint=True)
    case("right", noise, normal(3, 4), left=False)
    case("right_adjoint", noise, normal(2, 4), left=False, adjoint=True)
    case("broadcast", normal(2, 1, 3, 3), normal(2, 3, 1))
    case("halves", near_unit(11, 11), normal(11, 2))
    case("f64", normal(3, 3, dtype=F64), normal(3, 2, dtype=F64))
    case("one", normal(1, 1), normal(1, 2))
    lu, pivots = L.lu_factor(normal(3, 3, key="s"))
    fed = {"x": transposed(lu), "pivots": pivots, "y": transposed(normal(3, 2))}
    add(s, "lu_solve", "strided", lambda x, pivots, y: L.lu_solve(x, pivots, y), fed)
    fed = {"x": normal(0, 0), "pivots": torch.zeros(0, dtype=torch.int32), "y": normal(0, 2)}
    add(s, "lu_solve", "empty", lambda x, pivots, y: L.lu_solve(x, pivots, y), fed)

    def symmetric(*shape, **more):
        x = normal(*shape, **more)
        return x + x.mT

    x = {
        "basic": symmetric(4, 4),
        "definite": definite(3, 3),
        "batch": symmetric(3, 5, 5),
        "f64": symmetric(6, 6, dtype=F64),
        "larger": symmetric(20, 20, dtype=F64),
        "hollow": torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]]),
        "one": normal(1, 1),
        "strided": transposed(symmetric(3, 3, key="s")),
    }
    for slug, v in x.items():
        add(s, "ldl_factor", slug, lambda x: L.ldl_factor(x), {"x": v}, grad=False)
        v = v.of(v.base) if isinstance(v, View) else v
        known, pivots = L.ldl_factor(v)
        fed = {"x": known, "pivots": pivots, "y": normal(*v.shape[:-1], 2)}
        fed["y"] = fed["y"].to(v.dtype)
        add(s, "ldl_solve", slug, lambda x, pivots, y: L.ldl_solve(x, pivots, y), fed, grad=False)
    upper = symmetric(3, 3, key="u").clone()
    upper[0, 2] = INF
    add(s, "ldl_factor", "upper_triangle_is_not_read", lambda x: L.ldl_factor(x), {"x": upper}, {"hermitian": True}, grad=False)
    f = lambda x: L.ldl_factor_ex(x)
    add(s, "ldl_factor_ex", "basic", f, {"x": symmetric(2, 3, 3)}, grad=False)
    add(s, "ldl_factor_ex", "singular", f, {"x": torch.diag(torch.tensor([2.0, 0.0, 1.0]))}, grad=False)


def reflections(s):
    def case(slug, x, tau):
        add(s, "householder_product", slug, lambda x, tau: L.householder_product(x, tau), {"x": x, "tau": tau})

    case("square", normal(3, 3), uniform(0.5, 1.5, 3))
    case("tall", normal(5, 3), uniform(0.5, 1.5, 3))
    case("fewer", normal(4, 3), uniform(0.5, 1.5, 2))
    case("batch", normal(2, 4, 2), uniform(0.5, 1.5, 2, 2))
    case("halves", 0.3 * normal(12, 10), uniform(0.5, 1.5, 10))
    case("f64", normal(4, 3, dtype=F64), uniform(0.5, 1.5, 3, dtype=F64))
    case("strided", transposed(normal(4, 3)), uniform(0.5, 1.5, 3))
    case("of_qr", *torch.geqrf(normal(4, 3, key="qr")))


def determinants(s):
    for op, f, seeded in [("det", L.det, None), ("slogdet", lambda x: tuple(L.slogdet(x)), [1])]:
        add(s, op, "basic", f, {"x": normal(3, 3)}, seeded=seeded)
        add(s, op, "batch", f, {"x": normal(2, 2, 2)}, seeded=seeded)
        add(s, op, "one", f, {"x": normal(1, 1)}, seeded=seeded)
        add(s, op, "halves", f, {"x": near_unit(9, 9)}, seeded=seeded)
        add(s, op, "f64", f, {"x": normal(4, 4, dtype=F64)}, seeded=seeded)
        add(s, op, "strided", f, {"x": transposed(normal(3, 3))}, seeded=seeded)
        add(s, op, "empty", f, {"x": normal(2, 0, 0)}, grad=False)
        add(s, op, "singular", f, {"x": torch.tensor([[1.0, 2.0], [2.0, 4.0]])}, grad=False)


def qr(s):
    def case(slug, x, mode="reduced", grad=True):
        f = lambda x: tuple(L.qr(x, mode=mode))
        add(s, "qr", slug, f, {"x": x}, {"mode": mode}, grad=grad)

    case("square", normal(3, 3))
    case("tall", normal(5, 3))
    case("wide", normal(3, 5))
    case("batch", normal(2, 3, 2))
    case("complete", normal(4, 2), "complete", False)
    case("complete_wide", normal(2, 3), "complete")
    case("halves", normal(12, 10))
    case("f64", normal(4, 3, dtype=F64))
    case("strided", transposed(normal(4, 3)))
    case("nothing_to_reflect", torch.tensor([[2.0, 1.0], [0.0, -3.0]]))
    f = lambda x: tuple(L.qr(x, mode="r"))
    add(s, "qr", "r", f, {"x": normal(4, 3)}, {"mode": "r"}, grad=False)


def lstsq(s):
    def case(slug, x, y, driver="gels", grad=True, **attrs):
        tall = x.shape[-2] > x.shape[-1]

        def f(x, y):
            known = L.lstsq(x, y, driver=driver, **attrs)
            if driver != "gels":
                return tuple(known)
            # With a gradient of the residuals.
            if x.shape[-2] >= x.shape[-1]:
                q, r = L.qr(x)
                solution = L.solve_triangular(r, q.mT @ y, upper=True)
            else:
                q, r = L.qr(x.mT)
                solution = q @ L.solve_triangular(r.mT, y, upper=False)
            assert torch.allclose(solution, known.solution, 1e-3, 1e-3)
            residuals = (x @ solution - y).square().sum(-2) if tall else torch.zeros(0, dtype=x.dtype)
            return solution, residuals, known.rank, known.singular_values

        seeded = [0, 1] if tall and driver == "gels" else [0]
        add(s, "lstsq", slug, f, {"x": x, "y": y}, {"driver": driver, **attrs}, grad=grad, seeded=seeded)

    case("tall", normal(5, 3), normal(5, 2))
    case("wide", normal(2, 4), normal(2, 2))
    case("square", near_unit(3, 3), normal(3, 1))
    case("batch", normal(2, 4, 2), normal(2, 4, 1))
    case("f64", normal(4, 2, dtype=F64), normal(4, 1, dtype=F64))
    for driver in ["gelsy", "gelsd", "gelss"]:
        case(f"tall_{driver}", normal(5, 3), normal(5, 2), driver)
        case(f"wide_{driver}", normal(2, 4), normal(2, 2), driver)
    case("batch_gelsd", normal(2, 3, 2, dtype=F64), normal(2, 3, 1, dtype=F64), "gelsd")
    lacking = normal(3, 2) @ torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    case("rank_gelsy", lacking.mT.contiguous(), normal(4, 2), "gelsy")
    case("rank_gelsd", lacking, normal(3, 2), "gelsd")
    case("rank_gelss", lacking.double(), normal(3, 1, dtype=F64), "gelss")
    # PyTorch's gradient does not know rcond.
    case("rcond", torch.diag(torch.tensor([4.0, 2.0, 0.01])), normal(3, 1), "gelsd", grad=False, rcond=0.1)
    f = lambda x, y: tuple(L.lstsq(x, y))
    add(s, "lstsq", "default", f, {"x": normal(4, 2), "y": normal(4, 1)}, seeded=[0])


def settled(v):
    """The sign of the element of largest magnitude of each row, the first among equals."""
    at = v.detach().abs().argmax(-1, keepdim=True)
    return torch.where(v.detach().gather(-1, at) < 0, -1.0, 1.0).to(v.dtype)


def apart(*shape, **more):
    """Symmetric, with eigenvalues that are apart."""
    x = normal(*shape, **more)
    return x + x.mT + torch.diag(3.0 * torch.arange(shape[-1])).to(x.dtype)


def eigh(s):
    def case(slug, x, uplo="L"):
        def f(x):
            values, vectors = L.eigh(x, UPLO=uplo)
            return values, vectors * settled(vectors.mT).mT

        add(s, "eigh", slug, f, {"x": x}, {"UPLO": uplo})
        add(s, "eigvalsh", slug, lambda x: L.eigvalsh(x, UPLO=uplo), {"x": x}, {"UPLO": uplo})

    case("basic", apart(3, 3))
    case("upper", apart(4, 4), "U")
    case("batch", apart(2, 2, 2))
    case("odd", apart(5, 5))
    case("one", normal(1, 1))
    case("f64", apart(4, 4, dtype=F64))
    case("diagonal", torch.diag(torch.tensor([3.0, -1.0, 2.0])))


def svd(s):
    def case(slug, x, full=False):
        k = min((x.of(x.base) if isinstance(x, View) else x).shape[-2:])

        def f(x):
            u, values, vt = L.svd(x, full_matrices=full)
            sign = settled(vt[..., :k, :])
            ones = lambda n: torch.ones(*sign.shape[:-2], n - k, 1, dtype=x.dtype)
            left, right = torch.cat([sign, ones(u.shape[-1])], -2), torch.cat([sign, ones(vt.shape[-2])], -2)
            return u * left.mT, values, vt * right

        if full:
            # What completes a square is any basis of the rest.
            f_all = f
            add(s, "svd", slug, f_all, {"x": x}, {"full_matrices": full}, grad=True)
        else:
            add(s, "svd", slug, f, {"x": x}, {"full_matrices": full})
            add(s, "svdvals", slug, lambda x: L.svdvals(x), {"x": x})

    case("square", normal(3, 3))
    case("tall", normal(5, 3))
    case("wide", normal(2, 4))
    case("batch", normal(2, 3, 2))
    case("f64", normal(4, 3, dtype=F64))
    case("strided", transposed(normal(4, 3)))
    case("one", normal(1, 1))
    case("full", normal(3, 3, key="full"), True)


def pinv(s):
    def case(slug, x, **attrs):
        add(s, "pinv", slug, lambda x: L.pinv(x, **attrs), {"x": x}, attrs)

    case("square", near_unit(3, 3))
    case("tall", normal(4, 2))
    case("wide", normal(2, 4))
    case("batch", normal(2, 3, 2))
    case("f64", normal(3, 2, dtype=F64))
    case("rtol", torch.diag(torch.tensor([4.0, 2.0, 0.01])), rtol=0.1)
    case("atol", torch.diag(torch.tensor([4.0, 2.0, 0.01])), atol=0.1)
    case("hermitian", apart(3, 3), hermitian=True)


def matrix_exp(s):
    def case(slug, x, k=64):
        add(s, "matrix_exp", slug, L.matrix_exp, {"x": x}, k=k)

    case("basic", normal(3, 3))
    case("small", 0.01 * normal(3, 3))
    case("large", 4 * normal(3, 3), 256)
    case("batch", torch.stack([normal(2, 2), 8 * normal(2, 2), 0 * normal(2, 2)]), 256)
    case("nilpotent", torch.tensor([[0.0, 50.0], [0.0, 0.0]]))
    case("f64", normal(4, 4, dtype=F64))

"""The types of results in PyTorch's autocast on a processor, for each op of the table in crates/ops/src/autocast.rs.

    python tools/golden/autocast.py lab/conformance/golden-own/autocast.json

A row says in which type an op's (first) result is, for operands of f32, for operands of 16 bits, and for a first operand
of 16 bits beside others of f32; "half" is the type of the scope. null: PyTorch refuses such operands, or there is one
alone. Both 16-bit types must give the same row.
"""

import json
import sys

import torch
import torch.nn.functional as F


def unit(x):
    return x.sigmoid().detach()


def ctc(t):
    x = t(5, 2, 4).log_softmax(-1)
    return F.ctc_loss(x, torch.tensor([[1, 2], [3, 1]]), torch.tensor([5, 5]), torch.tensor([2, 2]))


def attention(t):
    x = t(3, 2, 4)
    w, wb, o, ob = t(12, 4), t(12), t(4, 4), t(4)
    return F.multi_head_attention_forward(x, x, x, 4, 2, w, wb, None, None, False, 0.0, o, ob)[0]


def assigned(t):
    x = t(3, 4).clone()
    x[1:2] = t(1, 4)
    return x


def definite(t):
    x = t(3, 3)
    return x * 0.1 + torch.eye(3, dtype=x.dtype) * 2


def first_of(y):
    return y[0] if isinstance(y, tuple) else y


signs, classes = torch.tensor([1.0, -1.0, 1.0]), torch.tensor([1, 0, 3])
ROWS = {
    "matmul": lambda t: torch.matmul(t(2, 3), t(3, 4)),
    "bmm": lambda t: torch.bmm(t(2, 3, 4), t(2, 4, 5)),
    "addmm": lambda t: torch.addmm(t(3, 5), t(3, 4), t(4, 5)),
    "addbmm": lambda t: torch.addbmm(t(3, 5), t(2, 3, 4), t(2, 4, 5)),
    "baddbmm": lambda t: torch.baddbmm(t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)),
    "tensordot": lambda t: torch.tensordot(t(2, 3), t(3, 4), 1),
    "einsum": lambda t: torch.einsum("ij,jk->ik", t(2, 3), t(3, 4)),
    "multi_dot": lambda t: torch.linalg.multi_dot([t(2, 3), t(3, 4), t(4, 2)]),
    "linear": lambda t: F.linear(t(2, 3), t(4, 3), t(4)),
    "conv1d": lambda t: F.conv1d(t(1, 2, 5), t(3, 2, 3), t(3)),
    "conv2d": lambda t: F.conv2d(t(1, 2, 5, 5), t(3, 2, 3, 3), t(3)),
    "conv3d": lambda t: F.conv3d(t(1, 2, 4, 4, 4), t(3, 2, 2, 2, 2), t(3)),
    "conv_transpose1d": lambda t: F.conv_transpose1d(t(1, 2, 5), t(2, 3, 3), t(3)),
    "conv_transpose2d": lambda t: F.conv_transpose2d(t(1, 2, 5, 5), t(2, 3, 3, 3), t(3)),
    "conv_transpose3d": lambda t: F.conv_transpose3d(t(1, 2, 4, 4, 4), t(2, 3, 2, 2, 2), t(3)),
    "scaled_dot_product_attention": lambda t: F.scaled_dot_product_attention(*(t(1, 2, 3, 4) for _ in range(3))),
    "multi_head_attention": attention,
    "prelu": lambda t: F.prelu(t(2, 3), t(3)),
    "prod": lambda t: torch.prod(t(2, 3)),
    "trace": lambda t: torch.trace(t(3, 3)),
    "reflection_pad1d": lambda t: F.pad(t(1, 2, 5), (1, 1), "reflect"),
    "reflection_pad2d": lambda t: F.pad(t(1, 2, 5, 5), (1, 1, 1, 1), "reflect"),
    "replication_pad1d": lambda t: F.pad(t(1, 2, 5), (1, 1), "replicate"),
    "replication_pad2d": lambda t: F.pad(t(1, 2, 5, 5), (1, 1, 1, 1), "replicate"),
    "replication_pad3d": lambda t: F.pad(t(1, 2, 4, 4, 4), (1,) * 6, "replicate"),
    "max_pool3d": lambda t: F.max_pool3d(t(1, 2, 4, 4, 4), 2),
    "avg_pool3d": lambda t: F.avg_pool3d(t(1, 2, 4, 4, 4), 2),
    "adaptive_max_pool3d": lambda t: F.adaptive_max_pool3d(t(1, 2, 4, 4, 4), 2),
    "adaptive_avg_pool3d": lambda t: F.adaptive_avg_pool3d(t(1, 2, 4, 4, 4), 2),
    **{
        op: lambda t, f=getattr(torch.fft, op): torch.view_as_real(f(torch.complex(t(4, 4).float(), t(4, 4).float())))
        for op in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn")
    },
    **{op: lambda t, f=getattr(torch.fft, op): torch.view_as_real(f(t(4, 4))) for op in ("rfft", "rfft2", "rfftn")},
    **{op: lambda t, f=getattr(torch.fft, op): f(t(4, 4)) for op in ("irfft", "irfft2", "irfftn")},
    "stft": lambda t: torch.view_as_real(torch.stft(t(16), 8, window=t(8), return_complex=True)),
    "istft": lambda t: torch.istft(torch.complex(t(5, 4).float(), t(5, 4).float()), 8, window=t(8).float() + 1),
    "quantile": lambda t: torch.quantile(t(5), 0.3),
    "nanquantile": lambda t: torch.nanquantile(t(5), 0.3),
    "cdist": lambda t: torch.cdist(t(3, 2), t(4, 2)),
    "grid_sample": lambda t: F.grid_sample(t(1, 1, 2, 2), t(1, 2, 2, 2), align_corners=False),
    "affine_grid": lambda t: F.affine_grid(t(1, 2, 3), [1, 1, 2, 2], align_corners=False),
    "interpolate": lambda t: F.interpolate(t(1, 1, 2, 2), size=(3, 3), mode="bicubic"),
    "max_unpool2d": lambda t: F.max_unpool2d(t(1, 1, 1, 1), torch.tensor([[[[2]]]]), 2),
    "max_unpool3d": lambda t: F.max_unpool3d(t(1, 1, 1, 1, 1), torch.tensor([[[[[2]]]]]), 2),
    **{
        op: lambda t, f=getattr(torch.linalg, op): first_of(f(definite(t)))
        for op in (
            "cholesky cholesky_ex inv inv_ex lu_factor lu_factor_ex lu det slogdet qr eigh eigvalsh svd svdvals".split()
        )
    },
    "solve": lambda t: torch.linalg.solve(definite(t), t(3, 2)),
    "solve_triangular": lambda t: torch.linalg.solve_triangular(definite(t), t(3, 2), upper=True),
    "lstsq": lambda t: torch.linalg.lstsq(definite(t), t(3, 2)).solution,
    **{
        op: lambda t, f=getattr(torch.linalg, op): first_of(f(definite(t))) for op in ("ldl_factor", "ldl_factor_ex")
    },
    "lu_solve": lambda t: torch.linalg.lu_solve(definite(t), torch.tensor([1, 3, 3], dtype=torch.int32), t(3, 2)),
    "ldl_solve": lambda t: torch.linalg.ldl_solve(definite(t), torch.tensor([1, 3, 3], dtype=torch.int32), t(3, 2)),
    "householder_product": lambda t: torch.linalg.householder_product(definite(t), t(3)),
    "mse_loss": lambda t: F.mse_loss(t(2, 3), t(2, 3)),
    "l1_loss": lambda t: F.l1_loss(t(2, 3), t(2, 3)),
    "smooth_l1_loss": lambda t: F.smooth_l1_loss(t(2, 3), t(2, 3)),
    "huber_loss": lambda t: F.huber_loss(t(2, 3), t(2, 3)),
    "hinge_embedding_loss": lambda t: F.hinge_embedding_loss(t(3), t(3).sign()),
    "binary_cross_entropy": lambda t: F.binary_cross_entropy(unit(t(2, 3)), unit(t(2, 3))),
    "binary_cross_entropy_with_logits": lambda t: F.binary_cross_entropy_with_logits(t(2, 3), t(2, 3)),
    "nll_loss": lambda t: F.nll_loss(t(3, 4), classes, t(4)),
    "cross_entropy": lambda t: F.cross_entropy(t(3, 4), classes, t(4)),
    "kl_div": lambda t: F.kl_div(t(2, 3), unit(t(2, 3)), reduction="sum"),
    "triplet_margin_loss": lambda t: F.triplet_margin_loss(t(2, 3), t(2, 3), t(2, 3)),
    "ctc_loss": ctc,
    "cosine_embedding_loss": lambda t: F.cosine_embedding_loss(t(3, 4), t(3, 4), signs),
    "margin_ranking_loss": lambda t: F.margin_ranking_loss(t(3), t(3), signs),
    "multi_margin_loss": lambda t: F.multi_margin_loss(t(3, 4), classes),
    "poisson_nll_loss": lambda t: F.poisson_nll_loss(t(2, 3), t(2, 3)),
    "soft_margin_loss": lambda t: F.soft_margin_loss(t(3), signs),
    "concat": lambda t: torch.cat([t(2, 3), t(2, 3)]),
    "stack": lambda t: torch.stack([t(2, 3), t(2, 3)]),
    "slice_assign": assigned,
    "layer_norm": lambda t: F.layer_norm(t(2, 4), (4,), t(4), t(4)),
    "rms_norm": lambda t: F.rms_norm(t(2, 4), (4,), t(4)),
    "group_norm": lambda t: F.group_norm(t(2, 4, 3), 2, t(4), t(4)),
    "instance_norm": lambda t: F.instance_norm(t(2, 4, 3), weight=t(4), bias=t(4)),
    "batch_norm": lambda t: F.batch_norm(t(3, 4), None, None, t(4), t(4), training=True),
    # Some of those that run in the types of their operands.
    "add": lambda t: t(2, 3) + t(3),
    "mul": lambda t: t(2, 3) * t(2, 3),
    "div": lambda t: t(2, 3) / t(2, 3),
    "maximum": lambda t: torch.maximum(t(2, 3), t(2, 3)),
    "where": lambda t: torch.where(torch.tensor([True, False, True]), t(2, 3), t(2, 3)),
    "addcmul": lambda t: torch.addcmul(t(2, 3), t(2, 3), t(2, 3)),
    "pow": lambda t: torch.pow(t(2, 3).abs(), t(2, 3)),
    "outer": lambda t: torch.outer(t(2), t(3)),
    "cosine_similarity": lambda t: F.cosine_similarity(t(2, 3), t(2, 3)),
    "softmax": lambda t: torch.softmax(t(2, 3), -1),
    "log_softmax": lambda t: torch.log_softmax(t(2, 3), -1),
    "exp": lambda t: torch.exp(t(2, 3)),
    "gelu": lambda t: F.gelu(t(2, 3)),
    "sum": lambda t: torch.sum(t(2, 3)),
    "mean": lambda t: torch.mean(t(2, 3)),
    "cumsum": lambda t: torch.cumsum(t(2, 3), 0),
    "max_pool2d": lambda t: F.max_pool2d(t(1, 2, 4, 4), 2),
    "avg_pool2d": lambda t: F.avg_pool2d(t(1, 2, 4, 4), 2),
    "embedding": lambda t: F.embedding(torch.tensor([0, 2]), t(3, 4)),
}


def result(f, half, first, others):
    count = 0

    def t(*shape):
        nonlocal count
        count += 1
        return torch.randn(*shape).to(first if count == 1 else others)

    try:
        with torch.autocast("cpu", dtype=half):
            dtype = f(t).dtype
    except (RuntimeError, ValueError):
        return None
    if count == 1 and first != others:
        return None
    return {half: "half", torch.float32: "f32"}[dtype]


def main():
    lines = []
    for op, f in ROWS.items():
        rows = []
        for half in [torch.bfloat16, torch.float16]:
            single = torch.float32
            kinds = [("f32", single, single), ("half", half, half), ("mixed", half, single)]
            rows.append({"op": op} | {name: result(f, half, *types) for name, *types in kinds})
        assert rows[0] == rows[1], rows
        lines.append(json.dumps(rows[0]))
    with open(sys.argv[1], "w") as out:
        out.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()

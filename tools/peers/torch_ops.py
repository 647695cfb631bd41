"""Measures PyTorch on the rows of `elinvar-lab bench ops`, as JSON lines of the same form.

What is measured is read from `lab/bench/ops.jsonl`, as our program reads it: the text of an operand, which values it has, and
of which operands a second row has the gradients. So are the rules: a warm-up, 5 to 60 samples, short calls in batches, up to
three rounds where samples lie apart, of which the quietest counts.

usage: python3 torch_ops.py [--seconds S] [--threads N] [TEXT...]      only rows in whose "workload|shape|dtype" a text is
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as e:
    sys.exit(f"left out: {e}")

ROWS = pathlib.Path(__file__).resolve().parents[2] / "lab" / "bench" / "ops.jsonl"
DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
    "u8": torch.uint8, "bool": torch.bool,
}


def operand(text):
    sizes, *words = text.split(" ")
    sizes = [int(n) for n in sizes.split("x")]
    name = words.pop(0) if words and words[0] in DTYPES else "f32"
    dtype, kind = DTYPES[name], words[0] if words else ""
    if kind.startswith("<"):
        return torch.randint(0, int(kind[1:]), sizes, dtype=dtype)
    if ".." in kind:
        low, high = kind.split("..")
        return torch.randint(int(low), int(high), sizes, dtype=dtype)
    if dtype == torch.bool:
        return torch.rand(sizes) < 0.5
    low = 0.1 if kind == ">0" else -1.0
    return torch.empty(sizes, dtype=torch.float64).uniform_(low, 1.0).to(dtype)


def same(name):
    """An op that PyTorch has by this name, with its operands in the order of the file."""
    return lambda f, a, x: getattr(torch, name)(*x.values())


def functional(name):
    """One of `torch.nn.functional`, with its operands in the order of the file, and all attributes."""
    return lambda f, a, x: getattr(F, name)(*x.values(), **a)


def scalar_or(name):
    """A function of two, the other of which may be a number on the right."""
    return lambda f, a, x: getattr(torch, name)(x["x"], x["y"] if "y" in x else a["scalar"])


def along(name, *more):
    """A reduction along `dim`, or of all."""

    def call(f, a, x):
        named = {m: a[m] for m in more}
        return getattr(torch, name)(x["x"], **named) if a["dim"] is None else getattr(torch, name)(x["x"], dim=a["dim"], **named)

    return call


def attributes(function, *names):
    """Operands in the order of the file, and these attributes by name."""
    return lambda f, a, x: function(*x.values(), **{n: a[n] for n in names})


def product(f, a, x):
    # Of all elements at once PyTorch takes no axis.
    return torch.prod(x["x"]) if a["dim"] is None else torch.prod(x["x"], a["dim"])


def norm(f, a, x):
    return torch.linalg.vector_norm(x["x"], a["p"], a["dim"])


def convolution(name):
    def call(f, a, x):
        named = {n: a[n] for n in ("stride", "padding", "dilation", "groups", "output_padding") if n in a}
        return getattr(F, name)(x["x"], x["weight"], x.get("bias"), **named)

    return call


def recurrent(kind):
    """The kernel that PyTorch's modules call; weights in the order in which they are named."""

    def call(f, a, x):
        weights = [x["w_ih_l0"], x["w_hh_l0"], x["b_ih_l0"], x["b_hh_l0"]]
        hidden = x["w_hh_l0"].shape[1]
        h = f.setdefault("h", torch.zeros(1, x["x"].shape[1], hidden))
        state = (h, h) if kind == "lstm" else h
        training = torch.is_grad_enabled()
        return getattr(torch._VF, kind)(x["x"], state, weights, True, a["num_layers"], 0.0, training, a["bidirectional"], a["batch_first"])

    return call


def batch_norm(f, a, x):
    # Statistics of earlier batches change where they lie, as the module's do.
    if "running" not in f:
        f["running"] = x["running_mean"].clone(), x["running_var"].clone()
    return F.batch_norm(x["x"], *f["running"], x["weight"], x["bias"], a["training"], a["momentum"], a["eps"])


def attention(f, a, x):
    named = {"is_causal": a["is_causal"], "scale": a["scale"], "enable_gqa": a["enable_gqa"]}
    return F.scaled_dot_product_attention(x["q"], x["k"], x["v"], x.get("mask"), **named)


def ctc(f, a, x):
    rows = F.log_softmax(x["logits"], -1)
    named = {n: a[n] for n in ("blank", "reduction", "zero_infinity")}
    return F.ctc_loss(rows, x["targets"], x["input_lengths"], x["target_lengths"], **named)


PLAIN = """abs neg relu sigmoid selu erf expm1 sin cos tan sinh cosh asin acos atan floor round sign isnan log log2 log1p sqrt rsqrt
reciprocal exp tanh outer dot bmm matmul add sub mul maximum atan2 fmod remainder floor_divide eq lt bitwise_and logical_and where masked_select
nonzero""".split()

CALLS = {name: same(name) for name in PLAIN}
CALLS |= {name: functional(name) for name in ["silu", "mish", "softsign", "hardswish", "softplus", "elu", "leaky_relu", "hardtanh", "gelu"]}
CALLS |= {name: scalar_or(name) for name in ["pow"]}
CALLS |= {name: along(name) for name in ["sum", "mean", "amax", "max", "argmax", "logsumexp", "any", "all", "cumsum", "cumprod", "count_nonzero", "softmax", "log_softmax"]}
CALLS |= {name: along(name, "correction") for name in ["var", "std"]}
CALLS |= {name: convolution(name) for name in ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"]}
CALLS |= {
    "div": lambda f, a, x: torch.div(x["x"], x["y"]),
    "prod": product,
    "norm": norm,
    "clamp": attributes(torch.clamp, "min", "max"),
    "lerp": attributes(torch.lerp, "weight"),
    "masked_fill": attributes(torch.masked_fill, "value"),
    "addcmul": attributes(torch.addcmul, "value"),
    "addmm": attributes(torch.addmm, "beta", "alpha"),
    "einsum": lambda f, a, x: torch.einsum(a["equation"], *x.values()),
    "linear": lambda f, a, x: F.linear(*x.values()),
    "concat": lambda f, a, x: torch.cat(list(x.values()), a["dim"]),
    "stack": lambda f, a, x: torch.stack(list(x.values()), a["dim"]),
    "repeat": lambda f, a, x: x["x"].repeat(a["repeats"]),
    "tile": lambda f, a, x: x["x"].tile(a["dims"]),
    "flip": attributes(torch.flip, "dims"),
    "roll": attributes(torch.roll, "shifts", "dims"),
    "pad": lambda f, a, x: F.pad(x["x"], a["pad"], a["mode"], *([a["value"]] if a["mode"] == "constant" else [])),
    "tril": attributes(torch.tril, "diagonal"),
    "gather": lambda f, a, x: torch.gather(x["x"], a["dim"], x["index"]),
    "index_select": lambda f, a, x: torch.index_select(x["x"], a["dim"], x["index"]),
    "scatter_add": lambda f, a, x: torch.scatter_add(x["x"], a["dim"], x["index"], x["src"]),
    "index_add": lambda f, a, x: torch.index_add(x["x"], a["dim"], x["index"], x["src"], alpha=a["alpha"]),
    "one_hot": lambda f, a, x: F.one_hot(x["x"], a["num_classes"]),
    "sort": lambda f, a, x: torch.sort(x["x"], dim=a["dim"], descending=a["descending"], stable=True),
    "argsort": lambda f, a, x: torch.argsort(x["x"], dim=a["dim"], descending=a["descending"], stable=True),
    "topk": attributes(torch.topk, "k", "dim", "largest"),
    "unique": lambda f, a, x: torch.unique(x["x"], return_inverse=True, return_counts=True),
    "unfold": functional("unfold"),
    "unfold_dim": attributes(torch.Tensor.unfold, "dimension", "size", "step"),
    "cast": lambda f, a, x: x["x"].to(DTYPES[a["to"].lower()]),
    "max_pool1d": functional("max_pool1d"),
    "max_pool2d": functional("max_pool2d"),
    "avg_pool2d": functional("avg_pool2d"),
    "adaptive_avg_pool2d": functional("adaptive_avg_pool2d"),
    "adaptive_max_pool2d": functional("adaptive_max_pool2d"),
    "interpolate": functional("interpolate"),
    "layer_norm": lambda f, a, x: F.layer_norm(x["x"], a["normalized_shape"], x["weight"], x["bias"], a["eps"]),
    "rms_norm": lambda f, a, x: F.rms_norm(x["x"], a["normalized_shape"], x["weight"], a["eps"]),
    "group_norm": lambda f, a, x: F.group_norm(x["x"], a["num_groups"], x["weight"], x["bias"], a["eps"]),
    "instance_norm": lambda f, a, x: F.instance_norm(x["x"], weight=x["weight"], bias=x["bias"], eps=a["eps"]),
    "batch_norm": batch_norm,
    "embedding": lambda f, a, x: F.embedding(x["index"], x["weight"]),
    "scaled_dot_product_attention": attention,
    "lstm": recurrent("lstm"),
    "gru": recurrent("gru"),
    "rnn_tanh": recurrent("rnn_tanh"),
    "ctc_loss": ctc,
}




def transformed(name):
    """Pairs are views of complex numbers."""

    def call(f, a, x):
        of = x["x"] if name == "rfft" else torch.view_as_complex(x["x"])
        y = getattr(torch.fft, name)(of)
        return y if name == "irfft" else torch.view_as_real(y)

    return call


CALLS |= {name: transformed(name) for name in ["fft", "ifft", "rfft", "irfft"]}
CALLS |= {
    name: lambda f, a, x, of=getattr(torch.linalg, name): of(*x.values(), **a)
    for name in ["lu_factor", "solve", "inv", "qr", "svdvals", "eigh"]
}
CALLS |= {name: functional(name) for name in ["cross_entropy", "mse_loss", "huber_loss", "binary_cross_entropy_with_logits", "kl_div", "cosine_similarity"]}


def results(y):
    return [y] if isinstance(y, torch.Tensor) else [t for t in y if isinstance(t, torch.Tensor)]


WARM_UP, LONG, SHORT, SPREAD, ROUNDS = 0.15, 2.0, 200e-6, 1.3, 3


def timed(call, calls):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start


def measure(call, seconds):
    calls, total, one = 0, 0.0, float("inf")
    while (calls < 2 or total < WARM_UP) and total < LONG:
        t = timed(call, 1)
        calls, total, one = calls + 1, total + t, min(one, t)
    batch = -int(-SHORT // max(one, 1e-9)) if one < SHORT else 1
    count = min(60, max(3 if one > LONG else 5, int(seconds / (batch * one))))
    best = None
    for _ in range(ROUNDS):
        times = sorted(timed(call, batch) / batch for _ in range(count))
        if best is None or statistics.median(times) < statistics.median(best):
            best = times
        if times[count * 9 // 10] < SPREAD * times[count // 10] or one > LONG:
            break
    return best


def dtype_of(operands):
    """That of the first operand of floats, in the order of their roles' names, or of the first."""
    inorder = [operands[role] for role in sorted(operands)]
    name = {v: k for k, v in DTYPES.items()}
    return name[next((x.dtype for x in inorder if x.dtype.is_floating_point), inorder[0].dtype)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("only", nargs="*")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    failed = False
    for line in map(json.loads, ROWS.read_text().splitlines()):
        operands = {role: operand(text) for role, text in line["in"].items()}
        dtype, attrs, gradient = dtype_of(operands), line.get("attrs", {}), line.get("gradient", [])
        for both in [False, True] if gradient else [False]:
            workload = line["op"] + ("_fb" if both else "")
            name = f"{workload}|{line['shape']}|{dtype}"
            if args.only and not any(text in name for text in args.only):
                continue
            kept, call = {}, CALLS[line["op"]]
            try:
                if both:
                    x = {r: t.clone().requires_grad_(r in gradient) for r, t in operands.items()}
                    wanted = [x[r] for r in gradient]
                    ones = [torch.ones_like(y) for y in results(call(kept, attrs, x)) if y.requires_grad]

                    def run():
                        ys = [y for y in results(call(kept, attrs, x)) if y.requires_grad]
                        torch.autograd.grad(ys, wanted, ones)

                    times = measure(run, args.seconds)
                else:
                    with torch.no_grad():
                        times = measure(lambda: call(kept, attrs, operands), args.seconds)
            except Exception as e:
                print(f"FAILED {name}: {e}".splitlines()[0], file=sys.stderr, flush=True)
                failed = True
                continue
            print(json.dumps({
                "peer": "torch-eager", "version": torch.__version__, "workload": workload, "shape": line["shape"], "dtype": dtype,
                "threads": args.threads, "median_s": statistics.median(times), "min_s": times[0], "max_s": times[-1], "samples": len(times),
            }), flush=True)
    sys.exit(failed)


main()

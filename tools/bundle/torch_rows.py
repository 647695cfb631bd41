"""Measures PyTorch on the first GPU (with CUDA or ROCm, which torch calls `cuda`, too), on rows that `elinvar-lab bench` has too, as JSON lines of the same form.

Each row is a call and a wait for the device, as it is for `elinvar-lab bench`; the median of at least seven. TF32 is off, as PyTorch
has it by default for products; `torch-tf32` has it on, where that changes a row.

usage: python3 torch_rows.py [--seconds S] [--device cuda|cpu] [--large]      S: about so long for each row, 0.2 at first;
--large: the rows of `elinvar-lab bench large`, which fill a large GPU
"""

import argparse
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as e:
    sys.exit(f"left out: {e}")

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=0.2)
parser.add_argument("--device", default="cuda")
parser.add_argument("--large", action="store_true")
args = parser.parse_args()
device = torch.device(args.device)
if device.type == "cuda" and not torch.cuda.is_available():
    sys.exit("left out: this torch knows no GPU")
torch.manual_seed(1)
# A build for ROCm says so, whoever built it.
version = torch.__version__
if torch.version.hip and "rocm" not in version:
    version = f"{version}+rocm{torch.version.hip}"


def wait():
    if device.type == "cuda":
        torch.cuda.synchronize()


def of(*dims, dtype=torch.float32):
    return (torch.rand(dims, device=device) * 2 - 1).to(dtype)


def measure(call):
    for _ in range(2):
        call()
        wait()
    times, start = [], time.perf_counter()
    while len(times) < 7 or time.perf_counter() - start < args.seconds:
        before = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - before)
    return times


def row(workload, shape, call, dtype="f32", flops=0, bytes=0, peer="torch-eager"):
    try:
        times = measure(call)
    except Exception as e:
        print(f"left out: {workload} {shape} {dtype}: {e}".splitlines()[0], flush=True)
        return
    median = statistics.median(times)
    line = {
        "peer": peer, "version": version, "workload": workload, "shape": shape, "dtype": dtype, "threads": 1,
        "median_s": median, "min_s": min(times), "max_s": max(times), "samples": len(times),
    }
    if flops:
        line["gflops"] = round(flops / median / 1e9, 2)
    if bytes:
        line["gbps"] = round(bytes / median / 1e9, 2)
    print(json.dumps(line), flush=True)


def products():
    for n in [64, 128, 256, 512, 1024, 2048]:
        x, w = of(n, n), of(n, n)
        row("gemm_nn", f"{n}x{n}x{n}", lambda: x @ w, flops=2 * n**3)
    x, w = of(2048, 2048), of(2048, 2048)
    torch.backends.cuda.matmul.allow_tf32 = True
    row("gemm_nn", "2048x2048x2048", lambda: x @ w, flops=2 * 2048**3, peer="torch-tf32")
    torch.backends.cuda.matmul.allow_tf32 = False
    for name, dtype in [("f64", torch.float64), ("bf16", torch.bfloat16), ("f16", torch.float16)]:
        x, w = of(1024, 1024, dtype=dtype), of(1024, 1024, dtype=dtype)
        row("gemm_nn", "1024x1024x1024", lambda: x @ w, dtype=name, flops=2 * 1024**3)
        if name == "bf16":
            row("gemm_nn_fast", "1024x1024x1024", lambda: x @ w, dtype=name, flops=2 * 1024**3)
    for n in [256, 1024]:
        x, w = of(n, n), of(n, n)
        row("gemm_nt", f"{n}x{n}x{n}", lambda: x @ w.t(), flops=2 * n**3)
        row("gemm_tn", f"{n}x{n}x{n}", lambda: x.t() @ w, flops=2 * n**3)
    for n in [1024, 4096]:
        for m in [1, 8, 32]:
            x, w = of(m, n), of(n, n)
            row("linear", f"{m}x{n}x{n}", lambda: F.linear(x, w), flops=2 * m * n * n)
    for b, m, n, k in [(64, 64, 64, 64), (96, 128, 128, 64)]:
        x, w = of(b, m, k), of(b, k, n)
        row("bmm", f"{b}x{m}x{n}x{k}", lambda: torch.bmm(x, w), flops=2 * b * m * n * k)


def elementwise():
    for n in [1 << 16, 1 << 20, 1 << 24]:
        x, y = of(n), of(n)
        row("add", str(n), lambda: x + y, bytes=12 * n)
        row("mul", str(n), lambda: x * y, bytes=12 * n)
        row("exp", str(n), lambda: torch.exp(x), bytes=8 * n)
        row("tanh", str(n), lambda: torch.tanh(x), bytes=8 * n)
        row("gelu_erf", str(n), lambda: F.gelu(x), bytes=8 * n)
        row("gelu_tanh", str(n), lambda: F.gelu(x, approximate="tanh"), bytes=8 * n)
        row("chain", str(n), lambda: F.gelu(x * 1.5 + 0.25) * 0.5 + 1.0, bytes=8 * n)
        row("cast_bf16", str(n), lambda: x.to(torch.bfloat16), bytes=6 * n)
    x = of(2048, 2048)
    row("transpose_copy", "2048x2048", lambda: x.t().contiguous(), bytes=8 * 2048 * 2048)


def reductions():
    x = of(1 << 24)
    row("sum_all", str(1 << 24), lambda: x.sum(), bytes=4 << 24)
    row("max_all", str(1 << 24), lambda: x.max(), bytes=4 << 24)
    x = of(4096, 4096)
    row("sum_axis0", "4096x4096", lambda: x.sum(0), bytes=4 << 24)
    row("sum_axis1", "4096x4096", lambda: x.sum(1), bytes=4 << 24)
    row("argmax_axis1", "4096x4096", lambda: x.argmax(1), bytes=4 << 24)
    x = of(4096, 1024)
    row("softmax", "4096x1024", lambda: F.softmax(x, -1), bytes=8 << 22)
    row("cumsum_axis1", "4096x1024", lambda: x.cumsum(1), bytes=8 << 22)
    x, w, b = of(4096, 768), of(768), of(768)
    row("layer_norm", "4096x768", lambda: F.layer_norm(x, (768,), w, b), bytes=8 * 4096 * 768)


def attention():
    for (b, h, t, d), causal in [((8, 12, 128, 64), False), ((1, 16, 1024, 64), True)]:
        q, k, v = of(b, h, t, d), of(b, h, t, d), of(b, h, t, d)
        shape = f"{b}x{h}x{t}x{d}" + ("_causal" if causal else "")
        flops = 4 * b * h * t * t * d // (2 if causal else 1)
        row("attn_f", shape, lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal), flops=flops)


def both(workload, shape, call, inputs, flops=0, bytes=0):
    """A call, and with its gradients: three times the operations, and some 2.5 times the bytes."""
    row(f"{workload}_f", shape, call, flops=flops, bytes=bytes)
    with torch.enable_grad():
        for x in inputs:
            x.requires_grad_(True)
        ones = torch.ones_like(call())
        row(f"{workload}_fb", shape, lambda: torch.autograd.grad(call(), inputs, ones), flops=3 * flops)


def networks():
    torch.backends.cudnn.allow_tf32 = False
    for n, c, k, h, r, stride, padding, groups in [
        (8, 3, 64, 224, 7, 2, 3, 1), (8, 64, 64, 56, 3, 1, 1, 1), (8, 256, 256, 14, 3, 1, 1, 1), (8, 256, 1024, 14, 1, 1, 0, 1),
        (8, 144, 144, 56, 3, 1, 1, 144),
    ]:
        x, w = of(n, c, h, h), of(k, c // groups, r, r)
        shape = f"n{n}_c{c}_k{k}_h{h}_r{r}_s{stride}_p{padding}_g{groups}"
        out = (h + 2 * padding - r) // stride + 1
        flops = 2 * n * k * out * out * (c // groups) * r * r
        both("conv2d", shape, lambda: F.conv2d(x, w, stride=stride, padding=padding, groups=groups), [x, w], flops)
    x = of(8, 64, 112, 112)
    both("maxpool", "8x64x112x112_k2s2", lambda: F.max_pool2d(x, 2), [x])
    with torch.no_grad():
        row("maxpool_f", "8x64x112x112_k3s2p1", lambda: F.max_pool2d(x, 3, 2, 1))
    x, w, b = of(8, 64, 56, 56), of(64), of(64)
    mean, var = torch.zeros(64, device=device), torch.ones(64, device=device)
    both("batchnorm", "8x64x56x56", lambda: F.batch_norm(x, mean, var, w, b, training=True), [x, w, b])
    for (b, h, t, d), causal in [((8, 12, 128, 64), False), ((1, 16, 1024, 64), True)]:
        qkv = [of(b, h, t, d) for _ in range(3)]
        shape = f"{b}x{h}x{t}x{d}" + ("_causal" if causal else "")
        both("attn", shape, lambda: F.scaled_dot_product_attention(*qkv, is_causal=causal), qkv)


def moved_by_large():
    n = 1 << 26
    x, y = of(n), of(n)
    row("copy", str(n), lambda: x.clone(), bytes=8 * n)
    row("add", str(n), lambda: x + y, bytes=12 * n)
    row("exp", str(n), lambda: torch.exp(x), bytes=8 * n)
    row("gelu_tanh", str(n), lambda: F.gelu(x, approximate="tanh"), bytes=8 * n)
    row("sum_all", str(n), lambda: x.sum(), bytes=4 * n)
    x, w, b = of(16384, 4096), of(4096), of(4096)
    row("softmax", "16384x4096", lambda: F.softmax(x, -1), bytes=8 * n)
    row("layer_norm", "16384x4096", lambda: F.layer_norm(x, (4096,), w, b), bytes=8 * n)
    count, each = 48, 1 << 21
    with torch.enable_grad():
        parameters = [torch.nn.Parameter(of(each)) for _ in range(count)]
        for p in parameters:
            p.grad = of(each)
        adam = torch.optim.Adam(parameters, lr=1e-4, fused=device.type == "cuda")
        row("adam", f"{count}x{each}", adam.step, bytes=7 * 4 * count * each)


def large():
    for n in [4096, 8192]:
        flops, shape = 2 * n**3, f"{n}x{n}x{n}"
        x, w = of(n, n), of(n, n)
        row("gemm_nn", shape, lambda: x @ w, flops=flops)
        torch.backends.cuda.matmul.allow_tf32 = True
        row("gemm_nn_fast", shape, lambda: x @ w, flops=flops)
        torch.backends.cuda.matmul.allow_tf32 = False
        for name, dtype in [("bf16", torch.bfloat16), ("f16", torch.float16)]:
            a, b = x.to(dtype), w.to(dtype)
            row("gemm_nn_fast", shape, lambda: a @ b, dtype=name, flops=flops)
    b, h, t, d = 8, 16, 2048, 128
    for causal in [False, True]:
        q, k, v = (of(b, h, t, d, dtype=torch.bfloat16) for _ in range(3))
        shape = f"{b}x{h}x{t}x{d}" + ("_causal" if causal else "")
        flops = 4 * b * h * t * t * d // (2 if causal else 1)
        row("attn_f_fast", shape, lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal), "bf16", flops)
        with torch.enable_grad():
            for x in (q, k, v):
                x.requires_grad_(True)
            ones = torch.ones_like(q)

            def both():
                y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                torch.autograd.grad(y, (q, k, v), ones)

            row("attn_fb_fast", shape, both, "bf16", flops // 2 * 7)
    torch.backends.cudnn.allow_tf32 = False
    for n, c, k, side in [(64, 64, 64, 56), (64, 256, 256, 14)]:
        x, w = of(n, c, side, side), of(k, c, 3, 3)
        shape, flops = f"n{n}_c{c}_k{k}_h{side}_r3_s1_p1_g1", 2 * n * k * side * side * c * 9

        def conv(x, w, name, dtype, peer):
            row(f"conv2d_f{name}", shape, lambda: F.conv2d(x, w, padding=1), dtype, flops, peer=peer)
            with torch.enable_grad():
                x, w = (v.clone().requires_grad_(True) for v in (x, w))
                ones = torch.ones_like(F.conv2d(x, w, padding=1))

                def both():
                    torch.autograd.grad(F.conv2d(x, w, padding=1), (x, w), ones)

                row(f"conv2d_fb{name}", shape, both, dtype, 3 * flops, peer=peer)

        conv(x, w, "", "f32", "torch-eager")
        for form in [torch.contiguous_format, torch.channels_last]:
            a, f = (v.to(torch.bfloat16).contiguous(memory_format=form) for v in (x, w))
            peer = "torch-eager" if form == torch.contiguous_format else "torch-eager-nhwc"
            conv(a, f, "_fast", "bf16", peer)


with torch.no_grad():
    if args.large:
        moved_by_large()
        large()
    else:
        products()
        elementwise()
        reductions()
        if device.type == "cuda":
            networks()
        else:
            attention()

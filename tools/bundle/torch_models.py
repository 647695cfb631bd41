"""Measures PyTorch on the rows of `elinvar-lab bench` for whole models: `models`, `training`, and BERT's of `inference`.

JSON lines of the same form. Each row is measured eager, compiled (`torch.compile`), and as one CUDA graph; what this machine or this
torch cannot do is left out with a sentence. Peak memory is that of torch's allocator, after the same steps.

usage: python3 torch_models.py [--seconds S] [--device cuda|cpu] [--tiny]      --tiny: a model that any device runs in a moment
"""

import argparse
import gc
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as e:
    sys.exit(f"left out: {e}")

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=0.5)
parser.add_argument("--device", default="cuda")
parser.add_argument("--tiny", action="store_true")
args = parser.parse_args()
device = torch.device(args.device)
on_gpu = device.type == "cuda"
if on_gpu and not torch.cuda.is_available():
    sys.exit("left out: this torch knows no GPU")
torch.manual_seed(1)
# A build for ROCm says so, whoever built it.
version = torch.__version__
if torch.version.hip and "rocm" not in version:
    version = f"{version}+rocm{torch.version.hip}"


def wait():
    if on_gpu:
        torch.cuda.synchronize()


def say(**line):
    print(json.dumps({"version": version, "threads": 1} | line), flush=True)


def measure(call):
    for _ in range(3):
        call()
        wait()
    times, start = [], time.perf_counter()
    while len(times) < 7 or time.perf_counter() - start < args.seconds:
        before = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - before)
    return times


def row(workload, shape, dtype, make, peers, memory=False):
    """`make(peer)` gives the call. The peak of memory is told of each peer where it is asked for."""
    for peer in peers:
        gc.collect()
        if on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        try:
            times = measure(make(peer))
        except Exception as e:
            print(f"left out: {peer} {workload} {shape} {dtype}: {type(e).__name__}: {e}".splitlines()[0], flush=True)
            continue
        say(peer=peer, workload=workload, shape=shape, dtype=dtype, median_s=statistics.median(times), min_s=min(times),
            max_s=max(times), samples=len(times))
        if memory and on_gpu:
            value = round(torch.cuda.max_memory_allocated() / 2**20, 1)
            say(peer=peer, workload=f"peak_memory_{workload}", value=value, unit="MiB")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x, cache=None, at=None, mask=None):
        b, t, e = x.shape
        q, k, v = (y.view(b, t, self.heads, e // self.heads).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(e, 2))
        if cache is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            cache[0].index_copy_(2, at, k)
            cache[1].index_copy_(2, at, v)
            y = F.scaled_dot_product_attention(q, cache[0], cache[1], attn_mask=mask)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, e))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2; `head` is tied to the embedding unless a width of its own is asked for."""

    def __init__(self, layers, width, heads, context, vocabulary, tied=True):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=not tied)
        if tied:
            self.head.weight = self.wte.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x, cache=None, at=None, mask=None):
        at = torch.arange(x.shape[1], device=x.device) if at is None else at
        x = self.wte(x) + self.wpe(at)
        for i, block in enumerate(self.h):
            x = block(x, None if cache is None else cache[i], at, mask)
        return self.head(self.ln_f(x))


def captured(call):
    """The call as a CUDA graph, after it ran on a stream of its own."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def training(workload, shape, dtype, net, batch, optimizer, amp=None, memory=False):
    """A step: forward, cross entropy, backward, optimiser."""

    def make(peer):
        model = net().to(device).train()
        x, y = batch()
        forward = torch.compile(model) if peer == "torch-compiled" else model
        o = optimizer(model.parameters(), lr=1e-4, fused=on_gpu, capturable=peer == "torch-graph")

        def step():
            o.zero_grad(set_to_none=peer != "torch-graph")
            with torch.autocast(device.type, dtype=amp, enabled=amp is not None):
                z = forward(x)
                loss = F.cross_entropy(z.reshape(-1, z.shape[-1]), y)
            loss.backward()
            o.step()

        return captured(step) if peer == "torch-graph" else step

    row(workload, shape, dtype, make, peers, memory)


peers = ["torch-eager", "torch-compiled"] + (["torch-graph"] if on_gpu else [])
if not on_gpu:
    print("left out: CUDA graphs: the device is no GPU", flush=True)

L, E, H, T, V, B = (2, 16, 2, 32, 64, 2) if args.tiny else (12, 768, 12, 1024, 50304, 8)
gpt2 = f"L{L}_d{E}_h{H}_s{T}_v{V}"


def gpt2_batch():
    return torch.randint(V, (B, T), device=device), torch.randint(V, (B * T,), device=device)


def gpt2_steps():
    for workload, dtype, tf32, amp in [
        ("train_gpt2", "f32", False, None),
        ("train_gpt2_fast", "f32", True, None),
        ("train_gpt2_amp_fast", "bf16", False, torch.bfloat16),
    ]:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        net = lambda: Gpt2(L, E, H, T, V)
        training(workload, f"{gpt2}_b{B}", dtype, net, gpt2_batch, torch.optim.AdamW, amp, memory=True)
    torch.backends.cuda.matmul.allow_tf32 = False


def decode():
    """A token in the second half of the context, with a cache of fixed size that is written in place."""

    def make(peer):
        net = Gpt2(L, E, H, T, V).to(device).eval()
        cache = [[torch.zeros(1, H, T, E // H, device=device) for _ in range(2)] for _ in range(L)]
        token, at = torch.randint(V, (1, 1), device=device), torch.tensor([T // 2], device=device)
        places = torch.arange(T, device=device)
        forward = torch.compile(net) if peer == "torch-compiled" else net
        step = lambda: forward(token, cache, at, (places <= at).view(1, 1, 1, T))
        step = captured(step) if peer == "torch-graph" else step
        return lambda: (at.copy_((at + 1 - T // 2) % (T // 2) + T // 2), step())

    with torch.no_grad():
        row("decode_gpt2", f"{gpt2}_b1", "f32", make, peers)


def small_steps():
    mlp = lambda: nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    floats = lambda *d: torch.rand(d, device=device) * 2 - 1
    of10 = lambda n: torch.randint(10, (n,), device=device)
    training("train_mlp", "784-512-512-10_b128", "f32", mlp, lambda: (floats(128, 784), of10(128)), torch.optim.Adam)
    cnn = lambda: nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(9216, 128),
        nn.ReLU(), nn.Linear(128, 10))
    shape = "conv32-conv64-pool-fc128_b64_28x28"
    training("train_cnn", shape, "f32", cnn, lambda: (floats(64, 1, 28, 28), of10(64)), torch.optim.Adam)
    batch = lambda: (torch.randint(512, (8, 128), device=device), torch.randint(512, (8 * 128,), device=device))
    training("train_gpt", "L4_d256_h8_s128_v512_b8", "f32", lambda: Gpt2(4, 256, 8, 128, 512, tied=False), batch, torch.optim.Adam)


class Encoder(nn.Module):
    """MiniLM's shape of BERT: norms behind the residual connections."""

    def __init__(self, layers=6, width=384, heads=12, inner=1536, positions=512, tokens=30522):
        super().__init__()
        self.word, self.place, self.kind = (nn.Embedding(n, width) for n in (tokens, positions, 2))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        layer = lambda: nn.TransformerEncoderLayer(
            width, heads, inner, 0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True)
        self.layers = nn.ModuleList(layer() for _ in range(layers))

    def forward(self, x):
        at = torch.arange(x.shape[1], device=x.device)
        x = self.norm(self.word(x) + self.place(at) + self.kind.weight[0])
        for layer in self.layers:
            x = layer(x)
        return x


def bert():
    for b, t in [(1, 16), (1, 128), (32, 64)]:

        def make(peer):
            net, x = Encoder().to(device).eval(), torch.randint(30522, (b, t), device=device)
            forward = torch.compile(net) if peer == "torch-compiled" else net
            call = lambda: forward(x)
            return captured(call) if peer == "torch-graph" else call

        with torch.no_grad():
            row("bert_fwd", f"L6_d384_h12_ff1536_b{b}_s{t}", "f32", make, peers)


gpt2_steps()
decode()
small_steps()
bert()

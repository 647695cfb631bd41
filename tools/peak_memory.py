"""Prints how much memory PyTorch takes for the steps of training that `elinvar-lab bench --all` measures, as JSON lines.

A process knows only the most that it has held, so each network trains in a process of its own; what a process holds that
imports torch and multiplies two small matrices is taken off. Linux only.

usage: python peak_memory.py [mlp|cnn|gpt ...]      BENCH_THREADS: number of threads, 2 at first
"""

import json
import os
import subprocess
import sys

THREADS = int(os.environ.get("BENCH_THREADS") or 2)
STEPS = 5
START = "start"
FUSED = {False: "torch-eager", True: "torch-eager-fusedadam"}


def peak():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:")) / 1024


def networks():
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self, e, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(e), nn.LayerNorm(e)
            self.qkv, self.out = nn.Linear(e, 3 * e), nn.Linear(e, e)
            self.up, self.down = nn.Linear(e, 4 * e), nn.Linear(4 * e, e)

        def forward(self, x):
            b, t, e = x.shape
            q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).split(e, 2))
            found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(found.transpose(1, 2).reshape(b, t, e))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self, layers=4, e=256, heads=8, t=128, vocabulary=512):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, e), nn.Embedding(t, e)
            self.blocks = nn.Sequential(*(Block(e, heads) for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(e), nn.Linear(e, vocabulary)

        def forward(self, x):
            return self.head(self.norm(self.blocks(self.tokens(x) + self.positions.weight)))

    def mlp():
        net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        return net, torch.rand(128, 784) * 2 - 1, torch.randint(10, (128,))

    def cnn():
        convolutions = nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)
        linear = nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)
        return nn.Sequential(*convolutions, *linear), torch.rand(64, 1, 28, 28) * 2 - 1, torch.randint(10, (64,))

    def gpt():
        return Gpt(), torch.randint(512, (8, 128)), torch.randint(512, (8, 128))

    return {"mlp": mlp, "cnn": cnn, "gpt": gpt}


def train(name, fused):
    """What the process holds at most: prints it, and PyTorch's version."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(THREADS)
    torch.set_num_interop_threads(1)
    if name == START:
        (torch.rand(4, 4) @ torch.rand(4, 4)).sum().item()
    else:
        net, x, y = networks()[name]()
        adam = torch.optim.Adam(net.parameters(), lr=1e-4, fused=fused)
        for _ in range(STEPS):
            adam.zero_grad(set_to_none=True)
            F.cross_entropy(net(x).flatten(0, -2), y.flatten()).backward()
            adam.step()
    print(peak(), torch.__version__)


def held(name, fused=False):
    command = [sys.executable, os.path.abspath(__file__), "--train", name, str(int(fused))]
    value, version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(value), version


def main():
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2], sys.argv[3] == "1")
        return
    names = sys.argv[1:] or ["mlp", "cnn", "gpt"]
    start, version = held(START)
    for name in names:
        for fused, peer in FUSED.items():
            line = {"peer": peer, "version": version, "workload": f"peak_memory_train_{name}"}
            line |= {"value": round(held(name, fused)[0] - start, 1), "unit": "MiB", "threads": THREADS}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

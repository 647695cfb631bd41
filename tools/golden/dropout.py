"""Cases of dropout. PyTorch draws from a generator of its own, so what is dropped is told by the paper's Philox4x32-10,
written here a second time: "Parallel random numbers: as easy as 1, 2, 3", SC 2011."""

import torch

from draw import F16, F64, normal
from suite import close, exact, transposed

WORD = 2**32 - 1


def block(counter, key):
    for _ in range(10):
        p, q = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(q >> 32) ^ counter[1] ^ key[0], q & WORD, (p >> 32) ^ counter[3] ^ key[1], p & WORD]
        key = [(key[0] + 0x9E3779B9) & WORD, (key[1] + 0xBB67AE85) & WORD]
    return counter


assert block([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], "the authors' known answer"


def unit(i, seed, stream):
    """Number i of a stream, in 0..1: the upper 24 bits of word i."""
    words = block([i // 4 & WORD, i // 4 >> 32, stream & WORD, stream >> 32], [seed & WORD, seed >> 32])
    return (words[i % 4] >> 8) / 2**24


def cases(s):
    def add(slug, x, p, training=True, seed=7, stream=3, rule=close(2), grad=close(2)):
        def f(x):
            if not training:
                return torch.dropout(x, p, False)
            kept = [unit(i, seed, stream) < 1 - p for i in range(x.numel())]
            return torch.where(torch.tensor(kept, dtype=torch.bool).reshape(x.shape), x / max(1 - p, 1e-9), 0)

        attrs = {"p": p, "training": training, "seed": seed, "stream": stream}
        s.case("dropout", slug, f, {"x": x}, attrs, rule, grad)

    add("half", normal(4, 5), 0.5, rule=exact, grad=exact)
    add("some", normal(3, 7), 0.3)
    add("other_seed_and_stream", normal(3, 7), 0.3, seed=2**40 + 1, stream=2**33 + 5)
    add("nothing", normal(2, 3), 0.0, rule=exact, grad=exact)
    add("everything", normal(2, 3), 1.0, rule=exact, grad=exact)
    add("not_training", normal(2, 3), 0.5, training=False, rule=exact, grad=exact)
    add("strided", transposed(normal(3, 4)), 0.75, rule=exact, grad=exact)
    add("empty", normal(0, 3), 0.5)
    add("f16", normal(2, 4, dtype=F16), 0.4)
    add("f64", normal(2, 4, dtype=F64), 0.4)

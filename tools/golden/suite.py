"""The format of golden cases, and their tolerances.

A case is an op's inputs and attributes, and what PyTorch gives for them in float64. Inputs are drawn in the dtype in
which they are stored, so float64 sees exactly the stored numbers.
"""

import json
import math
import zlib

import torch

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


# The tag of a case of what a golden directory does not have of an op: it runs beside the directory's.
EXTENDS = "extends"


class View:
    """An input that is a view of a larger tensor: the base, and the steps from it."""

    def __init__(self, base, *steps):
        self.base, self.steps = base, list(steps)

    def of(self, base):
        for s in self.steps:
            base = STEPS[s["op"]](base, s)
        return base


def sliced(x, s):
    index = [slice(None)] * x.dim()
    index[s["dim"]] = slice(s["start"], s["stop"], s["step"])
    return x[tuple(index)]


STEPS = {
    "permute": lambda x, s: x.permute(s["dims"]),
    "slice": sliced,
    "expand": lambda x, s: x.expand(s["shape"]),
    "select": lambda x, s: x.select(s["dim"], s["index"]),
}


def permute(*dims):
    return {"op": "permute", "dims": list(dims)}


def cut(dim, start=None, stop=None, step=1):
    return {"op": "slice", "dim": dim, "start": start, "stop": stop, "step": step}


def expand(*shape):
    return {"op": "expand", "shape": list(shape)}


def transposed(x):
    """The tensor as a view whose last two axes lie the other way round, with every second row left out."""
    wide = x.mT.repeat_interleave(2, 0 if x.dim() == 2 else -2).contiguous()
    dims = list(range(x.dim()))
    dims[-1], dims[-2] = dims[-2], dims[-1]
    return View(wide, permute(*dims), cut(-1 % x.dim(), 0, None, 2))


# How far from the expected number a result may be: (rtol, atol), from what is known of the case's result. `eps` is the
# dtype's, `terms` and `count` the sum of the absolute terms and their number, largest of all elements.


def exact(r):
    return 0.0, 0.0


def close(k):
    """A function without zeros, or exact at them: k units in the last place."""
    return lambda r: (k * r.eps, r.tiny)


def smooth(k, scale=1.0):
    """A function with zeros at which the argument's rounding shows."""
    return lambda r: (k * r.eps, max(r.tiny, r.eps * scale * r.seed))


def products(r):
    return 2 * r.eps, max(r.tiny, r.eps * (2 + 0.25 * math.sqrt(r.count)) * r.terms)


def sums(r):
    return 2 * r.eps, max(r.tiny, r.eps * (2 + 0.5 * math.log2(max(r.count, 1))) * r.terms)


def means(n):
    """The average of n: a sum and a division."""
    return lambda r: (4 * r.eps, max(r.tiny, r.eps * (2 + 0.5 * math.log2(n)) * r.terms))


def stable(k):
    """Every element within k units of rounding of the largest one."""
    return lambda r: (4 * r.eps, max(r.tiny, k * r.eps * r.size))


class Known:
    """What a tolerance depends on."""

    def __init__(self, dtype, seed, terms, count, size):
        info = torch.finfo(dtype)
        self.eps, self.tiny, self.seed = info.eps, info.tiny, seed
        self.terms, self.count, self.size = terms, count, size


def largest(t):
    t = t.detach().double().abs()
    t = t[t.isfinite()]
    return t.max().item() if t.numel() else 0.0


def run(f, fed, diff, seeds, change):
    """Outputs, gradients, and gradients of bases, of f on changed inputs."""
    leaves, inputs = [], []
    for i, x in enumerate(fed):
        leaf = change(x.base if isinstance(x, View) else x).clone()
        leaf.requires_grad_(i in diff)
        y = x.of(leaf) if isinstance(x, View) else leaf
        if i in diff and y is leaf:
            y = leaf.view_as(leaf)
        leaves.append(leaf)
        inputs.append(y)
    out = f(*inputs)
    out = list(out) if isinstance(out, (tuple, list)) else [out]
    if not diff:
        return out, [], {}
    pairs = [(y, change(s)) for y, s in zip(out, seeds) if s is not None and y.requires_grad]
    wanted = [inputs[i] for i in diff] + [leaves[i] for i in diff]
    if pairs:
        got = torch.autograd.grad([y for y, _ in pairs], wanted, [s for _, s in pairs], allow_unused=True)
    else:
        got = [None] * len(wanted)
    got = [torch.zeros_like(x) if g is None else g for g, x in zip(got, wanted)]
    n = len(diff)
    bases = {i: g for i, g in zip(diff, got[n:]) if isinstance(fed[i], View)}
    return [y.detach() for y in out], got[:n], bases


def to_f64(t):
    return t.double() if t.is_floating_point() else t


class Suite:
    def __init__(self):
        self.lines, self.tensors, self.numbers, self.kept = [], {}, {}, {}

    def case(
        self, op, slug, f, inputs, attrs=None, rule=exact, grad=None, diff=None, tags=(), own=True, seeded=None, dtype=None,
        absolute=True
    ):
        """Adds a case: `f` of the inputs (role: tensor or View).

        `grad` is the rule of the gradients; without it there are none. `diff` names the roles that get one (all of
        floats), `seeded` the numbers of the outputs that take part. `own` is false if PyTorch's own run in the dtype
        tells nothing, because `f` is a formula that rounds more often than the op. `absolute` is false if it cannot run on
        absolute values and on ones: then the rule may not ask for terms.
        """
        number = self.numbers.setdefault(op, 0)
        self.numbers[op] += 1
        name = f"{number:02}"
        fed = list(inputs.values())
        plain = [x.of(x.base) if isinstance(x, View) else x for x in fed]
        floats = [x.dtype for x in plain if x.is_floating_point()]
        dtype = dtype or (floats or [x.dtype for x in plain])[0]
        roles = list(inputs)
        wanted = [r for r, x in zip(roles, plain) if x.is_floating_point()] if diff is None else diff
        numbers = [roles.index(r) for r in wanted] if grad else []

        out, _, _ = run(f, fed, [], [], to_f64)
        out_dtypes = [dtype if y.is_floating_point() else y.dtype for y in out]
        g = torch.Generator().manual_seed(zlib.crc32(f"{op}/{slug}".encode()))
        seeds = [
            torch.randn(y.shape, generator=g).to(d) if y.is_floating_point() and (seeded is None or k in seeded) else None
            for k, (y, d) in enumerate(zip(out, out_dtypes))
        ]
        want = run(f, fed, numbers, seeds, to_f64)
        flat = lambda r: r[0] + r[1] + [r[2][i] for i in sorted(r[2])]
        try:
            there = flat(run(f, fed, numbers, seeds, lambda t: t)) if own else None
        except (RuntimeError, NotImplementedError):
            there = None  # PyTorch's CPU has no such op in this dtype
        nothing = [torch.zeros(())] * len(flat(want))
        terms = nothing if not absolute else flat(run(f, fed, numbers, seeds, lambda t: to_f64(t).abs() if t.is_floating_point() else t))
        ones = lambda t: torch.ones_like(t, dtype=torch.float64) if t.is_floating_point() else t
        counts = nothing if not absolute else flat(run(f, fed, numbers, seeds, ones))

        seed = max([largest(s) for s in seeds if s is not None], default=1.0)
        tolerances = []
        for k, ref in enumerate(flat(want)):
            if not ref.is_floating_point():
                tolerances.append((0.0, 0.0))
                continue
            of = rule if k < len(out) else grad
            known = Known(dtype, 1.0 if k < len(out) else seed, largest(terms[k]), largest(counts[k]), largest(ref))
            rtol, atol = of(known)
            if there is not None and of is not exact:
                finite = ref.isfinite() & there[k].isfinite()
                missing = 4 * (there[k].double() - ref).abs() - rtol * ref.abs()
                atol = max(atol, largest(missing[finite].clamp(min=0)))
            tolerances.append((rtol, atol))

        base_tolerances = tolerances[len(out) + len(numbers) :]
        line = {
            "op": op,
            "id": f"{op}/{name}-{slug}",
            "dtype": NAMES[dtype],
            "attrs": attrs or {},
            "roles": roles,
            "inputs": [self.put(op, f"{name}.{r}", x) for r, x in zip(roles, plain)],
            "views": {},
            "diff": numbers,
            "outputs": [self.put(op, f"{name}.out{k}", fits(y, d)) for k, (y, d) in enumerate(zip(want[0], out_dtypes))],
            "out_dtypes": [NAMES[d] for d in out_dtypes],
            "grad_outputs": [
                None if s is None else self.put(op, f"{name}.gout{k}", s) for k, s in enumerate(seeds) if numbers
            ],
            "grads": [self.put(op, f"{name}.grad.{roles[i]}", fits(d, dtype)) for i, d in zip(numbers, want[1])],
            "ref": "f64" if any(y.is_floating_point() for y in out) else "exact",
            "rtol": [digits(r) for r, _ in tolerances[: len(out) + len(numbers)]],
            "atol": [digits(a) for _, a in tolerances[: len(out) + len(numbers)]],
            "tags": list(tags) + tags_of(dtype, fed, plain, want[0]),
        }
        for i, x in enumerate(fed):
            if isinstance(x, View):
                view = {"base": self.put(op, f"{name}.{roles[i]}.base", x.base), "steps": x.steps}
                if i in want[2]:
                    view["base_grad"] = self.put(op, f"{name}.grad.{roles[i]}.base", fits(want[2][i], dtype))
                    rtol, atol = base_tolerances[sorted(want[2]).index(i)]
                    view["rtol"], view["atol"] = digits(rtol), digits(atol)
                line["views"][str(i)] = view
        self.lines.append(line)

    def put(self, op, name, t):
        """Keeps a tensor, and gives its name: that of an equal one of the op, if there is one."""
        t = t.detach().contiguous().clone()
        content = (op, t.dtype, t.shape, bytes(t.untyped_storage()))
        if content not in self.kept:
            self.kept[content] = name
            self.tensors[f"{op}/{name}"] = t
        return self.kept[content]

    def write(self, folder):
        self.lines.sort(key=lambda line: line["id"])
        lines = ",\n".join(json.dumps(line, separators=(",", ":")) for line in self.lines)
        (folder / "index.json").write_text(f'{{"format":1,"cases":[\n{lines}\n]}}\n')
        (folder / "own.safetensors").write_bytes(packed(self.tensors))


def packed(tensors):
    """The tensors as the bytes of a safetensors file."""
    header, data = {}, b""
    for name, t in sorted(tensors.items()):
        raw = bytes(t.untyped_storage())
        at = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": at}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def fits(t, dtype):
    """The expected numbers in float64, infinite where they overflow the dtype of the result."""
    if not t.is_floating_point():
        return t
    t = t.double()
    return torch.where(t.to(dtype).isinf(), t.to(dtype).double(), t)


def digits(v):
    """Three digits, rounded up."""
    if v == 0.0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(v)) - 2)
    return float(f"{math.ceil(v / unit) * unit:.3g}") if unit > 0 else float(f"{v * 1.01:.3g}")


def tags_of(dtype, fed, plain, out):
    floats = [t for t in plain + out if t.is_floating_point()]
    tags = [] if dtype == torch.float32 else [NAMES[dtype].lower()]
    tests = {
        "strided": any(isinstance(x, View) for x in fed),
        "empty": any(x.numel() == 0 for x in plain),
        "scalar0d": any(x.dim() == 0 for x in plain),
        "5d": any(x.dim() >= 5 for x in plain),
        "nan": any(t.isnan().any() for t in floats),
        "inf": any(t.isinf().any() for t in floats),
        "subnormal": any(((t != 0) & (t.abs() < 2.0**-126)).any() for t in floats if dtype == torch.float32),
    }
    return tags + [tag for tag, there in tests.items() if there]

"""Cases of attention and recurrent networks: what the sample does not have of them."""

import torch
import torch.nn.functional as F
from torch import nn

from draw import F64, normal
from dropout import unit
from suite import EXTENDS, View, permute, products, smooth


def cases(s):
    rnn_relu(s)
    lstm(s)
    attention(s)
    heads(s)


def network(s, op, slug, make, x, batch_first=False, bidirectional=False, layers=1, state=None, dtype=torch.float32):
    """A network with weights that are drawn; `state`: the sizes of each initial state."""
    attrs = {"num_layers": layers, "batch_first": batch_first, "bidirectional": bidirectional}
    net = make(num_layers=layers, batch_first=batch_first, bidirectional=bidirectional)
    names = list(net.state_dict())
    short = lambda name: name.replace("weight_", "w_").replace("bias_", "b_")
    inputs = {"x": x}
    for role, sizes in zip(["h0", "c0"], state or []):
        inputs[role] = normal(*sizes, key=role, dtype=dtype)
    for name, w in net.state_dict().items():
        inputs[short(name)] = normal(*w.shape, scale=0.5, key=name, dtype=dtype)

    def f(x, *rest):
        n = len(state or [])
        initial = rest[:n] if n else None
        weights = {name: w.contiguous() for name, w in zip(names, rest[n:])}
        args = (x.contiguous(),) + ((initial[0] if n == 1 else tuple(initial),) if n else ())
        y, last = torch.func.functional_call(net.to(x.dtype), weights, args)
        return [y, *last] if isinstance(last, tuple) else [y, last]

    tags = [EXTENDS] if op == "lstm" else []
    s.case(op, slug, f, inputs, attrs, smooth(64, 16), smooth(128, 64), tags=tags)


def rnn_relu(s):
    def add(slug, x, bias=True, **more):
        make = lambda **settings: nn.RNN((x.base if isinstance(x, View) else x).shape[-1], 4, nonlinearity="relu", bias=bias, **settings)
        network(s, "rnn_relu", slug, make, x, **more)

    add("plain", normal(5, 2, 3))
    add("state", normal(4, 2, 3), state=[(1, 2, 4)])
    add("layers", normal(3, 2, 3), layers=2, bidirectional=True, state=[(4, 2, 4)])
    add("batch_first", normal(2, 3, 3), batch_first=True)
    add("no_bias", normal(3, 2, 3), False)
    add("no_batch", normal(4, 3))
    add("strided", View(normal(2, 3, 3), permute(1, 0, 2)))
    add("f64", normal(3, 1, 2, dtype=F64), dtype=F64)


def lstm(s):
    def add(slug, x, bias=True, **more):
        make = lambda **settings: nn.LSTM((x.base if isinstance(x, View) else x).shape[-1], 3, proj_size=2, bias=bias, **settings)
        network(s, "lstm", "projected_" + slug, make, x, **more)

    add("plain", normal(4, 2, 3))
    add("state", normal(4, 2, 3), state=[(1, 2, 2), (1, 2, 3)])
    add("layers", normal(3, 2, 3), layers=2, bidirectional=True, state=[(4, 2, 2), (4, 2, 3)])
    add("batch_first", normal(2, 3, 3), batch_first=True)
    add("no_bias", normal(3, 2, 3), False)
    add("no_batch", normal(4, 3), state=[(1, 2), (1, 3)])
    add("strided", View(normal(2, 3, 3), permute(1, 0, 2)))
    add("f64", normal(3, 1, 2, dtype=F64), dtype=F64)


def dropped(p, probability, seed, stream):
    """Attention weights with PyTorch's scale, by our stream."""
    kept = [unit(i, seed, stream) < 1 - probability for i in range(p.numel())]
    return torch.where(torch.tensor(kept, dtype=torch.bool).reshape(p.shape), p / (1 - probability), 0)


def attention(s):
    def add(slug, q, k, v, probability, mask=None, causal=False, gqa=False):
        def f(q, k, v, mask=None):
            if gqa:
                k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
            if mask is not None:
                scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
            return dropped(scores.softmax(-1), probability, 7, 3) @ v

        inputs = {"q": q, "k": k, "v": v} | ({} if mask is None else {"mask": mask})
        attrs = {"is_causal": causal, "scale": None, "enable_gqa": gqa, "dropout_p": probability, "seed": 7, "stream": 3}
        s.case("scaled_dot_product_attention", slug, f, inputs, attrs, products, smooth(64, 8), own=False, tags=[EXTENDS])

    operands = lambda **more: (normal(2, 2, 3, 4, **more), normal(2, 2, 5, 4, key="k", **more), normal(2, 2, 5, 3, key="v", **more))
    add("dropout", *operands(), 0.4)
    add("dropout_causal", *operands(), 0.25, causal=True)
    add("dropout_mask", *operands(), 0.5, torch.tensor([[True, False, True, True, False]]))
    add("dropout_floats", *operands(), 0.5, normal(3, 5, key="mask"))
    add("dropout_groups", normal(1, 4, 3, 2), normal(1, 2, 5, 2, key="k"), normal(1, 2, 5, 2, key="v"), 0.3, gqa=True)
    add("dropout_f64", *operands(dtype=F64), 0.4)


def heads(s):
    def add(slug, length, keys, kdim=4, vdim=4, extra=False, zero=False, mask=None, padding=None, averaged=True, first=False):
        e, n, h = 4, 2, 2
        shape = lambda length, size: (n, length, size) if first else (length, n, size)
        inputs = {
            "query": normal(*shape(length, e), key="q"),
            "key": normal(*shape(keys, kdim), key="k"),
            "value": normal(*shape(keys, vdim), key="v"),
        }
        if (kdim, vdim) == (e, e):
            inputs["in_proj_weight"] = normal(3 * e, e, scale=0.5)
        else:
            for role, size in [("q", e), ("k", kdim), ("v", vdim)]:
                inputs[f"{role}_proj_weight"] = normal(e, size, scale=0.5, key=role)
        inputs["in_proj_bias"] = normal(3 * e)
        if extra:
            inputs |= {"bias_k": normal(1, 1, e, key="bk"), "bias_v": normal(1, 1, e, key="bv")}
        inputs |= {"out_proj_weight": normal(e, e, key="o"), "out_proj_bias": normal(e, key="ob")}
        masks = {"key_padding_mask": padding, "attn_mask": mask}
        inputs |= {role: m for role, m in masks.items() if m is not None}
        roles = list(inputs)

        def f(*all):
            t = dict(zip(roles, all))
            turn = lambda x: x.transpose(0, 1) if first else x
            separate = "q_proj_weight" in t
            y, w = F.multi_head_attention_forward(
                turn(t["query"]), turn(t["key"]), turn(t["value"]), e, h, t.get("in_proj_weight"), t["in_proj_bias"],
                t.get("bias_k"), t.get("bias_v"), zero, 0.0, t["out_proj_weight"], t["out_proj_bias"], training=True,
                key_padding_mask=t.get("key_padding_mask"), need_weights=True, attn_mask=t.get("attn_mask"),
                use_separate_proj_weight=separate, q_proj_weight=t.get("q_proj_weight"),
                k_proj_weight=t.get("k_proj_weight"), v_proj_weight=t.get("v_proj_weight"), average_attn_weights=averaged,
            )
            return [turn(y), w]

        attrs = {"num_heads": h, "batch_first": first, "average_attn_weights": averaged, "add_zero_attn": zero}
        diff = [r for r, x in inputs.items() if x.is_floating_point() and r not in masks]
        s.case("multi_head_attention", slug, f, inputs, attrs, smooth(64, 16), smooth(128, 64), diff=diff, tags=[EXTENDS])

    padding = torch.tensor([[False, False, True, False], [True, False, False, False]])
    add("kdim_vdim", 3, 4, 5, 3)
    add("kdim_batch_first", 3, 4, 5, 4, first=True, averaged=False)
    add("bias_kv", 3, 4, extra=True)
    add("zero_attn", 3, 4, zero=True)
    add("all_added", 3, 4, 5, 3, True, True, normal(3, 4, key="mask"), padding.float() * -2, False)
    add("bool_masks", 3, 4, extra=True, zero=True, mask=torch.ones(3, 4, dtype=torch.bool).triu(2), padding=padding)

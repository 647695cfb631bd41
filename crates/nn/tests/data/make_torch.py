"""Writes attention.safetensors: layers of PyTorch with their state, inputs, outputs and gradients.

    python3 make_torch.py        (torch and safetensors; written with torch 2.15)

Names: CASE/state/NAME a parameter, CASE/in/NAME an input, CASE/out/NAME an output, CASE/grad/NAME a gradient of
sum(out * weigh) with CASE/weigh. Everything is f64, so that a tolerance is about formulas and not about rounding.
"""

import torch
from safetensors.torch import save_file
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(11)
saved = {}


def case(name, module, inputs, run):
    """`run` gives the output by the inputs, which want gradients."""
    for p in module.parameters():
        # Zeros and ones of a fresh layer would hide a bias or a scale that is left out.
        p.data += 0.1 * torch.randn_like(p)
    inputs = {k: v.clone().requires_grad_() for k, v in inputs.items()}
    y = run(**inputs)
    y, more = y if isinstance(y, tuple) else (y, None)
    weigh = torch.randn_like(y)
    (y * weigh).sum().backward()
    saved[f"{name}/out/y"] = y.detach()
    if more is not None:
        saved[f"{name}/out/weights"] = more.detach()
    saved[f"{name}/weigh"] = weigh
    for k, v in inputs.items():
        saved[f"{name}/in/{k}"], saved[f"{name}/grad/{k}"] = v.detach(), v.grad
    for k, p in module.named_parameters():
        saved[f"{name}/state/{k}"], saved[f"{name}/grad/{k}"] = p.detach(), p.grad


def x(*shape):
    return torch.randn(*shape)


# True: left out. The second sequence is shorter by one.
padding = torch.tensor([[False, False, False], [False, False, True]])
causal = nn.Transformer.generate_square_subsequent_mask(3)

mha = nn.MultiheadAttention(4, 2, batch_first=True)
case("mha", mha, {"query": x(2, 2, 4), "key": x(2, 3, 4), "value": x(2, 3, 4)},
     lambda query, key, value: mha(query, key, value, key_padding_mask=padding, need_weights=True))
mha_causal = nn.MultiheadAttention(4, 2, bias=False)
case("mha_causal", mha_causal, {"x": x(3, 2, 4)},
     lambda x: mha_causal(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)[0])

post = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, batch_first=True)
case("encoder_layer", post, {"x": x(2, 3, 4)}, lambda x: post(x, src_key_padding_mask=padding))
pre = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, activation="gelu", norm_first=True, bias=False)
case("encoder_layer_pre", pre, {"x": x(3, 2, 4)}, lambda x: pre(x, src_mask=causal, is_causal=True))
stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, batch_first=True), 2, nn.LayerNorm(4),
                              enable_nested_tensor=False)
case("encoder", stack, {"x": x(2, 3, 4)}, lambda x: stack(x))

dec = nn.TransformerDecoderLayer(4, 2, 5, dropout=0.0, batch_first=True)
case("decoder_layer", dec, {"tgt": x(2, 3, 4), "memory": x(2, 3, 4)},
     lambda tgt, memory: dec(tgt, memory, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=padding))
dec_pre = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 5, dropout=0.0, activation="gelu", norm_first=True), 2)
case("decoder", dec_pre, {"tgt": x(2, 1, 4), "memory": x(3, 1, 4)}, lambda tgt, memory: dec_pre(tgt, memory))

save_file({k: v.contiguous() for k, v in saved.items()}, "attention.safetensors")

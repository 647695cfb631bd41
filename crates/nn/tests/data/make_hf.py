"""Writes hf/{gpt2,llama,llama_linear,bert}: tiny random models as transformers saves them, each with expected.safetensors.

    python3 make_hf.py        (torch, transformers, safetensors; written with transformers 5.23)

expected.safetensors holds ids [2, t], for BERT also mask and token_types, and what the model gives for them in f32.
"""

import json
import pathlib
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

ROOT = pathlib.Path("hf")
torch.manual_seed(7)


def write(name, model, run):
    for p in model.parameters():
        # Larger than a real start, so that every part of the model moves the result.
        p.data = p.data + 0.3 * torch.randn_like(p)
    model.eval()
    model.save_pretrained(ROOT / name)
    (ROOT / name / "generation_config.json").unlink(missing_ok=True)
    with torch.no_grad():
        expected = run(model)
    save_file({k: v.contiguous() for k, v in expected.items()}, ROOT / name / "expected.safetensors")
    return model


def logits(ids):
    return lambda model: {"ids": ids, "logits": model(ids).logits}


ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8, 1, 8]])
write("gpt2", GPT2LMHeadModel(GPT2Config(vocab_size=11, n_positions=12, n_embd=8, n_layer=2, n_head=2)), logits(ids))
write("llama", LlamaForCausalLM(LlamaConfig(
    vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=4, max_position_embeddings=64, attention_bias=True, rms_norm_eps=1e-5,
    rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                     "high_freq_factor": 4.0, "original_max_position_embeddings": 16})), logits(ids))
# The older way to write a config: rope_theta and rope_scaling by themselves. One head for all, tied embeddings, 16 bits.
linear = write("llama_linear", LlamaForCausalLM(LlamaConfig(
    vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=True,
    rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0})), logits(ids))
linear.to(torch.bfloat16).save_pretrained(ROOT / "llama_linear")
(ROOT / "llama_linear" / "generation_config.json").unlink(missing_ok=True)
path = ROOT / "llama_linear" / "config.json"
config = json.loads(path.read_text())
del config["rope_parameters"]
config |= {"rope_theta": 100.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
path.write_text(json.dumps(config, indent=2) + "\n")
# Read again: converting a model converts its rotary frequencies too, and no model is trained with those in 16 bits.
linear = LlamaForCausalLM.from_pretrained(ROOT / "llama_linear", dtype=torch.float32).eval()
with torch.no_grad():
    save_file(logits(ids)(linear), ROOT / "llama_linear" / "expected.safetensors")

mask = torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]])
types = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0]])


def bert(model):
    out = model(ids[:, :6], attention_mask=mask, token_type_ids=types)
    # Sentence Transformers' order: the mean over what is no padding, then length 1.
    wide = mask.unsqueeze(-1).float()
    mean = (out.last_hidden_state * wide).sum(1) / wide.sum(1).clamp(min=1e-9)
    sentence = torch.nn.functional.normalize(mean, p=2, dim=1)
    return {"ids": ids[:, :6], "mask": mask, "token_types": types, "hidden": out.last_hidden_state,
            "pooled": out.pooler_output, "sentence": sentence}


write("bert", BertModel(BertConfig(
    vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
    max_position_embeddings=9, type_vocab_size=2, layer_norm_eps=1e-12)), bert)

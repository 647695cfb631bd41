"""Compares training in elinvar with training in PyTorch, layer by layer and optimiser by optimiser.

Each task below is a small model and an optimiser; crates/nn/tests/nn/parity/tasks.rs has the same ones by the same
names. PyTorch trains five steps, saves the state dicts of model and optimiser, and goes on for ten steps: elinvar has
to go on from that file with the same losses. Then elinvar trains five steps from the same first weights, saves and
goes on: PyTorch has to go on from that file with the same losses. Called by `cargo xtask parity`.

usage: python parity.py PROGRAM            both directions; PROGRAM is the example `parity` of elinvar-nn
       python parity.py --write-sample     writes the file that elinvar's own tests go on from

The file, by task: T/x and T/y inputs and targets of each batch, T/start/NAME the first weights, T/first the losses of
the first five steps; then T/model/NAME, T/optimizer/state.N.KEY and, as JSON in the metadata, T/param_groups after
them; and T/losses of the ten steps after these, with a last one in evaluation mode.
"""

import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib
from unittest import mock

import torch
from safetensors import safe_open
from safetensors.torch import save, save_file
from torch import nn

BOUND = 1e-5  # |ours - theirs| / max(1, |theirs|), for every loss
FIRST, THEN, BATCHES = 5, 10, 3
SAMPLE = pathlib.Path(__file__).parent / "../crates/nn/tests/data/parity.safetensors.gz"


# Parts of models that a chain of layers has no word for.


def output(recurrent):
    """A recurrent network that gives its outputs alone."""

    class Output(recurrent):
        def forward(self, x):
            return super().forward(x)[0]

    return Output


class Steps(nn.Module):
    """A cell over the first axis, from a state of zeros."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell(4, 3)

    def forward(self, x):
        state, outputs = None, []
        for step in x:
            state = self.cell(step, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


def encoder_layer():
    return nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)


def decoder_layer():
    return nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0, activation="gelu", norm_first=True, batch_first=True)


class Decode(nn.Module):
    """The last two tokens by the first three."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder()

    def forward(self, x):
        causal = nn.Transformer.generate_square_subsequent_mask(2)
        return self.decoder(x[:, 3:], x[:, :3], tgt_mask=causal, tgt_is_causal=True)


class Tied(nn.Module):
    """The table of the input is the weight of the output."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.mix = nn.Linear(4, 4)
        self.head = nn.Linear(4, 7)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(torch.tanh(self.mix(self.embedding(x))))


def chain(*layers):
    return lambda: nn.Sequential(*[layer() for layer in layers])


def of(layer, *args, **settings):
    return lambda: layer(*args, **settings)


def mlp(bias=True):
    return chain(of(nn.Linear, 4, 6, bias=bias), nn.Tanh, of(nn.Linear, 6, 3, bias=bias))


def indices(*shape):
    return lambda: torch.randint(0, 7, shape)


class Task:
    def __init__(self, name, model, x, optimizer=torch.optim.SGD, second=None, **settings):
        """`second`: which parameters are a second group, by their names, with a learning rate of half, and without weight
        decay."""
        self.name, self.model, self.optimizer, self.second, self.settings = name, model, optimizer, second, settings
        self.x = x if callable(x) else lambda: torch.randn(*x)

    def groups(self, model):
        params = list(model.named_parameters())
        if self.second is None:
            return [{"params": [p for _, p in params]}]
        return [{"params": [p for n, p in params if self.second(n) == second]} for second in (False, True)]

    def configured(self, model):
        groups = self.groups(model)
        if self.second is not None:
            groups[1] |= {"lr": self.settings["lr"] / 2, "weight_decay": 0.0}
        return self.optimizer(groups, **self.settings)

    def bare(self, model):
        """The same optimiser without the settings, which are to come from the state."""
        return self.optimizer(self.groups(model), lr=1.0)


def layer(name, x, *layers, lr=0.05):
    return Task(name, chain(*layers), x, lr=lr, momentum=0.9)


def is_bias(name):
    return name.endswith("bias")


def optimizer(name, kind, **settings):
    return Task(name, mlp(), (5, 4), kind, second=is_bias, **settings)


BOTH_WAYS = {"num_layers": 2, "bidirectional": True}
TASKS = [
    layer("linear", (5, 4), of(nn.Linear, 4, 6), of(nn.Dropout, 0.0), nn.Tanh, of(nn.Linear, 6, 3, bias=False)),
    layer("conv1d", (3, 2, 9), of(nn.Conv1d, 2, 4, 3, stride=2, padding=1), nn.Tanh, of(nn.Conv1d, 4, 2, 2, groups=2)),
    layer("conv2d", (2, 2, 5, 6), of(nn.Conv2d, 2, 4, 3, padding=1, groups=2), nn.Tanh,
          of(nn.Conv2d, 4, 2, (2, 3), stride=2, dilation=(2, 1))),
    layer("conv3d", (2, 2, 3, 4, 3), of(nn.Conv3d, 2, 3, 2), nn.Tanh, of(nn.Conv3d, 3, 2, (1, 2, 2), padding=(0, 1, 0))),
    layer("conv_transpose1d", (3, 2, 4), of(nn.ConvTranspose1d, 2, 4, 3, stride=2, padding=1, output_padding=1), nn.Tanh,
          of(nn.ConvTranspose1d, 4, 2, 2, groups=2)),
    layer("conv_transpose2d", (2, 2, 3, 2), of(nn.ConvTranspose2d, 2, 3, (2, 3), stride=2), nn.Tanh,
          of(nn.ConvTranspose2d, 3, 2, 2, dilation=2, padding=1)),
    layer("conv_transpose3d", (2, 2, 2, 2, 2), of(nn.ConvTranspose3d, 2, 3, 2), nn.Tanh,
          of(nn.ConvTranspose3d, 3, 1, (1, 2, 2), padding=(0, 1, 1))),
    layer("embedding", indices(3, 5), of(nn.Embedding, 7, 4, padding_idx=2), of(nn.Linear, 4, 3)),
    layer("layer_norm", (5, 4), of(nn.Linear, 4, 6), of(nn.LayerNorm, 6), nn.Tanh, of(nn.Linear, 6, 3)),
    layer("rms_norm", (5, 4), of(nn.Linear, 4, 6), of(nn.RMSNorm, 6), nn.Tanh, of(nn.Linear, 6, 3)),
    layer("group_norm", (3, 2, 6), of(nn.Conv1d, 2, 4, 3), of(nn.GroupNorm, 2, 4), nn.Tanh, of(nn.Conv1d, 4, 2, 2)),
    layer("batch_norm1d", (6, 4), of(nn.Linear, 4, 6), of(nn.BatchNorm1d, 6), nn.Tanh, of(nn.Linear, 6, 3)),
    layer("batch_norm2d", (3, 2, 4, 4), of(nn.Conv2d, 2, 4, 2), of(nn.BatchNorm2d, 4), nn.Tanh, of(nn.Conv2d, 4, 2, 2)),
    layer("batch_norm3d", (3, 2, 2, 3, 2), of(nn.Conv3d, 2, 3, (1, 2, 1)), of(nn.BatchNorm3d, 3), nn.Tanh,
          of(nn.Conv3d, 3, 1, 2)),
    layer("instance_norm1d", (3, 2, 7), of(nn.Conv1d, 2, 4, 2),
          of(nn.InstanceNorm1d, 4, affine=True, track_running_stats=True), nn.Tanh, of(nn.Conv1d, 4, 2, 2)),
    layer("instance_norm2d", (2, 2, 4, 4), of(nn.Conv2d, 2, 4, 2), of(nn.InstanceNorm2d, 4, affine=True), nn.Tanh,
          of(nn.Conv2d, 4, 2, 2)),
    layer("instance_norm3d", (3, 2, 2, 3, 2), of(nn.Conv3d, 2, 3, (1, 2, 1)), of(nn.InstanceNorm3d, 3, affine=True),
          nn.Tanh, of(nn.Conv3d, 3, 1, 2)),
    layer("prelu", (5, 4), of(nn.Linear, 4, 6), of(nn.PReLU, 6), of(nn.Linear, 6, 3), of(nn.PReLU)),
    layer("rnn", (4, 3, 3), of(nn.Linear, 3, 4), of(output(nn.RNN), 4, 3, **BOTH_WAYS), of(nn.Linear, 6, 2)),
    layer("lstm", (3, 4, 3), of(nn.Linear, 3, 4), of(output(nn.LSTM), 4, 3, batch_first=True, **BOTH_WAYS),
          of(nn.Linear, 6, 2), lr=0.2),
    layer("gru", (4, 3, 3), of(nn.Linear, 3, 4), of(output(nn.GRU), 4, 3, **BOTH_WAYS), of(nn.Linear, 6, 2), lr=0.2),
    layer("multihead_attention", (3, 5, 3), of(nn.Linear, 3, 4), SelfAttention, of(nn.Linear, 4, 2), lr=0.2),
    layer("rnn_cell", (4, 3, 3), of(nn.Linear, 3, 4), of(Steps, nn.RNNCell), of(nn.Linear, 3, 2)),
    layer("lstm_cell", (4, 3, 3), of(nn.Linear, 3, 4), of(Steps, nn.LSTMCell), of(nn.Linear, 3, 2), lr=0.2),
    layer("gru_cell", (4, 3, 3), of(nn.Linear, 3, 4), of(Steps, nn.GRUCell), of(nn.Linear, 3, 2), lr=0.2),
    layer("transformer_encoder_layer", (3, 5, 3), of(nn.Linear, 3, 4), encoder_layer, of(nn.Linear, 4, 2)),
    layer("transformer_encoder", (3, 5, 3), of(nn.Linear, 3, 4),
          lambda: nn.TransformerEncoder(encoder_layer(), 2, nn.LayerNorm(4), enable_nested_tensor=False),
          of(nn.Linear, 4, 2)),
    layer("transformer_decoder_layer", (3, 5, 3), of(nn.Linear, 3, 4), of(Decode, decoder_layer), of(nn.Linear, 4, 2)),
    layer("transformer_decoder", (3, 5, 3), of(nn.Linear, 3, 4),
          of(Decode, lambda: nn.TransformerDecoder(decoder_layer(), 2)), of(nn.Linear, 4, 2)),
    layer("tied_weights", indices(3, 5), Tied),
    optimizer("sgd", torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    optimizer("sgd_dampened", torch.optim.SGD, lr=0.1, momentum=0.8, dampening=0.3, weight_decay=0.1),
    optimizer("adam", torch.optim.Adam, lr=0.03, betas=(0.8, 0.95), weight_decay=0.1),
    optimizer("adamw", torch.optim.AdamW, lr=0.03, amsgrad=True, weight_decay=0.1),
    optimizer("rmsprop", torch.optim.RMSprop, lr=0.003, centered=True, momentum=0.9, weight_decay=0.1),
    optimizer("adagrad", torch.optim.Adagrad, lr=0.1, lr_decay=0.1, weight_decay=0.1),
    optimizer("adadelta", torch.optim.Adadelta, lr=1.0, rho=0.8, eps=1e-3, weight_decay=0.1),
    optimizer("adamax", torch.optim.Adamax, lr=0.03, weight_decay=0.1),
    optimizer("nadam", torch.optim.NAdam, lr=0.03, weight_decay=0.1),
    optimizer("radam", torch.optim.RAdam, lr=0.03, weight_decay=0.1),
]
if hasattr(torch.optim, "Muon"):
    TASKS.append(Task("muon", mlp(bias=False), (5, 4), torch.optim.Muon, second=lambda name: name.startswith("2."),
                      lr=0.03, weight_decay=0.1))


# Training.


class Run:
    """A model in training, and how many steps it has made."""

    def __init__(self, model, optimizer, x, y, done=0):
        self.model, self.optimizer, self.x, self.y, self.done = model, optimizer, x, y, done

    def loss(self):
        at = self.done % len(self.x)
        return nn.functional.mse_loss(self.model(self.x[at]), self.y[at])

    def train(self, steps):
        losses = []
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            # PyTorch's Muon makes its directions orthogonal in bfloat16, with an error in the third digit. Compared is
            # the same iteration in f32, which is what elinvar computes. Nothing else here is of bfloat16.
            with mock.patch.object(torch, "bfloat16", torch.float32):
                self.optimizer.step()
            losses.append(loss.item())
            self.done += 1
        return losses

    def go_on(self):
        """Ten steps, and a loss in evaluation mode, where running statistics count."""
        losses = self.train(THEN)
        self.model.eval()
        return losses + [self.loss().item()]


def by_pytorch():
    """Tensors and metadata of the file for elinvar."""
    tensors, metadata = {}, {}
    for task in TASKS:
        # Of its own, so that a new task changes no other.
        torch.manual_seed(zlib.crc32(task.name.encode()))
        model = task.model()
        with torch.no_grad():
            for p in model.parameters():
                # Zeros and ones of a fresh layer would hide a bias or a scale that is left out.
                p += 0.1 * torch.randn_like(p)
        x = torch.stack([task.x() for _ in range(BATCHES)])
        # By another model, because running statistics would move.
        y = torch.stack([torch.randn_like(task.model()(x[i])) for i in range(BATCHES)])
        run = Run(model, task.configured(model), x, y)

        def put(part, value):
            # Clones, because tied weights are one tensor and a file has none twice.
            tensors[f"{task.name}/{part}"] = value.detach().clone().contiguous()

        put("x", x)
        put("y", y)
        for name, value in model.state_dict().items():
            put(f"start/{name}", value)
        put("first", torch.tensor(run.train(FIRST)))
        for name, value in model.state_dict().items():
            put(f"model/{name}", value)
        state = run.optimizer.state_dict()
        for number, kept in state["state"].items():
            for key, value in kept.items():
                put(f"optimizer/state.{number}.{key}", value)
        metadata[f"{task.name}/param_groups"] = json.dumps(state["param_groups"])
        losses = run.go_on()
        # A comparison of losses that do not move would show nothing. Each batch comes again after BATCHES steps.
        moves = max(abs(a - b) for a, b in zip(losses, losses[BATCHES:THEN]))
        assert moves > 1000 * BOUND, f"{task.name}: losses stand still: {losses}"
        put("losses", torch.tensor(losses))
    metadata["tasks"] = json.dumps([task.name for task in TASKS])
    return tensors, metadata


def difference(ours, theirs):
    assert len(ours) == len(theirs) == THEN + 1
    worst = [abs(a - b) / max(1.0, abs(b)) for a, b in zip(ours, theirs)]
    return max(worst, key=lambda d: float("inf") if d != d else d)


def go_on_from(task, file, x, y):
    """The losses of PyTorch from elinvar's state."""
    part = lambda kind: {k.removeprefix(f"{task.name}/{kind}/"): file.get_tensor(k)
                         for k in file.keys() if k.startswith(f"{task.name}/{kind}/")}
    torch.manual_seed(12345)  # other weights than those that the run began with
    model = task.model()
    model.load_state_dict(part("model"), strict=True)
    state = {}
    for name, value in part("optimizer").items():
        _, number, key = name.split(".")
        state.setdefault(int(number), {})[key] = value
    optimizer = task.bare(model)
    optimizer.load_state_dict({"state": state, "param_groups": json.loads(file.metadata()[f"{task.name}/param_groups"])})
    return Run(model, optimizer, x, y, done=FIRST).go_on()


def compare(program):
    tensors, metadata = by_pytorch()
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = (str(pathlib.Path(folder) / name) for name in ("pytorch.safetensors", "elinvar.safetensors"))
        save_file(tensors, theirs, metadata)
        if subprocess.run([program, theirs, ours]).returncode != 0:
            sys.exit("parity: elinvar did not write its file")
        with safe_open(ours, "pt") as file:
            return table(file, tensors)


def table(file, tensors):
    failed = 0
    print(f"{'':25}  largest difference of a loss")
    print(f"{'task':25}  PyTorch -> elinvar  elinvar -> PyTorch  elinvar -> elinvar")
    for task in TASKS:
        metadata = file.metadata()
        fault = metadata.get(f"{task.name}/fault")
        there = float(metadata.get(f"{task.name}/difference", "nan"))
        bits = "same bits" if fault is None else ""
        back = float("nan")
        if f"{task.name}/losses" in file.keys():
            own = file.get_tensor(f"{task.name}/losses").tolist()
            try:
                back = difference(go_on_from(task, file, tensors[f"{task.name}/x"], tensors[f"{task.name}/y"]), own)
            except (RuntimeError, ValueError, KeyError) as e:
                fault = f"PyTorch: {e}"
        if not back <= BOUND:
            fault = fault or "PyTorch does not go on with elinvar's losses"
        failed += fault is not None
        print(f"{task.name:25}  {there:18.1e}  {back:18.1e}  {bits:>18}" + (f"  FAILED: {fault}" if fault else ""))
    print(f"{len(TASKS) - failed} passed, {failed} failed, with torch {torch.__version__}")
    return failed


def main():
    # One thread, so that sums have one order and the sample can be written again.
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case ["--write-sample"]:
            tensors, metadata = by_pytorch()
            SAMPLE.write_bytes(gzip.compress(save(tensors, metadata), mtime=0))
        case [program] if not program.startswith("-"):
            sys.exit(compare(program) > 0)
        case _:
            sys.exit("usage: python parity.py PROGRAM | --write-sample")


if __name__ == "__main__":
    main()

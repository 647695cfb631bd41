"""Writes layers.safetensors.gz: for each layer PyTorch's state dict, an input, the output and the gradients.

    python3 make_layers.py

Needs torch alone. Weights and inputs are f32; everything else is computed in f64 from them and rounded to f32.

A case's tensors are called CASE/w/NAME (the state dict), CASE/x0.. (inputs), CASE/y0.. (outputs), CASE/v0.. (what the
outputs are weighed with, to be summed and differentiated), CASE/gx0.. (gradients of inputs), CASE/g/NAME (of parameters),
CASE/a/NAME (buffers after a training step).
"""

import gzip
import json
import os
import struct

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(20240229)
tensors = {}


def store(name, t):
    # A copy, because a training step counts in place.
    tensors[name] = t.detach().clone().contiguous()


def randn(*sizes):
    return torch.randn(sizes, dtype=torch.float32)


def flat(result):
    """y, (h, c) as y, h, c."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for r in result for t in flat(r)]


def case(name, module, *inputs, train=True, gradients=True, call=None):
    module.train(train)
    module.float()
    with torch.no_grad():
        for key, b in module.named_buffers():
            if b.is_floating_point():
                # Not the zeros and ones with which nothing would be seen to be loaded.
                b.copy_(torch.rand_like(b) + 0.5)
            else:
                b.fill_(2)
        for key, p in module.named_parameters():
            if (p == p.flatten()[0]).all():
                p.copy_(torch.rand_like(p) + 0.5)
    for key, t in module.state_dict().items():
        store(f"{name}/w/{key}", t)
    module.double()
    xs = []
    for i, x in enumerate(inputs):
        store(f"{name}/x{i}", x)
        xs.append(x.double().requires_grad_() if x.is_floating_point() else x)
    ys = flat((call or module)(*xs))
    for i, y in enumerate(ys):
        store(f"{name}/y{i}", y.float() if y.is_floating_point() else y)
    if train:
        for key, b in module.named_buffers():
            store(f"{name}/a/{key}", b.float() if b.is_floating_point() else b)
    if not gradients:
        return
    total = 0
    for i, y in enumerate(ys):
        v = randn(*y.shape)
        store(f"{name}/v{i}", v)
        total = total + (y * v.double()).sum()
    total.backward()
    for i, x in enumerate(xs):
        if x.is_floating_point():
            store(f"{name}/gx{i}", x.grad.float())
    for key, p in module.named_parameters():
        store(f"{name}/g/{key}", p.grad.float())


def plain(name, f, *inputs, gradients=False):
    """A layer or function without weights."""
    case(name, nn.Identity(), *inputs, gradients=gradients, call=f)


case("linear", nn.Linear(3, 2), randn(4, 3))
case("linear_no_bias", nn.Linear(3, 2, bias=False), randn(2, 2, 3))
case("conv1d", nn.Conv1d(2, 4, 3, stride=2, padding=2, dilation=2, groups=2), randn(2, 2, 7))
case("conv1d_same", nn.Conv1d(2, 3, 4, padding="same"), randn(1, 2, 5))
case("conv1d_reflect", nn.Conv1d(1, 2, 4, padding="same", padding_mode="reflect"), randn(1, 1, 6))
case("conv2d", nn.Conv2d(2, 3, (2, 3), stride=(2, 1), padding=(0, 1)), randn(2, 2, 4, 3))
case("conv2d_circular", nn.Conv2d(1, 2, 3, padding=(1, 2), padding_mode="circular"), randn(1, 1, 3, 4))
case("conv2d_replicate", nn.Conv2d(1, 2, 3, stride=2, padding=1, padding_mode="replicate"), randn(1, 1, 4, 4))
case("conv3d", nn.Conv3d(1, 2, (1, 2, 3), padding=(1, 0, 2), bias=False), randn(1, 1, 2, 3, 2))
case(
    "conv_transpose1d",
    nn.ConvTranspose1d(4, 2, 3, stride=3, padding=1, output_padding=2, groups=2, dilation=2),
    randn(2, 4, 3),
)
case(
    "conv_transpose2d",
    nn.ConvTranspose2d(2, 3, (2, 3), stride=(2, 1), padding=(1, 0), output_padding=(1, 0)),
    randn(1, 2, 3, 2),
)
case("conv_transpose3d", nn.ConvTranspose3d(1, 2, 2, bias=False), randn(1, 1, 2, 1, 2))
case("embedding", nn.Embedding(5, 2, padding_idx=1), torch.tensor([[4, 1, 0], [4, 2, 2]]))
case("layer_norm", nn.LayerNorm([2, 3]), randn(2, 2, 3))
case("rms_norm", nn.RMSNorm(4, eps=1e-5), randn(3, 4))
case("group_norm", nn.GroupNorm(2, 4), randn(2, 4, 3))
case("batch_norm1d", nn.BatchNorm1d(3), randn(5, 3))
case("batch_norm1d_cumulative", nn.BatchNorm1d(2, momentum=None), randn(3, 2, 2))
case("batch_norm2d", nn.BatchNorm2d(2, momentum=0.3, eps=1e-3), randn(2, 2, 2, 3))
case("batch_norm2d_eval", nn.BatchNorm2d(2), randn(2, 2, 2, 2), train=False)
case("batch_norm3d", nn.BatchNorm3d(2, affine=False), randn(2, 2, 2, 1, 2))
case("instance_norm1d", nn.InstanceNorm1d(2), randn(2, 2, 4))
case("instance_norm1d_alone", nn.InstanceNorm1d(2, affine=True), randn(2, 4))
case("instance_norm2d", nn.InstanceNorm2d(2, affine=True, track_running_stats=True), randn(2, 2, 2, 3))
case("instance_norm2d_eval", nn.InstanceNorm2d(2, track_running_stats=True), randn(2, 2, 2, 2), train=False)
case("local_response_norm", nn.LocalResponseNorm(2, alpha=0.5, beta=0.6, k=0.8), randn(1, 4, 2))
case("prelu", nn.PReLU(), randn(2, 3))
case("prelu_channels", nn.PReLU(3), randn(2, 3, 2))

for kind, cell, states in [(nn.RNN, nn.RNNCell, 1), (nn.LSTM, nn.LSTMCell, 2), (nn.GRU, nn.GRUCell, 1)]:
    name = kind.__name__.lower()
    given = [(lambda h: h), (lambda h, c: (h, c))][states - 1]
    start = lambda *sizes: [randn(*sizes) for _ in range(states)]
    case(name, kind(2, 3), randn(3, 2, 2))
    net = kind(2, 2, num_layers=2, bidirectional=True)
    case(f"{name}_2_layers_both", net, randn(3, 2, 2), *start(4, 2, 2), call=lambda x, *s: net(x, given(*s)))
    case(f"{name}_batch_first", kind(3, 2, batch_first=True, bias=False), randn(2, 3, 3))
    one = cell(3, 2)
    case(f"{name}_cell", one, randn(2, 3), *start(2, 2), call=lambda x, *s: one(x, given(*s)))
    case(f"{name}_cell_from_zeros", cell(2, 2, bias=False), randn(1, 2))

edges = torch.tensor([-7.0, -3.5, -2.0, -0.75, -0.25, 0.0, 0.25, 0.75, 2.0, 3.5, 7.0])
for name, layer in {
    "relu": nn.ReLU(),
    "relu6": nn.ReLU6(),
    "leaky_relu": nn.LeakyReLU(0.1),
    "elu": nn.ELU(1.5),
    "celu": nn.CELU(1.5),
    "selu": nn.SELU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU("tanh"),
    "silu": nn.SiLU(),
    "mish": nn.Mish(),
    "softplus": nn.Softplus(2.0),
    "softsign": nn.Softsign(),
    "tanh": nn.Tanh(),
    "sigmoid": nn.Sigmoid(),
    "log_sigmoid": nn.LogSigmoid(),
    "hardtanh": nn.Hardtanh(-3.0, 0.5),
    "hardswish": nn.Hardswish(),
    "hardsigmoid": nn.Hardsigmoid(),
    "hardshrink": nn.Hardshrink(0.6),
    "softshrink": nn.Softshrink(0.6),
    "tanhshrink": nn.Tanhshrink(),
    "threshold": nn.Threshold(0.5, -4.0),
    "softmax": nn.Softmax(-1),
    "log_softmax": nn.LogSoftmax(0),
}.items():
    plain(name, layer, edges)
plain("glu", nn.GLU(1), randn(2, 4), gradients=True)
plain("swiglu", lambda x: F.silu(x[:, :2]) * x[:, 2:], randn(1, 4), gradients=True)

line, square, cube = randn(1, 2, 7), randn(1, 1, 5, 4), randn(1, 1, 3, 2, 4)
for name, layer, x in [
    ("max_pool1d", nn.MaxPool1d(3, stride=2, padding=1, return_indices=True), line),
    ("max_pool2d", nn.MaxPool2d((2, 3), stride=1, ceil_mode=True, dilation=(2, 1), return_indices=True), square),
    ("max_pool3d", nn.MaxPool3d((1, 2, 2), return_indices=True), cube),
    ("avg_pool1d", nn.AvgPool1d(2, padding=1), line),
    ("avg_pool2d", nn.AvgPool2d(3, stride=(2, 1), padding=1, count_include_pad=False), square),
    ("avg_pool3d", nn.AvgPool3d((2, 1, 3), stride=1), cube),
    ("adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(3), line),
    ("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((2, 3)), square),
    ("adaptive_avg_pool3d", nn.AdaptiveAvgPool3d((2, 1, 3)), cube),
    ("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(3, return_indices=True), line),
    ("adaptive_max_pool2d", nn.AdaptiveMaxPool2d((2, 3), return_indices=True), square),
    ("adaptive_max_pool3d", nn.AdaptiveMaxPool3d((2, 1, 3), return_indices=True), cube),
    ("upsample_nearest", nn.Upsample(size=(7, 3)), square),
    ("upsample_linear", nn.Upsample(scale_factor=1.7, mode="linear"), line),
    ("upsample_bilinear", nn.Upsample(scale_factor=(2, 1.5), mode="bilinear", align_corners=True), square),
    ("flatten", nn.Flatten(2), cube),
    ("unflatten", nn.Unflatten(1, (2, -1, 1)), randn(2, 4)),
    ("pixel_shuffle", nn.PixelShuffle(2), randn(1, 8, 1, 2)),
    ("pixel_unshuffle", nn.PixelUnshuffle(2), randn(2, 1, 4, 2)),
    ("pad_zeros", nn.ZeroPad2d((1, 0, -1, 2)), square),
    ("pad_constant", nn.ConstantPad1d((2, 1), 0.5), line),
    ("pad_reflect", nn.ReflectionPad2d((1, 2, 0, 3)), square),
    ("pad_replicate", nn.ReplicationPad3d((1, 0, 2, 0, 0, 1)), cube),
    ("pad_circular", nn.CircularPad1d((2, 1)), line),
]:
    plain(name, layer, x)

x, y, z = randn(3, 2), randn(3, 2), randn(3, 2)
signs, classes = torch.tensor([1.0, -1.0, 1.0]), torch.tensor([1, 0, 1])
probabilities, counts = torch.rand(3, 2), torch.tensor([[0.0, 1.0], [2.0, 5.0], [1.0, 3.0]])
logits, labels = randn(4, 2, 3), torch.tensor([[1, 2], [2, 2]])
# The third row of variances is below eps.
variance = torch.tensor([[0.5, 2.0], [1.0, 0.25], [1e-3, 1e-4]])
weight = torch.tensor([0.5, 2.0])


def loss(name, f, *inputs):
    plain(name, f, *inputs, gradients=True)


loss("gaussian_nll_loss", lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True, eps=1e-2), x, y, variance)
loss("gaussian_nll_loss_sum", lambda x, t, v: F.gaussian_nll_loss(x, t, v, reduction="sum"), x, y, variance + 1)
loss("poisson_nll_loss", lambda x: F.poisson_nll_loss(x, counts.double()), x)
loss("poisson_nll_loss_full", lambda x: F.poisson_nll_loss(x, counts.double(), False, True, reduction="none"), probabilities)
loss("margin_ranking_loss", lambda x, y: F.margin_ranking_loss(x, y, signs.double(), 0.5), x[:, 0], y[:, 0])
loss("soft_margin_loss", lambda x: F.soft_margin_loss(x, signs.double()), x[:, 0] * 9)
loss("cosine_embedding_loss", lambda x, y: F.cosine_embedding_loss(x, y, signs.double(), -0.5, reduction="none"), x, y)
loss("multi_margin_loss", lambda x: F.multi_margin_loss(x, classes, p=2, margin=0.7, weight=weight.double()), x)
loss("multi_margin_loss_none", lambda x: F.multi_margin_loss(x, classes, reduction="none"), x)
loss(
    "multilabel_soft_margin_loss",
    lambda x: F.multilabel_soft_margin_loss(x, (counts > 1).double(), weight.double()),
    x,
)
loss("triplet_margin_loss", lambda a, p, n: F.triplet_margin_loss(a, p, n, 0.8, swap=True), x, y, z)
loss(
    "ctc_loss",
    lambda x: F.ctc_loss(F.log_softmax(x, -1), labels, torch.tensor([4, 3]), torch.tensor([2, 1]), reduction="sum"),
    logits,
)


class Block(nn.Module):
    """torchvision.models.resnet's BasicBlock and Bottleneck."""

    def __init__(self, inputs, inside, stride, bottleneck):
        super().__init__()
        outputs = inside * 4 if bottleneck else inside
        conv = lambda i, o, k, s: nn.Conv2d(i, o, k, s, padding=k // 2, bias=False)
        self.conv1 = conv(inputs, inside, 1, 1) if bottleneck else conv(inputs, inside, 3, stride)
        self.bn1 = nn.BatchNorm2d(inside)
        self.conv2 = conv(inside, inside, 3, stride if bottleneck else 1)
        self.bn2 = nn.BatchNorm2d(inside)
        if bottleneck:
            self.conv3, self.bn3 = conv(inside, outputs, 1, 1), nn.BatchNorm2d(outputs)
        self.bottleneck, self.downsample = bottleneck, None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.bottleneck:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, inputs, width, blocks, bottleneck, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for i, n in enumerate(blocks):
            stage = []
            for k in range(n):
                stage.append(Block(channels, width << i, 2 if i > 0 and k == 0 else 1, bottleneck))
                channels = (width << i) * (4 if bottleneck else 1)
            setattr(self, f"layer{i + 1}", nn.Sequential(*stage))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in [self.layer1, self.layer2, self.layer3, self.layer4]:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


# Two stages show all names and shapes; four would be a large file.
case("resnet_basic", ResNet(1, 2, [2, 1, 0, 0], False, 3), randn(1, 1, 12, 8), train=False)
case("resnet_bottleneck", ResNet(1, 1, [2, 1, 0, 0], True, 2), randn(1, 1, 8, 8), train=False)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 1, 5), nn.Conv2d(1, 2, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(2, 3), nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2)
        x = torch.tanh(self.fc1(x.flatten(1)))
        return self.fc3(torch.tanh(self.fc2(x)))


case("lenet", LeNet(), randn(1, 2, 16, 16))


class RNNModel(nn.Module):
    """word_language_model's LSTM, which gives logits here."""

    def __init__(self, words, size, tied):
        super().__init__()
        self.encoder, self.rnn, self.decoder = nn.Embedding(words, size), nn.LSTM(size, size, 2), nn.Linear(size, words)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, tokens):
        y, state = self.rnn(self.encoder(tokens))
        return self.decoder(y), state


case("lstm_lm", RNNModel(4, 3, False), torch.tensor([[0, 3], [2, 1], [3, 3]]))
case("lstm_lm_tied", RNNModel(4, 2, True), torch.tensor([[0, 3], [2, 1]]))

case("rnn_relu", nn.RNN(2, 3, nonlinearity="relu"), randn(4, 2, 2), randn(1, 2, 3))
case("rnn_relu_2_layers_both", nn.RNN(2, 2, 2, nonlinearity="relu", bidirectional=True), randn(3, 2, 2))
case("rnn_relu_cell", nn.RNNCell(3, 2, nonlinearity="relu"), randn(2, 3), randn(2, 2))
case("lstm_projected", nn.LSTM(2, 4, proj_size=2), randn(3, 2, 2))
case(
    "lstm_projected_2_layers_both",
    nn.LSTM(3, 3, 2, proj_size=2, bidirectional=True, batch_first=True),
    randn(2, 3, 3),
)


def multihead(name, queries, keys, **options):
    """Attention, and its weights, one for each head."""
    layer = nn.MultiheadAttention(4, 2, **options)
    sizes = [options.get("kdim") or 4, options.get("vdim") or 4]
    first = options.get("batch_first")
    x = [randn(*((2, t, size) if first else (t, 2, size))) for t, size in [(queries, 4), (keys, sizes[0]), (keys, sizes[1])]]
    case(name, layer, *x, call=lambda *x: layer(*x, average_attn_weights=False))


multihead("attention_kdim_vdim", 3, 4, kdim=5, vdim=3)
multihead("attention_bias_kv", 3, 2, add_bias_kv=True)
multihead("attention_zero", 2, 3, add_zero_attn=True, batch_first=True)
multihead("attention_all_added", 2, 3, kdim=3, add_bias_kv=True, add_zero_attn=True, bias=False)

DTYPES = {torch.float32: "F32", torch.int64: "I64"}
header, data = {}, b""
for name, t in sorted(tensors.items()):
    bytes_ = t.numpy().tobytes()
    header[name] = {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(bytes_)]}
    data += bytes_
head = json.dumps(header, separators=(",", ":")).encode()
head += b" " * (-len(head) % 8)
whole = struct.pack("<Q", len(head)) + head + data
packed = gzip.compress(whole, mtime=0)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.safetensors.gz"), "wb") as f:
    f.write(packed)
print(len(tensors), "tensors,", len(whole), "bytes,", len(packed), "packed")

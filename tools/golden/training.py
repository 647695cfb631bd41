"""Cases of optimisers: the parameter after each of some steps with given gradients."""

import torch

from draw import F64, normal
from suite import smooth


def cases(s):
    asgd(s)
    rprop(s)
    adafactor(s)


def trajectory(make):
    def f(param, grads):
        p = torch.nn.Parameter(param.clone())
        optimizer = make([p])
        after = []
        for g in grads:
            p.grad = g.clone()
            optimizer.step()
            after.append(p.detach().clone())
        return torch.stack(after)

    return f


def add(s, op, slug, make, param, grads, attrs):
    f = trajectory(lambda p: make(p, **attrs))
    s.case(op, slug, f, {"param": param, "grads": grads}, attrs, smooth(16, 16))


def asgd(s):
    def row(slug, param, grads, **changed):
        attrs = {"lr": 0.1, "lambd": 1e-4, "alpha": 0.75, "t0": 1e6, "weight_decay": 0.0, "maximize": False} | changed
        add(s, "asgd", slug, torch.optim.ASGD, param, grads, attrs)

    grads = normal(10, 3, 2, key="g")
    row("plain", normal(3, 2), grads)
    row("decays", normal(3, 2), grads, lambd=0.25, alpha=0.5, weight_decay=0.125)
    row("averages", normal(3, 2), grads, t0=2.0)
    row("maximize", normal(3, 2), grads, maximize=True)
    # None of f64: there PyTorch keeps eta in f32.


def rprop(s):
    def row(slug, param, grads, **changed):
        attrs = {"lr": 0.01, "etas": [0.5, 1.2], "step_sizes": [1e-6, 50.0], "maximize": False} | changed
        add(s, "rprop", slug, torch.optim.Rprop, param, grads, attrs)

    grads = normal(10, 3, 2, key="g")
    row("plain", normal(3, 2), grads)
    row("one_sign", normal(3, 2), grads.abs())
    row("zeros", normal(3, 2), grads * (grads > 0))
    row("bounds", normal(3, 2), grads, etas=[0.25, 3.0], step_sizes=[0.005, 0.0625])
    row("maximize", normal(3, 2), grads, maximize=True)
    row("f64", normal(3, 2, dtype=F64), normal(10, 3, 2, dtype=F64, key="g"))


def adafactor(s):
    def row(slug, param, grads, **changed):
        attrs = {"lr": 0.01, "beta2_decay": -0.8, "eps": [None, 1e-3], "d": 1.0, "weight_decay": 0.0, "maximize": False}
        attrs |= changed
        add(s, "adafactor", slug, torch.optim.Adafactor, param, grads, attrs)

    row("matrix", normal(3, 2), normal(8, 3, 2, key="g"))
    row("vector", normal(5), normal(8, 5, key="g"))
    row("kernel", normal(2, 3, 2, 2), normal(5, 2, 3, 2, 2, key="g"))
    row("number", normal(), normal(5, key="g"))
    row("decays", normal(3, 2), normal(8, 3, 2, key="g"), weight_decay=0.25, lr=0.5, beta2_decay=-0.3)
    row("bounds", normal(3, 2, scale=1e-3), normal(8, 3, 2, key="g"), eps=[0.125, 0.25], d=2.0)
    row("maximize", normal(3, 2), normal(8, 3, 2, key="g"), maximize=True)

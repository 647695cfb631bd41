"""Cases of images read at other positions: grids, and other sizes."""

import torch
import torch.nn.functional as F

from draw import F16, F64, INF, NAN, normal, of, uniform
from suite import EXTENDS, View, cut, permute, products, smooth, transposed


def cases(s):
    grid_sample(s)
    affine_grid(s)
    interpolate(s)


def grid_sample(s):
    def add(slug, x, grid, mode="bilinear", padding="zeros", align=False, diff=None, grad=smooth(16, 64)):
        attrs = {"mode": mode, "padding_mode": padding, "align_corners": align}
        f = lambda x, grid: F.grid_sample(x.contiguous(), grid.contiguous(), mode, padding, align)
        # Which element is the nearest has no derivative.
        diff = ["x"] if mode == "nearest" else diff
        s.case("grid_sample", slug, f, {"x": x, "grid": grid}, attrs, smooth(16, 32), grad, diff)

    image = lambda **more: normal(1, 2, 3, 4, **more)
    # Far enough outside for some reflections.
    grid = lambda **more: uniform(-2.7, 2.7, 1, 3, 2, 2, key="grid", **more)
    for mode in ["bilinear", "nearest", "bicubic"]:
        for padding in ["zeros", "border", "reflection"]:
            for align in [False, True]:
                slug = f"{mode}_{padding}" + ("_aligned" if align else "")
                add(slug, image(), grid(), mode, padding, align)
    volume = lambda: (normal(1, 2, 3, 4, 2), uniform(-1.6, 1.6, 1, 2, 2, 3, 3, key="grid"))
    for mode in ["bilinear", "nearest"]:
        for padding in ["zeros", "border", "reflection"]:
            for align in [False, True]:
                slug = f"volume_{mode}_{padding}" + ("_aligned" if align else "")
                add(slug, *volume(), mode, padding, align)
    add("inside", image(), uniform(-0.9, 0.9, 1, 3, 3, 2, key="grid"))
    add("one_pixel", normal(1, 2, 1, 1), uniform(-1.5, 1.5, 1, 2, 2, 2, key="grid"), "bilinear", "reflection", True)
    add("beside_an_infinity", of(INF, 1.0, 2.0, 3.0).reshape(1, 1, 1, 4), of(0.3, 0.0, 0.9, 0.1).reshape(1, 1, 2, 2), diff=["x"])
    add("infinite_positions", image(), of(INF, 0.0, 0.1, -INF).reshape(1, 2, 1, 2), grad=None)
    add("no_position", image(), of(NAN, 0.1, 0.3, NAN).reshape(1, 2, 1, 2), padding="border", grad=None)
    add("strided", transposed(normal(1, 2, 3, 4)), View(normal(1, 2, 2, 2, key="grid"), permute(0, 2, 1, 3)))
    add("f64", image(dtype=F64), grid(dtype=F64))
    add("f16", normal(1, 1, 3, 3, dtype=F16), uniform(-1.0, 1.0, 1, 2, 2, 2, key="grid", dtype=F16))
    add("no_points", image(), normal(1, 0, 3, 2))
    add("no_batch", normal(0, 2, 3, 3), normal(0, 2, 2, 2))


def affine_grid(s):
    def add(slug, theta, size, align=False):
        f = lambda theta: F.affine_grid(theta.contiguous(), size, align)
        s.case("affine_grid", slug, f, {"theta": theta}, {"size": size, "align_corners": align}, products, products)

    add("image", normal(2, 2, 3), [2, 1, 3, 4])
    add("image_aligned", normal(2, 2, 3), [2, 1, 3, 4], True)
    add("volume", normal(1, 3, 4), [1, 2, 2, 3, 4])
    add("volume_aligned", normal(1, 3, 4), [1, 2, 2, 3, 4], True)
    add("one_pixel", normal(1, 2, 3), [1, 1, 1, 1], True)
    add("strided", transposed(normal(1, 2, 3)), [1, 1, 2, 2])
    add("f16", normal(1, 2, 3, dtype=F16), [1, 1, 2, 3])
    add("f64", normal(1, 2, 3, dtype=F64), [1, 1, 2, 3])


def interpolate(s):
    def add(slug, x, mode, align=None, antialias=False, recompute=None, **target):
        attrs = {"size": None, "scale_factor": None, "mode": mode, "align_corners": align} | target
        attrs |= {"antialias": antialias, "recompute_scale_factor": recompute}
        f = lambda x: F.interpolate(
            x.contiguous(), mode=mode, align_corners=align, antialias=antialias, recompute_scale_factor=recompute, **target
        )
        s.case("interpolate", slug, f, {"x": x}, attrs, products, products, tags=[EXTENDS])

    image = lambda **more: normal(1, 1, 5, 4, **more)
    for align in [False, True]:
        end = "_aligned" if align else ""
        add("bicubic_up" + end, image(), "bicubic", align, size=[8, 9])
        add("bicubic_down" + end, image(), "bicubic", align, size=[2, 3])
        add("bicubic_scale" + end, image(), "bicubic", align, scale_factor=[1.7, 0.6])
        add("bicubic_one" + end, image(), "bicubic", align, size=[1, 1])
        for mode in ["bilinear", "bicubic"]:
            add(f"antialiased_{mode}_up" + end, image(), mode, align, True, size=[8, 9])
            add(f"antialiased_{mode}_down" + end, normal(1, 1, 9, 8), mode, align, True, size=[3, 4])
            add(f"antialiased_{mode}_scale" + end, normal(1, 1, 9, 7), mode, align, True, scale_factor=[0.3, 0.45])
            add(f"antialiased_{mode}_one" + end, image(), mode, align, True, size=[1, 1])
    add("bicubic_recomputed", image(), "bicubic", False, False, True, scale_factor=[1.7, 0.6])
    add("bilinear_recomputed", image(), "bilinear", False, False, True, scale_factor=[1.7, 0.6])
    for slug, x, size, factor in [
        ("line", normal(2, 2, 5), [7], [0.7]),
        ("image", image(), [3, 9], [1.3, 2.0]),
        ("volume", normal(1, 2, 3, 4, 2), [2, 6, 3], [1.5, 0.5, 2.0]),
    ]:
        for mode in ["nearest-exact", "area"]:
            add(f"{mode.replace('-', '_')}_{slug}", x, mode, size=size)
            add(f"{mode.replace('-', '_')}_{slug}_scale", x, mode, scale_factor=factor)
    add("bicubic_strided", transposed(normal(1, 1, 3, 4)), "bicubic", False, size=[5, 5])
    add("bicubic_f16", normal(1, 1, 3, 3, dtype=F16), "bicubic", False, size=[4, 5])
    add("antialiased_f64", normal(1, 1, 6, 6, dtype=F64), "bicubic", False, True, size=[4, 2])
    add("antialiased_strided", View(normal(1, 1, 6, 12), cut(3, 0, None, 2)), "bilinear", False, True, size=[4, 2])
    add("nearest_exact_empty", normal(0, 2, 3), "nearest-exact", size=[5])

"""Cases of Fourier transforms. Complex numbers are pairs along a last axis."""

import torch
from draw import F16, F64, normal
from suite import View, cut, permute, products, transposed

pairs = torch.view_as_real
numbers = lambda x: torch.view_as_complex(x.contiguous() if x.dtype != F16 else x.float().contiguous())


def real(x):
    return x.float() if x.dtype == F16 else x


def back(y, x):
    return y.to(x.dtype)


def lines(s, op, f, takes_pairs, gives_pairs):
    def add(slug, x, n=None, dim=-1, norm=None):
        attrs = {"n": n, "dim": dim, "norm": norm}

        def run(x):
            y = f(numbers(x) if takes_pairs else real(x), n=n, dim=dim, norm=norm)
            return back(pairs(y) if gives_pairs else y, x)

        s.case(op, slug, run, {"x": x}, attrs, products, products)

    two = (2,) if takes_pairs else ()
    add("short", normal(2, 5, *two))
    add("one", normal(3, 2, *two), dim=0)
    add("ortho", normal(2, 8, *two), norm="ortho")
    add("forward", normal(7, *two), norm="forward")
    add("cut", normal(2, 9, *two), n=6)
    add("filled", normal(2, 5, *two), n=12)
    add("first_axis", normal(6, 3, *two), dim=0)
    add("two_radices", normal(1, 96, *two))
    add("odd", normal(1, 75, *two), n=None if takes_pairs else 75)
    add("prime", normal(1, 67, *two))
    add("odd_length", normal(1, 40, *two), n=77)
    wide = normal(2, 6, 8, *two)
    add("strided", View(wide, permute(1, 0, 2, *([3] if takes_pairs else [])), cut(2, 0, None, 2)), dim=1)
    add("f64", normal(2, 10, *two, dtype=F64))
    add("f16", normal(2, 6, *two, dtype=F16))


def several(s, op, f, takes_pairs, gives_pairs, two_axes):
    def add(slug, x, size=None, dim=None, norm=None):
        attrs = {"s": size, "dim": dim, "norm": norm}
        keys = {"s": size, "norm": norm} | ({} if dim is None else {"dim": dim})

        def run(x):
            y = f(numbers(x) if takes_pairs else x, **keys)
            return pairs(y) if gives_pairs else y

        s.case(op, slug, run, {"x": x}, attrs, products, products)

    two = (2,) if takes_pairs else ()
    add("basic", normal(2, 4, 5, *two))
    add("ortho", normal(3, 6, *two), norm="ortho")
    add("sizes", normal(2, 4, 5, *two), [3, 6], [-2, -1])
    add("order", normal(4, 3, 5, *two), None, [2, 0])
    if not two_axes:
        add("three_axes", normal(2, 3, 4, *two), None, [0, 1, 2], "forward")
        add("last_axes", normal(2, 3, 4, *two), [5, 4])
        add("one_axis", normal(2, 3, 4, *two), None, [1])


def short_time(s):
    def add(slug, x, n_fft, window=None, **attrs):
        attrs = {"n_fft": n_fft} | attrs
        inputs = {"x": x} | ({} if window is None else {"window": window})
        f = lambda x, w=None: pairs(torch.stft(x, window=w, return_complex=True, **attrs))
        s.case("stft", slug, f, inputs, attrs, products, products)

    add("basic", normal(2, 24), 8)
    add("window", normal(20), 8, normal(8, key="w"), hop_length=3)
    add("short_window", normal(20), 8, normal(5, key="w"), win_length=5)
    add("not_centred", normal(2, 20), 6, center=False, hop_length=2)
    add("normalized", normal(20), 8, normalized=True)
    add("two_sides", normal(20), 7, onesided=False)
    add("constant", normal(12), 8, pad_mode="constant")

    def add(slug, x, n_fft, window=None, **attrs):
        attrs = {"n_fft": n_fft} | attrs
        inputs = {"x": x} | ({} if window is None else {"window": window})
        f = lambda x, w=None: torch.istft(numbers(x), window=w, **attrs)
        s.case("istft", slug, f, inputs, attrs, products, products)

    window = lambda n: normal(n, key="w").abs() + 0.5
    add("basic", normal(2, 5, 4, 2), 8)
    add("window", normal(5, 6, 2), 8, window(8), hop_length=3)
    add("short_window", normal(5, 6, 2), 8, window(6), win_length=6, hop_length=2)
    add("not_centred", normal(2, 4, 5, 2), 6, center=False, hop_length=2)
    add("normalized", normal(5, 4, 2), 8, normalized=True)
    add("two_sides", normal(8, 4, 2), 8, onesided=False)
    add("cut", normal(5, 6, 2), 8, length=7)
    add("filled", normal(5, 6, 2), 8, length=20)


def cases(s):
    for op, takes, gives in [("fft", 1, 1), ("ifft", 1, 1), ("rfft", 0, 1), ("irfft", 1, 0)]:
        lines(s, op, getattr(torch.fft, op), takes, gives)
        several(s, op + "2", getattr(torch.fft, op + "2"), takes, gives, True)
        several(s, op + "n", getattr(torch.fft, op + "n"), takes, gives, False)
    short_time(s)

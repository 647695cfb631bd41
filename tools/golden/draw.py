"""Inputs: always the same, small, and in every dtype the numbers that are stored."""

import zlib

import torch

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I64, I32, U8, BOOL = torch.int64, torch.int32, torch.uint8, torch.bool
INF, NAN = float("inf"), float("nan")


def normal(*shape, dtype=F32, scale=1.0, key=""):
    g = torch.Generator().manual_seed(zlib.crc32(f"{shape}{dtype}{key}".encode()))
    return (torch.randn(shape, generator=g, dtype=F64) * scale).to(dtype)


def uniform(low, high, *shape, dtype=F32, key=""):
    g = torch.Generator().manual_seed(zlib.crc32(f"{shape}{dtype}{key}".encode()))
    return (torch.rand(shape, generator=g, dtype=F64) * (high - low) + low).to(dtype)


def whole(low, high, *shape, dtype=I64, key=""):
    g = torch.Generator().manual_seed(zlib.crc32(f"{shape}{dtype}{key}".encode()))
    return torch.randint(low, high, shape, generator=g).to(dtype)


def distinct(*shape, dtype=F32, key=""):
    """No two elements are equal, so nothing depends on how ties are settled."""
    n = torch.Size(shape).numel()
    g = torch.Generator().manual_seed(zlib.crc32(f"{shape}{dtype}{key}".encode()))
    return ((torch.randperm(n, generator=g) - n // 2) / 4).reshape(shape).to(dtype)


def of(*values, dtype=F32):
    return torch.tensor(values, dtype=dtype)

"""Makes golden cases of the ops for which a golden directory has none.

usage: python make.py FOLDER
"""

import pathlib
import sys

import torch

import dropout
import elementwise
import fourier
import geometry
import indexing
import linalg
import movement
import order
import products
import resizing
import sequences
import special
import training
from suite import Suite


def main():
    # One thread: PyTorch's own error, which tolerances allow for, is then the same every time.
    torch.set_num_threads(1)
    suite = Suite()
    for ops in (elementwise, movement, indexing, order, geometry, resizing, products, sequences, training, dropout, fourier, linalg, special):
        ops.cases(suite)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    suite.write(folder)
    print(f"{len(suite.lines)} cases of {len(suite.numbers)} ops")


if __name__ == "__main__":
    main()

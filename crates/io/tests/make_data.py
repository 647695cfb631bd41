"""Makes the files in data/ that NumPy writes. Run in this directory: python3 make_data.py"""

import numpy as np

np.save("data/c.npy", np.array([[1.5, -0.0, np.inf], [1e-45, 2.0, -3.0]], dtype="<f4"))
np.save("data/fortran.npy", np.asfortranarray(np.arange(24, dtype="<i4").reshape(2, 3, 4)))
np.save("data/big.npy", np.array([1, -2, 2**40], dtype=">i8"))
np.save("data/fortran_big.npy", np.asfortranarray(np.arange(6, dtype=">f2").reshape(2, 3)))
np.save("data/scalar.npy", np.float64(5e-324))
np.save("data/empty.npy", np.zeros((2, 0, 3), dtype="?"))
np.save("data/int16.npy", np.array([7, 8], dtype="<i2"))
np.save("data/struct.npy", np.zeros(2, dtype=[("x", "<f4", (2,)), ("y)", "|u1")]))
for version in [(2, 0), (3, 0)]:
    with open(f"data/v{version[0]}.npy", "wb") as f:
        np.lib.format.write_array(f, np.array([1, 2, 255], dtype="u1"), version=version)
arrays = {"w": np.arange(6, dtype="<f4").reshape(2, 3), "b/bias": np.array([True, False]), "n": np.array(3, dtype="<i8")}
np.savez("data/stored.npz", **arrays)
np.savez_compressed("data/deflated.npz", **arrays, zeros=np.zeros((100, 10), dtype="<f8"))
np.savez("data/mixed.npz", good=np.array([1.0], dtype="<f2"), foreign=np.array([1j], dtype="<c8"))

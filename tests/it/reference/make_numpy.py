"""Writes numpy_stored.npz and numpy_deflated.npz beside this script: arrays as NumPy itself writes them.

Run with: python3 tests/it/reference/make_numpy.py
The values are those of tests/it/import_arrays.rs, which reads them back.
"""

from pathlib import Path

import numpy

HERE = Path(__file__).parent

grid = numpy.arange(12).reshape(3, 4)
cube = numpy.arange(12).reshape(3, 2, 2)

numpy.savez(
    HERE / "numpy_stored.npz",
    x=grid.astype("<f8") / 4,
    y=numpy.array([1.5, -2.5, numpy.nan], dtype="<f4"),
    fortran=numpy.asfortranarray(grid.astype("<i4")),
    big=grid.astype(">u2"),
    cube=numpy.asfortranarray(cube.astype("<i8")),
    flag=numpy.array([True, False, True]),
    half=numpy.array([0.5, 65504.0, -6e-8], dtype="<f2"),
)
numpy.savez_compressed(
    HERE / "numpy_deflated.npz",
    x_train=numpy.repeat(grid, 2, axis=0).astype(">f8"),
    x_test=grid.astype(">f8"),
    y_train=numpy.arange(6, dtype="<i8"),
    y_test=numpy.array([2**63 - 1, -(2**63), 0], dtype=">i8"),
    words=numpy.array(["a", "b"]),
)

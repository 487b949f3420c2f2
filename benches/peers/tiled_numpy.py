"""One evaluation of STRIDE's log-likelihood in numpy, tile by tile.

Usage: tiled_numpy.py DIRECTORY [scipy | afterwards], which has the files that benches/speed/peers.rs writes. Prints the value and the best
time as JSON. The number of threads of BLAS comes from the environment; tiles are also given to Python threads with one BLAS
thread each, and the faster of the two ways, at the best tile size, counts.

numpy has no triangular solve: L is inverted once, and every tile is multiplied by the inverse. With `scipy`, BLAS is called by
hand for the solve and the symmetric product, in place. With `afterwards`, K_mn K_nm is summed and the sum multiplied by the
inverse once, which is what stride-pipe does here too, and only right where K_mm is well-conditioned: about what can be had from
Python at all.
"""

import json
import os
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import dsyrk, dtrsm
from threadpoolctl import threadpool_limits

here = pathlib.Path(sys.argv[1])
problem = json.loads((here / "problem.json").read_text())
n, d = problem["n"], problem["d"]
x = np.fromfile(here / "x").reshape(n, d)
y = np.fromfile(here / "y")
white = np.fromfile(here / "white").reshape(-1, d)
variance, length, noise, jitter = (problem[key] for key in ("variance", "length", "noise", "jitter"))
inducing, pivots = problem["inducing"], problem["pivots"]
centre = x.mean(0)
m = len(inducing)
by_hand, afterwards = "scipy" in sys.argv[2:], "afterwards" in sys.argv[2:]


def kernel(a, b, scale):
    """Squared-exponential covariances of points that are divided by their length already."""
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :]
    squares -= 2.0 * (a @ b.T)
    np.maximum(squares, 0.0, out=squares)
    squares *= -0.5
    np.exp(squares, out=squares)
    if scale != 1.0:
        squares *= scale
    return squares


# What does not change from one evaluation to the next.
scaled = (x - centre) / length
basis = kernel(scaled, scaled[pivots], 1.0)
k_aa = kernel(scaled[pivots], scaled[pivots], 1.0)
factor = cholesky(k_aa + jitter * np.eye(len(pivots)), lower=True)


def evaluate(tile, pool):
    weights = solve_triangular(factor, white, lower=True, trans="T")

    def points(rows):
        return (basis[rows] @ weights - centre) / length

    z = points(inducing)
    lower = cholesky(kernel(z, z, variance) + jitter * variance * np.eye(m), lower=True)
    inverse = np.linalg.inv(lower)

    def part(first):
        rows = slice(first, first + tile)
        k = kernel(points(rows), z, variance)
        if by_hand:
            # Columns in one piece, as BLAS wants them: K_nm in C order is K_mn in Fortran order.
            v = dtrsm(1.0, lower, k.T, lower=1, overwrite_b=1)
            return dsyrk(1.0, v, lower=1), v @ y[rows]
        v = k if afterwards else k @ inverse.T
        return v.T @ v, y[rows] @ v

    w, vy = np.zeros((m, m)), np.zeros(m)
    for w_part, vy_part in (pool.map if pool else map)(part, range(0, n, tile)):
        w += w_part
        vy += vy_part
    if afterwards:
        w, vy = inverse @ w @ inverse.T, inverse @ vy
    b = np.eye(m) + (np.tril(w) + np.tril(w, -1).T) / noise  # dsyrk fills one triangle only
    lower_b = cholesky(b, lower=True)
    c = solve_triangular(lower_b, vy, lower=True) / noise
    return -0.5 * (
        n * np.log(2 * np.pi * noise) + 2 * np.log(np.diag(lower_b)).sum() + y @ y / noise - c @ c
    )


threads = int(os.environ.get("OPENBLAS_NUM_THREADS", os.cpu_count()))
best, value = np.inf, None
with ThreadPoolExecutor(threads) as workers:
    ways = [(None, threads)] + ([(workers, 1)] if threads > 1 else [])
    for pool, blas in ways:
        with threadpool_limits(blas):
            for tile in (500, 1000, 2000, 4000):
                for _ in range(3 if m < 200 else 2):
                    start = time.perf_counter()
                    value = evaluate(tile, pool)
                    best = min(best, time.perf_counter() - start)
print(json.dumps({"seconds": best, "value": value}))

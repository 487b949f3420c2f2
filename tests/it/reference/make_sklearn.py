"""Writes sklearn_gp.json: figures of scikit-learn that the exact Gaussian process must reproduce.

Run it from anywhere, with the directory of the UCI Parquet files (energy, concrete, boston):

    python -m venv venv && venv/bin/pip install scikit-learn pandas pyarrow
    venv/bin/python tests/it/reference/make_sklearn.py data/uci

The boston rows are here for comparison with published figures only; the column `b` of that data set is ethically
indefensible, and is left out.
"""

import json
import pathlib
import sys

import numpy as np
import pandas as pd
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

TARGETS = {"energy": "heating_load", "concrete": "compressive_strength", "boston": "medv"}
ROWS, STARS = 60, 7


def standardise(a):
    return (a - a.mean(axis=0)) / a.std(axis=0)


def from_file(directory, name, rng):
    table = pd.read_parquet(pathlib.Path(directory) / f"{name}.parquet")
    y = table.pop(TARGETS[name]).to_numpy(float)
    table = table.drop(columns=["row_id"])
    if name == "boston":
        table = table.drop(columns=["b"])
    if name == "energy":
        table = table.drop(columns=[c for c in table.columns if "load" in c])
    x = table.select_dtypes("number").to_numpy(float)
    rows = rng.permutation(len(y))[: ROWS + STARS]
    x, y = x[rows], y[rows]
    x = x[:, x.std(axis=0) > 0]
    # Seven digits are plenty for test data and keep the file small.
    return np.round(standardise(x), 7), np.round(standardise(y), 7)


def toy(rng, d):
    x = np.round(rng.standard_normal((40 + STARS, d)), 7)
    x[5] = x[4]  # repeated rows are ordinary
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(len(x))
    return x, np.round(standardise(y), 7)


def shape(name, lengths):
    if name == "rbf":
        return RBF(lengths)
    return Matern(lengths, nu={"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}[name])


def case(x, y, name, variance, lengths, noise):
    n = len(y) - STARS
    scale = lengths[0] if len(lengths) == 1 else np.array(lengths)
    kernel = ConstantKernel(variance) * shape(name, scale) + WhiteKernel(noise)
    gp = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(x[:n], y[:n])
    value, gradient = gp.log_marginal_likelihood(gp.kernel_.theta, eval_gradient=True)
    mean, std = gp.predict(x[n:], return_std=True)
    return {
        "kernel": name,
        "variance": variance,
        "lengths": list(map(float, lengths)),
        "noise": noise,
        "log_likelihood": float(value),
        "gradient": gradient.tolist(),
        "mean": mean.tolist(),
        "y_std": std.tolist(),
    }


def main(directory):
    rng = np.random.default_rng(20260101)
    sets = {name: from_file(directory, name, rng) for name in TARGETS}
    sets["toy1"] = toy(rng, 1)
    sets["toy3"] = toy(rng, 3)
    out = []
    for name, (x, y) in sets.items():
        d = x.shape[1]
        n = len(y) - STARS
        cases = []
        for kernel in ("rbf", "matern12", "matern32", "matern52"):
            cases.append(case(x, y, kernel, 1.5, [2.0], 0.05))
            cases.append(case(x, y, kernel, 0.7, np.round(np.linspace(0.8, 4.0, d), 3) if d > 1 else [0.8], 0.2))
        # Ill-conditioned: large variance, long length, little noise.
        cases.append(case(x, y, "rbf", 100.0, [8.0], 1e-3))
        out.append(
            {
                "name": name,
                "x": x[:n].tolist(),
                "y": y[:n].tolist(),
                "x_star": x[n:].tolist(),
                "cases": cases,
            }
        )
    path = pathlib.Path(__file__).with_name("sklearn_gp.json")
    text = ",\n".join(json.dumps(entry) for entry in out)
    path.write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])

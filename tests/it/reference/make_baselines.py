"""Writes baselines.json: figures of scikit-learn that ridge regression and nearest neighbours must reproduce.

Run it from anywhere, with the directory of the UCI Parquet files (energy, concrete, boston):

    python -m venv venv && venv/bin/pip install scikit-learn scipy pandas pyarrow
    venv/bin/python tests/it/reference/make_baselines.py data/uci

BayesianRidge subtracts the mean and then counts n observations; ours integrates the intercept out, which leaves n - 1. So it
gets n - 1 orthonormal contrasts of the rows, without an intercept, and both maximise the same evidence.
"""

import json
import pathlib
import sys

import numpy as np
from make_sklearn import STARS, TARGETS, from_file, toy
from scipy.linalg import helmert
from scipy.stats import multivariate_normal
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor


def ridge(x, y, stars):
    contrasts = helmert(len(y))
    flat = {name: 0.0 for name in ("alpha_1", "alpha_2", "lambda_1", "lambda_2")}
    model = BayesianRidge(fit_intercept=False, max_iter=1_000_000, tol=1e-13, **flat)
    rows, targets = contrasts @ x, contrasts @ y
    model.fit(rows, targets)
    noise, strength = 1 / model.alpha_, model.lambda_ / model.alpha_
    covariance = noise * (np.eye(len(targets)) + rows @ rows.T / strength)
    spread = np.einsum("ij,jk,ik->i", stars - x.mean(axis=0), model.sigma_, stars - x.mean(axis=0))
    return {
        "strength": strength,
        "noise": noise,
        "log_likelihood": multivariate_normal(cov=covariance).logpdf(targets),
        "mean": Ridge(alpha=strength).fit(x, y).predict(stars).tolist(),
        "std": np.sqrt(noise * (1 + 1 / len(y)) + spread).tolist(),
    }


def neighbours(x, y, stars):
    counts = range(1, 51)
    left_out = [cross_val_predict(KNeighborsRegressor(k, algorithm="brute"), x, y, cv=LeaveOneOut()) for k in counts]
    errors = [float(np.mean((y - mean) ** 2)) for mean in left_out]
    best = int(np.argmin(errors)) + 1
    mean = {str(k): KNeighborsRegressor(k, algorithm="brute").fit(x, y).predict(stars).tolist() for k in (best, 7)}
    return {"errors": errors, "neighbours": best, "mean": mean}


def main(directory):
    rng = np.random.default_rng(20261118)
    sets = {name: from_file(directory, name, rng) for name in TARGETS}
    sets["toy3"] = toy(rng, 3)
    # More features than rows.
    wide = np.round(rng.standard_normal((30 + STARS, 45)), 7)
    sets["wide"] = wide, np.round(wide[:, :5].sum(axis=1) + 0.3 * rng.standard_normal(len(wide)), 7)
    out = []
    for name, (x, y) in sets.items():
        n = len(y) - STARS
        answer = {"ridge": ridge(x[:n], y[:n], x[n:])}
        # Where distances are equal, scikit-learn takes any.
        if name in ("concrete", "boston"):
            answer["knn"] = neighbours(x[:n], y[:n], x[n:])
        data = {"x": x[:n].tolist(), "y": y[:n].tolist(), "x_star": x[n:].tolist()}
        out.append({"name": name, **data, **answer})
    text = ",\n".join(json.dumps(entry) for entry in out)
    pathlib.Path(__file__).with_name("baselines.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])

"""Writes arviz.json: split-R-hat and bulk effective sample sizes of ArviZ that `eval::chains` must reproduce.

Run it from anywhere:

    python -m venv venv && venv/bin/pip install arviz==0.23.4 numpy==2.4.6 scipy==1.17.1
    venv/bin/python tests/it/reference/make_arviz.py

Draws are rounded, so that the file holds them exactly. Where ArviZ has no figure (all draws equal) it is null.
"""

import json
import math
import pathlib
import warnings

warnings.simplefilter("ignore")

import arviz  # noqa: E402
import numpy as np  # noqa: E402
from arviz.stats import diagnostics  # noqa: E402


def autoregressive(rng, chains, draws, coefficient):
    x = rng.standard_normal((chains, draws))
    for t in range(1, draws):
        x[:, t] = coefficient * x[:, t - 1] + math.sqrt(1 - coefficient**2) * x[:, t]
    return x


def ends_below_zero(x):
    """Whether the search for correlations runs to the end of the chain, and its last even lag is negative there.

    That lag then counts with its sign: a case that random chains hardly ever meet.
    """
    z = diagnostics._z_scale(diagnostics._split_chains(x))
    n = z.shape[1]
    covariance = diagnostics._autocov(z, axis=1).mean(axis=0)
    mean_var = covariance[0] * n / (n - 1)
    var_plus = covariance[0] + z.mean(axis=1).var(ddof=1)
    rho = 1 - (mean_var - covariance) / var_plus
    rho[0] = 1
    t, pair = 1, rho[0] + rho[1]
    while t < n - 3 and pair > 0:
        pair = rho[t + 1] + rho[t + 2]
        t += 2
    return t > 1 and t >= n - 3 and pair > 0 and rho[t - 1] < -0.02


def search(chains, draws):
    for seed in range(100_000):
        x = np.round(np.random.default_rng(seed).standard_normal((chains, draws)), 1)
        if ends_below_zero(x):
            return x
    raise SystemExit("no such chain")


def cases():
    rng = np.random.default_rng(7)
    yield "independent", rng.standard_normal((4, 16))
    yield "odd length", autoregressive(rng, 2, 25, 0.6)
    yield "shortest", rng.standard_normal((3, 8))
    yield "shortest odd", rng.standard_normal((2, 9))
    yield "one chain", autoregressive(rng, 1, 30, 0.8)
    yield "sticky", autoregressive(rng, 2, 40, 0.95)
    yield "antithetic", autoregressive(rng, 2, 32, -0.8)
    yield "far apart", autoregressive(rng, 3, 14, 0.3) + np.array([[0.0], [4.0], [-3.0]])
    yield "different spread", rng.standard_normal((3, 18)) * np.array([[0.2], [1.0], [5.0]])
    yield "trend", autoregressive(rng, 2, 20, 0.2) + 0.2 * np.arange(20)
    yield "ties", rng.integers(0, 4, (3, 17)).astype(float)
    yield "stuck", np.repeat(rng.standard_normal((2, 6)), 4, axis=1)
    yield "one chain stands still", np.vstack([rng.standard_normal(12), np.full(12, 0.5)])
    yield "two values", np.array([[0.0, 1.0] * 6, [1.0, 1.0] * 6])
    yield "constant", np.full((2, 10), 1.5)
    yield "the last even lag is negative", search(2, 12)
    yield "large offset", np.array([[1e6]]) + autoregressive(rng, 2, 22, 0.5)


def number(value):
    return None if math.isnan(value) else value


def main():
    out = []
    for name, chains in cases():
        chains = np.round(chains, 2)
        constant = bool(np.all(chains == chains[0, 0]))
        rhat = float(arviz.rhat(chains, method="rank"))
        # For equal draws ArviZ answers with their number, which says nothing.
        ess = math.nan if constant else float(arviz.ess(chains, method="bulk"))
        out.append({"name": name, "chains": chains.tolist(), "rhat": number(rhat), "ess": number(ess)})
    path = pathlib.Path(__file__).with_name("arviz.json")
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")
    print(arviz.__version__, sum(np.size(case["chains"]) for case in out), "draws", path.name)


if __name__ == "__main__":
    main()

"""Writes sgpr.json: figures of GPyTorch that the sparse Gaussian process must reproduce.

Run it from anywhere, with the directory of the UCI Parquet files (energy, concrete):

    python -m venv venv && venv/bin/pip install torch gpytorch pandas pyarrow
    venv/bin/python tests/it/reference/make_sgpr.py data/uci

GPyTorch's SGPR is `InducingPointKernel` with `ExactMarginalLogLikelihood`, which adds Titsias' trace term. It works with
K_mm + 1e-8 σ² (set below, instead of its absolute default), without fast approximations, in double precision.
"""

import json
import pathlib
import sys

import gpytorch
import numpy as np
import pandas as pd
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import InducingPointKernel, MaternKernel, RBFKernel, ScaleKernel

torch.set_default_dtype(torch.float64)
JITTER = 1e-8
# Far below every value here, so that the constraint only fixes the transform.
LEAST = GreaterThan(1e-12)
KERNELS = {"rbf": None, "matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
SETS = {
    "energy": ("heating_load", ["row_id", "heating_load", "cooling_load"]),
    "concrete": ("compressive_strength", ["row_id", "compressive_strength"]),
}


class Inducing(InducingPointKernel):
    """The same with our jitter on K_mm."""

    @property
    def _inducing_mat(self):
        k = super()._inducing_mat
        return k + JITTER * self.base_kernel.outputscale * torch.eye(k.shape[-1])


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, base, inducing):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = Inducing(base, inducing.clone(), likelihood)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def by_log(raw, value):
    """The derivative by log(value) from that by the raw parameter, value = softplus(raw) + least."""
    return (raw.grad / torch.sigmoid(raw.detach()) * value.detach()).flatten().tolist()


def case(x, y, x_star, rows, name, variance, lengths, noise):
    ard = len(lengths) if len(lengths) > 1 else None
    nu = KERNELS[name]
    options = {"ard_num_dims": ard, "lengthscale_constraint": LEAST}
    base = ScaleKernel(RBFKernel(**options) if nu is None else MaternKernel(nu=nu, **options), outputscale_constraint=LEAST)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=LEAST)
    base.outputscale = variance
    base.base_kernel.lengthscale = torch.tensor(lengths)
    likelihood.noise = noise
    model = Model(x, y, likelihood, base, x[rows])
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    model.train()
    bound = mll(model(x), y) * len(y)
    bound.backward()
    gradient = (
        by_log(base.raw_outputscale, base.outputscale)
        + by_log(base.base_kernel.raw_lengthscale, base.base_kernel.lengthscale)
        + by_log(likelihood.noise_covar.raw_noise, likelihood.noise)
    )
    model.eval()
    with torch.no_grad():
        found = model(x_star)
        # Without its diagonal correction (which would make it FITC) GPyTorch leaves out what the inducing points do
        # not know about the new rows: k(x, x) - q(x, x).
        missing = base(x_star, diag=True) - model.covar_module(x_star).diagonal()
    return {
        "kernel": name, "variance": variance, "lengths": lengths, "noise": noise, "rows": rows,
        "bound": bound.item(), "gradient": gradient,
        "mean": found.mean.tolist(), "latent_variance": (found.variance + missing).tolist(),
    }


def main(directory):
    out = []
    for name, (target, unused) in SETS.items():
        table = pd.read_parquet(pathlib.Path(directory) / f"{name}.parquet").sample(150, random_state=1)
        x = table.drop(columns=unused).to_numpy(float)
        y = table[target].to_numpy(float)
        x = np.round((x - x[:120].mean(0)) / x[:120].std(0), 6)
        y = np.round((y - y[:120].mean()) / y[:120].std(), 6)
        x, y = torch.tensor(x), torch.tensor(y)
        d = x.shape[1]
        rows = list(range(3, 120, 6))
        cases = []
        for kernel in KERNELS:
            for variance, length, noise in [(1.3, 2.0, 0.1), (20.0, 5.0, 0.03)]:
                lengths = [round(length * (0.7 + 0.1 * j), 3) for j in range(d)]
                cases.append(case(x[:120], y[:120], x[120:], rows, kernel, variance, [length], noise))
                cases.append(case(x[:120], y[:120], x[120:], rows, kernel, variance, lengths, noise))
        out.append({
            "name": name, "x": x[:120].tolist(), "y": y[:120].tolist(), "x_star": x[120:].tolist(), "cases": cases,
        })
    path = pathlib.Path(__file__).with_name("sgpr.json")
    path.write_text("[\n" + ",\n".join(json.dumps(s) for s in out) + "\n]\n")
    print(gpytorch.__version__, torch.__version__, path)


if __name__ == "__main__":
    with (
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.max_cholesky_size(10_000),
        gpytorch.settings.sgpr_diagonal_correction(False),
        gpytorch.settings.skip_posterior_variances(False),
    ):
        main(sys.argv[1])

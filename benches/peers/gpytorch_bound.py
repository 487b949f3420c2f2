"""Titsias' bound and its gradient by the hyper-parameters in GPyTorch, on the CPU and in double precision.

Usage: gpytorch_bound.py DIRECTORY, which has the files that benches/speed/peers.rs writes. Prints the bound and the best time
as JSON. Inducing points stay where they are, as ours do.
"""

import json
import os
import pathlib
import sys
import time

import gpytorch
import numpy as np
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import InducingPointKernel, RBFKernel, ScaleKernel

torch.set_default_dtype(torch.float64)
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))
here = pathlib.Path(sys.argv[1])
problem = json.loads((here / "problem.json").read_text())
n, d, jitter = problem["n"], problem["d"], problem["jitter"]
x = torch.from_numpy(np.fromfile(here / "x").reshape(n, d))
y = torch.from_numpy(np.fromfile(here / "y"))
least = GreaterThan(1e-12)


class Inducing(InducingPointKernel):
    """With our jitter on K_mm."""

    @property
    def _inducing_mat(self):
        k = super()._inducing_mat
        return k + jitter * self.base_kernel.outputscale * torch.eye(k.shape[-1])


class Model(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        base = ScaleKernel(RBFKernel(lengthscale_constraint=least), outputscale_constraint=least)
        self.covar_module = Inducing(base, x[problem["inducing"]].clone(), likelihood)

    def forward(self, rows):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))


likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=least)
model = Model(likelihood)
model.covar_module.base_kernel.base_kernel.lengthscale = problem["length"]
model.covar_module.base_kernel.outputscale = problem["variance"]
likelihood.noise = problem["noise"]
model.covar_module.inducing_points.requires_grad_(False)
bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
model.train()
likelihood.train()

best, value = np.inf, None
with gpytorch.settings.cholesky_jitter(double_value=0.0), gpytorch.settings.cholesky_max_tries(1):
    for _ in range(4):
        model.zero_grad()
        start = time.perf_counter()
        loss = bound(model(x), y)
        loss.backward()
        best = min(best, time.perf_counter() - start)
        # GPyTorch divides by the number of rows.
        value = loss.item() * n
print(json.dumps({"seconds": best, "value": value}))

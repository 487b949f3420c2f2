"""Other methods on the split of pipelines/fashion.yaml: nearest neighbours, gradient boosting, GPyTorch's SVGP and deep GP.

Usage: others.py DATA PREDICTIONS OUTPUT [METHOD ...]. DATA is fashion_vae.parquet; the test rows are those of PREDICTIONS, a
file of the predictions table. Every finished method is added to OUTPUT, a JSON file, and not done again as long as this file
and the test rows stay what they are.
"""

import hashlib
import json
import os
import pathlib
import sys
import time

import numpy as np
import pyarrow.parquet as pq

THREADS = os.cpu_count()
SEED = 2505


def split(data, predictions):
    """Features on one common scale and labels, for training and for testing."""
    table = pq.read_table(data)
    names = [name for name in table.column_names if name.startswith("f")]
    x = np.column_stack([table[name].to_numpy() for name in names]).astype(np.float64)
    y = table["label"].to_numpy().astype(np.float64)
    tested = np.unique(pq.read_table(predictions, columns=["row"])["row"].to_numpy())
    test = np.zeros(len(y), dtype=bool)
    test[tested] = True
    x -= x[~test].mean(0)
    x /= x[~test].std()
    return x[~test], y[~test], x[test], y[test]


def neighbours(x, y, x_test):
    from sklearn.neighbors import KNeighborsRegressor

    return KNeighborsRegressor(10, n_jobs=THREADS).fit(x, y).predict(x_test)


def boosting(x, y, x_test):
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=1000, random_state=SEED).fit(x, y).predict(x_test)


def variational(x, y, x_test, build, epochs, rate):
    """Stochastic variational training with GPyTorch, in batches of 1024 rows; the rate falls to a tenth for the last quarter."""
    import gpytorch
    import torch

    torch.manual_seed(SEED)
    torch.set_num_threads(THREADS)
    shift, scale = y.mean(), y.std()
    rows = torch.tensor(x, dtype=torch.float32)
    targets = torch.tensor((y - shift) / scale, dtype=torch.float32)
    model, likelihood, loss = build(rows, len(y))
    model.train()
    likelihood.train()
    optimiser = torch.optim.Adam([{"params": model.parameters()}, {"params": likelihood.parameters()}], lr=rate)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [epochs * 3 // 4])
    for epoch in range(epochs):
        for batch in torch.randperm(len(y)).split(1024):
            optimiser.zero_grad()
            value = -loss(model(rows[batch]), targets[batch])
            value.backward()
            optimiser.step()
        schedule.step()
        print(f"epoch {epoch + 1} of {epochs}: {value.item():.4f}", file=sys.stderr, flush=True)
    model.eval()
    likelihood.eval()
    means = []
    with torch.no_grad(), gpytorch.settings.num_likelihood_samples(100):
        for batch in torch.tensor(x_test, dtype=torch.float32).split(1000):
            mean = model(batch).mean
            means.append(mean if mean.ndim == 1 else mean.mean(0))
    return torch.cat(means).numpy().astype(np.float64) * scale + shift


def svgp(x, y, x_test):
    import gpytorch
    import torch
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, places):
            strategy = VariationalStrategy(self, places, CholeskyVariationalDistribution(len(places)))
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, rows):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))

    def build(rows, n):
        model = Model(rows[torch.randperm(n)[:500]].clone())
        model.covar_module.base_kernel.lengthscale = 3.0
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        return model, likelihood, gpytorch.mlls.VariationalELBO(likelihood, model, n)

    return variational(x, y, x_test, build, epochs=40, rate=0.01)


def deep(x, y, x_test, width=10, count=200):
    """Two layers, started as Salimbeni and Deisenroth do: the mean of the hidden one is the first principal components, which it
    follows closely at first, and the top layer's inducing points lie where its inputs do."""
    import gpytorch
    import torch
    from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    components = torch.tensor(np.linalg.svd(x[:10_000], full_matrices=False)[2][:width].T.copy(), dtype=torch.float32)

    class Components(gpytorch.means.Mean):
        def forward(self, rows):
            # One batch of rows, or one for every output already.
            means = rows @ components
            return means.mT if rows.ndim == 2 else torch.stack([means[k, :, k] for k in range(width)])

    class Layer(DeepGPLayer):
        def __init__(self, inputs, outputs, places, mean):
            batch = torch.Size([outputs]) if outputs else torch.Size([])
            places = places.expand(*batch, *places.shape).clone()
            distribution = CholeskyVariationalDistribution(count, batch_shape=batch)
            super().__init__(VariationalStrategy(self, places, distribution), inputs, outputs)
            self.mean_module = mean
            kernel = gpytorch.kernels.RBFKernel(batch_shape=batch)
            kernel.lengthscale = 3.0
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=batch)

        def forward(self, rows):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))

    class Model(DeepGP):
        def __init__(self, rows):
            super().__init__()
            chosen = rows[torch.randperm(len(rows))[:count]]
            self.hidden = Layer(rows.shape[1], width, chosen, Components())
            self.top = Layer(width, None, chosen @ components, gpytorch.means.ConstantMean())

        def forward(self, rows):
            return self.top(self.hidden(rows))

    def build(rows, n):
        model = Model(rows)
        # The first call sets the variational distributions to the prior.
        model(rows[:8])
        model.hidden.variational_strategy._variational_distribution.chol_variational_covar.data.mul_(1e-2)
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        elbo = gpytorch.mlls.VariationalELBO(likelihood, model, n)
        return model, likelihood, gpytorch.mlls.DeepApproximateMLL(elbo)

    return variational(x, y, x_test, build, epochs=40, rate=0.01)


METHODS = {
    "10 nearest neighbours": neighbours,
    "gradient boosting": boosting,
    "GPyTorch SVGP, m = 500": svgp,
    "GPyTorch deep GP, m = 200": deep,
}


def main(data, predictions, output, *wanted):
    output = pathlib.Path(output)
    x, y, x_test, y_test = split(data, predictions)
    of = hashlib.sha256(pathlib.Path(__file__).read_bytes() + x_test.tobytes()).hexdigest()[:16]
    done = json.loads(output.read_text()) if output.exists() else {}
    done = {name: at for name, at in done.items() if at["of"] == of}
    for name, method in METHODS.items():
        if name in done or wanted and name not in wanted:
            continue
        wall, processor = time.perf_counter(), time.process_time()
        mean = method(x, y, x_test)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        smse = float(np.mean((mean - y_test) ** 2) / np.var(y_test))
        done[name] = {"smse": smse, "wall_s": wall, "cpu_s": processor, "of": of}
        print(f"{name}: SMSE {smse:.4f}, {wall:.0f} s, {processor:.0f} processor seconds", flush=True)
        output.write_text(json.dumps(done, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Other methods on the split of pipelines/fashion.yaml: nearest neighbours, boosting, GPBoost, GPyTorch's SVGP and deep GP.

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
from functools import partial

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


# A method takes rows and targets, and gives a function of new rows: their means, and their standard deviations if it has any.


def neighbours(x, y, count):
    from sklearn.neighbors import KNeighborsRegressor

    model = KNeighborsRegressor(count, n_jobs=THREADS).fit(x, y)
    return lambda rows: (model.predict(rows), None)


def boosting(x, y):
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(max_iter=1000, random_state=SEED).fit(x, y)
    return lambda rows: (model.predict(rows), None)


def lightgbm(x, y):
    """Rounds are stopped early on a tenth of the training rows, as its manual advises."""
    import lightgbm as lgb

    order = np.random.default_rng(SEED).permutation(len(y))
    held, seen = order[: len(y) // 10], order[len(y) // 10 :]
    model = lgb.LGBMRegressor(
        n_estimators=4000, learning_rate=0.05, num_leaves=63, n_jobs=THREADS, random_state=SEED, verbose=-1
    )
    model.fit(x[seen], y[seen], eval_set=[(x[held], y[held])], callbacks=[lgb.early_stopping(100, verbose=False)])
    return lambda rows: (model.predict(rows), None)


def gpboost(x, y, **approximation):
    import gpboost as gpb

    shift, scale = y.mean(), y.std()
    model = gpb.GPModel(
        gp_coords=x, cov_function="matern", cov_fct_shape=1.5, num_parallel_threads=THREADS, seed=SEED, **approximation
    )
    model.fit(y=(y - shift) / scale, params={"trace": True})

    def predict(rows):
        found = model.predict(gp_coords_pred=rows, predict_var=True)
        return found["mu"] * scale + shift, np.sqrt(found["var"]) * scale

    return predict


def variational(x, y, build, epochs, rate):
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

    def predict(rows):
        means, variances = [], []
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(100):
            for batch in torch.tensor(rows, dtype=torch.float32).split(1000):
                found = likelihood(model(batch))
                mean, variance = found.mean, found.variance
                if mean.ndim == 2:
                    # A mixture over draws of the hidden layer.
                    mean, variance = mean.mean(0), variance.mean(0) + mean.var(0, correction=0)
                means.append(mean)
                variances.append(variance)
        mean, variance = (torch.cat(parts).numpy().astype(np.float64) for parts in (means, variances))
        return mean * scale + shift, np.sqrt(variance) * scale

    return predict


def svgp(x, y):
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

    return variational(x, y, build, epochs=40, rate=0.01)


def deep(x, y, width=10, count=200):
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

    return variational(x, y, build, epochs=40, rate=0.01)


METHODS = {
    "10 nearest neighbours": partial(neighbours, count=10),
    "20 nearest neighbours": partial(neighbours, count=20),
    "gradient boosting": boosting,
    "LightGBM": lightgbm,
    "GPBoost, Vecchia": partial(gpboost, gp_approx="vecchia"),
    "GPBoost, full scale": partial(gpboost, gp_approx="full_scale_vecchia"),
    "GPyTorch SVGP, m = 500": svgp,
    "GPyTorch deep GP, m = 200": deep,
}


def timed(work, *arguments):
    """What it gives, seconds, and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    found = work(*arguments)
    return found, time.perf_counter() - wall, time.process_time() - processor


def main(data, predictions, output, *wanted):
    output = pathlib.Path(output)
    x, y, x_test, y_test = split(data, predictions)
    of = hashlib.sha256(pathlib.Path(__file__).read_bytes() + x_test.tobytes()).hexdigest()[:16]
    done = json.loads(output.read_text()) if output.exists() else {}
    done = {name: at for name, at in done.items() if at["of"] == of}
    for name, method in METHODS.items():
        if name in done or wanted and name not in wanted:
            continue
        predict, *training = timed(method, x, y)
        (mean, std), *prediction = timed(predict, x_test)
        at = {"smse": float(np.mean((mean - y_test) ** 2) / np.var(y_test)), "of": of}
        if std is not None:
            at["nlpd"] = float(np.mean(0.5 * np.log(2 * np.pi * std**2) + (y_test - mean) ** 2 / (2 * std**2)))
        at["wall_s"], at["cpu_s"] = training
        at["prediction_wall_s"], at["prediction_cpu_s"] = prediction
        done[name] = at
        print(f"{name}: {at}", flush=True)
        output.write_text(json.dumps(done, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

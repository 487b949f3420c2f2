"""An estimator of scikit-learn."""

from __future__ import annotations

import json
import pathlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin  # type: ignore[import-untyped, import-not-found, unused-ignore]
from sklearn.utils import check_random_state  # type: ignore[import-untyped, import-not-found, unused-ignore]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped, import-not-found, unused-ignore]

from . import _core
from ._model import Model
from ._run import perform
from ._table import Table

Numbers = npt.NDArray[np.float64]

# What means something in a list of features: patterns and references.
_MEANINGFUL = re.compile(r"[*?\[\]{}!$\\\x00-\x1f]")


def _merge(base: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Options over options; mappings are merged."""
    merged = dict(base)
    for name, value in more.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], value) if both else value
    return merged


class StrideRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc, unused-ignore]
    """Deep Gaussian-process regression (STRIDE) as an estimator of scikit-learn.

    Trains with the stages that a pipeline has: the model, and its predictions, are the same bits as those of a pipeline with
    these options, features and seed. What is None is left to the defaults of the program.

    method: "stride", "deep_gp", "sparse_gp", "gp", or a baseline ("ridge", "knn", "mean").
    kernel: "rbf", "matern12", "matern32", "matern52", "rational_quadratic".
    ard: one correlation length per feature.
    inducing: how many inducing points.
    layers, iterations, particles: layers in all, EM iterations and chains of "stride" and "deep_gp".
    local: whether predictions remember the training rows nearby.
    calibrate: "conformal", "out_of_fold", "none": what intervals are calibrated by.
    options: any further options of the stage `train`, as a mapping: `{"em": {"time_budget": "2m"}}`.
    random_state: a whole number, a `RandomState`, or None for another one each time.
    threads: how many to use; None for as many as there are cores.
    progress: shows a bar while fitting.

    After fitting, `model_` is a `stride_pipe.Model`, and `pipeline_` what was run.
    """

    def __init__(
        self,
        method: str = "stride",
        *,
        kernel: str | None = None,
        ard: bool | None = None,
        inducing: int | None = None,
        layers: int | None = None,
        iterations: int | None = None,
        particles: int | None = None,
        local: bool | None = None,
        calibrate: str | None = None,
        options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 0,
        threads: int | None = None,
        progress: bool = False,
    ) -> None:
        self.method = method
        self.kernel = kernel
        self.ard = ard
        self.inducing = inducing
        self.layers = layers
        self.iterations = iterations
        self.particles = particles
        self.local = local
        self.calibrate = calibrate
        self.options = options
        self.random_state = random_state
        self.threads = threads
        self.progress = progress

    def _train(self) -> dict[str, Any]:
        """The options of the stage `train`."""
        em = {"iterations": self.iterations, "particles": self.particles}
        given = {
            "kernel": self.kernel,
            "ard": self.ard,
            "inducing": None if self.inducing is None else {"count": self.inducing},
            "deep": None if self.layers is None else {"layers": self.layers},
            "em": {name: value for name, value in em.items() if value is not None} or None,
            "local": self.local,
            "calibrate": self.calibrate,
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        return _merge({"input": "all", "method": self.method, **chosen}, self.options or {})

    def fit(self, X: Any, y: Any) -> StrideRegressor:
        """Trains on the rows of X with the targets y."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        if len(set(names)) != X.shape[1] or any(_MEANINGFUL.search(name) or not name.strip() for name in names):
            names = [f"x{column}" for column in range(X.shape[1])]
        target = "y"
        while target in names:
            target += "_"
        pipeline = {
            "version": 1,
            "name": "estimator",
            "seed": _seed(self.random_state),
            "stages": {
                "rows": {"ingest": {"path": "rows.parquet", "features": names, "target": target}},
                "all": {"split": {"input": "rows", "all": {}}},
                "model": {"train": {**self._train(), "publish": "model"}},
            },
        }
        with tempfile.TemporaryDirectory(prefix="stride-pipe-") as place:
            directory = pathlib.Path(place)
            _columns([*names, target], np.column_stack([X, y])).write_parquet(directory / "rows.parquet")
            # JSON is YAML.
            (directory / "estimator.yaml").write_text(json.dumps(pipeline, indent=2), encoding="utf-8")
            words = ["stride-pipe", "run", str(directory / "estimator.yaml")]
            words += [] if self.threads is None else [f"--threads={self.threads}"]
            done = perform(words, self.progress or False, stacklevel=3)
            self.model_ = Model(directory / "model")
            self.metrics_ = {
                name: value
                for name, value, stage in zip(done.metrics["metric"], done.metrics["value"], done.metrics["stage"])
                if stage == "model"
            }
        self.pipeline_ = pipeline
        return self

    def _scores(self, X: Any, **question: Any) -> Table:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        table = Table(_columns(self.model_.features, X))
        return self.model_.predict(table, warn_if=(), threads=self.threads, **question)

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> Numbers: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[Numbers, Numbers]: ...
    @overload
    def predict(self, X: Any, return_std: bool) -> Numbers | tuple[Numbers, Numbers]: ...
    def predict(self, X: Any, return_std: bool = False) -> Numbers | tuple[Numbers, Numbers]:
        """Means of the rows, and with `return_std` the standard deviations of observations."""
        scores = self._scores(X, variance=return_std)
        return (scores["y_mean"], scores["y_std"]) if return_std else scores["y_mean"]

    def predict_quantiles(self, X: Any, quantiles: Sequence[float]) -> Numbers:
        """Quantiles of the rows, one column each, calibrated if the model is."""
        scores = self._scores(X, quantiles=quantiles)
        asked = scores.columns[scores.columns.index("noise_std") + 1 :]
        order = list(dict.fromkeys(float(quantile) for quantile in quantiles))
        columns = dict(zip(order, asked))
        return np.column_stack([scores[columns[float(quantile)]] for quantile in quantiles])

    def sample_y(self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = 0) -> Numbers:
        """Random observations of each row, one column each; rows are drawn independently of each other."""
        return self._scores(X, samples=n_samples, seed=_seed(random_state))["y_samples"]


def _seed(random_state: Any) -> int:
    """A whole number is a seed itself."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _columns(names: Sequence[str], values: Numbers) -> _core.Batches:
    return _core.Batches.from_columns(names, len(values), np.asarray(values, dtype=np.float64).tobytes(order="F"))

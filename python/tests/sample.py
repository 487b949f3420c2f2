"""What people write, for the type checker: `mypy --strict` must know all of it."""

from pathlib import Path
from typing import assert_type

import numpy as np
import numpy.typing as npt
import polars as pl
import stride_pipe as sp

run = sp.run("fashion.yaml", set={"m": 125}, results=Path("results"), threads=2, resume=True, progress=False)
assert_type(run, sp.Run)
assert_type(run.run_id, str)
assert_type(run.report, Path | str | None)
assert_type(run.results, Path | str)
assert_type(run.metrics, sp.Table)
assert_type(run.tables.metrics, pl.LazyFrame)

model = sp.Model("models/energy")
scores = model.predict(pl.DataFrame({"a": [1.0]}), quantiles=[0.05, 0.95], samples=10, seed=1, on_invalid="null", keep=["a"])
assert_type(scores, sp.Table)
assert_type(scores.to_polars(), pl.DataFrame)
assert_type(scores.columns, list[str])
assert_type(model.features, list[str])

assert_type(sp.results("results")["runs"], pl.LazyFrame)
assert_type(sp.__version__, str)

try:
    sp.run("fashion.yaml")
except sp.PipelineError as error:
    assert_type(error.exit_code, int)
    assert_type(error.run, sp.Run | None)
except sp.Interrupted:
    pass

estimator = sp.StrideRegressor(method="gp", options={"em": {"time_budget": "1m"}})
fitted: sp.StrideRegressor = estimator.fit([[1.0]], [2.0])
assert_type(fitted.predict([[1.0]]), npt.NDArray[np.float64])
mean, std = fitted.predict([[1.0]], return_std=True)
assert_type(std, npt.NDArray[np.float64])
assert_type(fitted.sample_y([[1.0]], 3, random_state=None), npt.NDArray[np.float64])

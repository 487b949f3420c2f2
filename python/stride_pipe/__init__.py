"""Deep Gaussian-process regression (STRIDE): pipelines, models and results of stride-pipe.

    import stride_pipe as sp

    sp.run("pipeline.yaml", set={"m": 125})          # a pipeline, with a progress bar
    sp.Model("models/energy").predict(frame)         # scores of a table: polars, pandas, pyarrow, DuckDB
    sp.results("results").metrics                    # result tables as lazy frames of polars
    sp.StrideRegressor().fit(X, y)                   # an estimator of scikit-learn
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _load

_load.load()

from . import _core  # noqa: E402
from ._errors import (  # noqa: E402
    BugError,
    ConditionError,
    DataError,
    Interrupted,
    LockedError,
    MissingInputError,
    PipelineError,
    StageError,
    StrideError,
    StrideWarning,
    UsageError,
    WriteError,
)
from ._model import Model  # noqa: E402
from ._results import Results, results  # noqa: E402
from ._run import Run, run  # noqa: E402
from ._table import Table  # noqa: E402

if TYPE_CHECKING:
    from ._estimator import StrideRegressor as StrideRegressor

__version__: str = _core.__version__

__all__ = [
    "BugError",
    "ConditionError",
    "DataError",
    "Interrupted",
    "LockedError",
    "MissingInputError",
    "Model",
    "PipelineError",
    "Results",
    "Run",
    "StageError",
    "StrideError",
    "StrideRegressor",
    "StrideWarning",
    "Table",
    "UsageError",
    "WriteError",
    "results",
    "run",
]


def __getattr__(name: str) -> Any:
    # scikit-learn takes a second to import, and not everybody needs it.
    if name == "StrideRegressor":
        try:
            from ._estimator import StrideRegressor
        except ModuleNotFoundError as error:
            if error.name in ("sklearn", "numpy"):
                raise ImportError("sp.StrideRegressor needs scikit-learn: pip install scikit-learn") from error
            raise
        return StrideRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""A trained model that scores tables."""

from __future__ import annotations

import json
import operator
import os
import pathlib
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from . import _core
from ._errors import StrideWarning, UsageError
from ._fork import work
from ._table import Table, place


def _names(value: str | Iterable[str] | None) -> list[str] | None:
    return [value] if isinstance(value, str) else None if value is None else list(value)


def _whole(name: str, value: object, least: int, most: int) -> int:
    """A whole number within limits."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise UsageError(f"{name}: write a whole number between {least} and {most} instead of {value!r}")
    return number


class Model:
    """A trained model: a directory that training has published, or a model file.

    >>> model = sp.Model("models/energy")
    >>> model.predict(frame, quantiles=[0.05, 0.95])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._model = _core.Model(os.fspath(path))
        self._meta: dict[str, Any] | None = None

    @classmethod
    def _of(cls, model: _core.Model) -> Model:
        made = cls.__new__(cls)
        made._model, made._meta = model, None
        return made

    @property
    def path(self) -> pathlib.Path | str:
        """Its file; an address such as `s3://bucket/model` is text."""
        return place(self._model.path)

    @property
    def sha256(self) -> str:
        """The hash of the model's file; scores have it in their metadata."""
        return self._model.sha256

    @property
    def meta(self) -> dict[str, Any]:
        """What the file says of the model: features, scaling, options, metrics, training."""
        if self._meta is None:
            self._meta = json.loads(self._model.meta)
        return self._meta

    @property
    def features(self) -> list[str]:
        """The columns that it takes, by name: numbers, text, booleans, timestamps. `meta["feature_names"]` is what becomes of them."""
        return self._model.features

    @property
    def method(self) -> str:
        return str(self.meta["method"])

    def predict(
        self,
        table: object,
        *,
        quantiles: Sequence[float] = (),
        intervals: Sequence[float] = (),
        samples: int = 0,
        seed: int = 0,
        variance: bool = True,
        key: str | None = None,
        keep: str | Iterable[str] = (),
        on_invalid: Literal["error", "null", "skip"] = "error",
        warn_if: str | Iterable[str] | None = None,
        origin: bool = False,
        threads: int | None = None,
    ) -> Table:
        """Scores the rows of anything that speaks the Arrow PyCapsule interface: tables of polars, pandas, pyarrow, DuckDB.

        The columns are found by name; their order does not matter, and there may be others. The scores have `key` (or `row`,
        the row's number), `y_mean`, `y_std` of an observation, `f_std` of the function, `noise_std`, the quantiles, and the
        columns of `keep`. They are the same bits as those of `stride-pipe score`.

        quantiles: 0.05 adds `y_q05`. intervals: 0.9 adds `y_q05` and `y_q95`. Both are calibrated if the model is.
        samples: so many random values of each row, in the column `y_samples`; they follow from `seed` and the row's number.
        variance: False gives means alone, faster.
        on_invalid: what happens to rows with a null, NaN or infinite feature.
        warn_if: conditions such as `variance_ratio > 3` of which a `StrideWarning` is given; [] for none.
        """
        if not hasattr(table, "__arrow_c_stream__") and hasattr(table, "collect"):
            table = table.collect()  # a lazy frame
        question: dict[str, object] = {
            "quantiles": [float(value) for value in quantiles],
            "intervals": [float(value) for value in intervals],
            "samples": _whole("samples", samples, 0, 2**16 - 1),
            "seed": _whole("seed", seed, 0, 2**64 - 1),
            "variance": variance,
            "on_invalid": on_invalid,
            "key": key,
            "keep": _names(keep),
            "warn_if": _names(warn_if),
            "origin": origin,
            "threads": None if threads is None else _whole("threads", threads, 1, 2**16 - 1),
        }
        with work():
            scores, said = self._model.predict(table, question)
        for text in said:
            warnings.warn(text, StrideWarning, stacklevel=2)
        return Table(scores)

    def to_bytes(self) -> bytes:
        """The bytes of its file."""
        return self._model.to_bytes()

    def __getstate__(self) -> tuple[bytes, str]:
        return self.to_bytes(), self.sha256

    def __setstate__(self, state: tuple[bytes, str]) -> None:
        self._model, self._meta = _core.Model.from_bytes(*state), None

    def __repr__(self) -> str:
        return f"stride_pipe.Model({self.method}, features: {', '.join(self.features)})"

"""The tables of a results directory as lazy frames."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _core
from ._table import Table, needed

if TYPE_CHECKING:
    import polars


@functools.cache
def _schemas() -> dict[str, Table]:
    return {name: Table(batches) for name, batches in _core.tables()}


class Results:
    """The tables of a results directory: `results.metrics`, or `results["metrics"]`, is a lazy frame of polars.

    Every column of every file is there, null where a file does not have it; `pipeline` and `run_date` too. A table without
    files has no rows.
    """

    def __init__(self, directory: str | os.PathLike[str], run_id: str | None = None) -> None:
        self.directory = pathlib.Path(directory)
        self.run_id = run_id

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return list(_schemas())

    def files(self, table: str) -> list[pathlib.Path]:
        """The files of a table, oldest run first."""
        if table not in _schemas():
            raise KeyError(f"there is no table {table}; there are {', '.join(self.tables)}")
        name = "*" if self.run_id is None else self.run_id
        return sorted(self.directory.glob(f"{table}/pipeline=*/run_date=*/{name}.parquet"), key=lambda path: path.name)

    def __getitem__(self, table: str) -> polars.LazyFrame:
        pl: Any = needed("polars", "sp.results")
        keys = {"pipeline": pl.String, "run_date": pl.Date}
        files = self.files(table)
        rows = pl.DataFrame(_schemas()[table]).lazy()
        empty: polars.LazyFrame = rows.with_columns(*(pl.lit(None, kind).alias(name) for name, kind in keys.items()))
        if not files:
            return empty
        schema = dict(empty.collect_schema())
        for file in files:
            # Quantiles that were asked for, and columns that were kept.
            for name, kind in pl.read_parquet_schema(file).items():
                schema.setdefault(name, kind)
        schema = {**{name: kind for name, kind in schema.items() if name not in keys}, **keys}
        scan: polars.LazyFrame = pl.scan_parquet(
            files, schema=schema, hive_partitioning=True, hive_schema=keys, missing_columns="insert", extra_columns="ignore"
        )
        return scan

    def __getattr__(self, name: str) -> polars.LazyFrame:
        if name.startswith("_") or name not in _schemas():
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}; tables: {', '.join(_schemas())}")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {len(self.files(name))}" for name in self.tables)
        return f"stride_pipe.Results({str(self.directory)!r}; files of {counts})"


def results(directory: str | os.PathLike[str] = "results") -> Results:
    """The tables of a results directory, as lazy frames of polars.

    >>> sp.results("results").metrics.filter(pl.col("metric") == "smse").collect()
    """
    needed("polars", "sp.results")
    if not pathlib.Path(directory).is_dir():
        from ._errors import MissingInputError

        raise MissingInputError(f"{os.fspath(directory)}: there is no results directory here: run a pipeline first, or check the path")
    return Results(directory)

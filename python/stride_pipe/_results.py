"""The tables of a results directory as lazy frames."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _core
from ._errors import MissingInputError, UsageError
from ._table import Table, needed

if TYPE_CHECKING:
    import polars


@functools.cache
def _schemas() -> dict[str, Table]:
    return {name: Table(batches) for name, batches in _core.tables()}


def _check_local(directory: str | os.PathLike[str]) -> None:
    if "://" in os.fspath(directory):
        raise UsageError(
            f"{os.fspath(directory)}: sp.results reads directories of this machine; copy the tables here, or read them with "
            "polars.scan_parquet, which takes such addresses"
        )


def _check_there(directory: pathlib.Path) -> None:
    if not directory.is_dir():
        raise MissingInputError(f"{directory}: there is no results directory here: run a pipeline first, or check the path")


def _by_types(files: list[pathlib.Path], known: set[str]) -> list[tuple[dict[str, Any], list[pathlib.Path]]]:
    """Files next to each other whose columns beyond those known have no two types, with these columns."""
    pl: Any = needed("polars", "sp.results")
    groups: list[tuple[dict[str, Any], list[pathlib.Path]]] = []
    for file in files:
        # Opened here: as a name, it would be a pattern.
        with file.open("rb") as opened:
            columns = pl.read_parquet_schema(opened)
        further = {name: kind for name, kind in columns.items() if name not in known}
        if groups and all(groups[-1][0].get(name, kind) == kind for name, kind in further.items()):
            groups[-1][0].update(further)
            groups[-1][1].append(file)
        else:
            groups.append((further, [file]))
    return groups


def _common(one: Any, other: Any) -> Any:
    """A type for values of both."""
    pl: Any = needed("polars", "sp.results")
    return pl.Float64 if one.is_numeric() and other.is_numeric() and (one.is_float() or other.is_float()) else pl.String


class Results:
    """The tables of a results directory: `results.metrics`, or `results["metrics"]`, is a lazy frame of polars.

    Every column of every file is there, null where a file does not have it; `pipeline` and `run_date` too. A table without
    files has no rows.
    """

    def __init__(self, directory: str | os.PathLike[str], run_id: str | None = None) -> None:
        _check_local(directory)
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
        _check_there(self.directory)
        name = "*" if self.run_id is None else self.run_id
        found = self.directory.glob(f"{table}/pipeline=*/run_date=*/{name}.parquet")
        # Names that begin so are of files that are being written.
        return sorted((path for path in found if not path.name.startswith(("_", "."))), key=lambda path: path.name)

    def __getitem__(self, table: str) -> polars.LazyFrame:
        pl: Any = needed("polars", "sp.results")
        keys = {"pipeline": pl.String, "run_date": pl.Date}
        files = self.files(table)
        rows = pl.DataFrame(_schemas()[table]).lazy()
        empty: polars.LazyFrame = rows.with_columns(*(pl.lit(None, kind).alias(name) for name, kind in keys.items()))
        if not files:
            return empty
        schema, alike = dict(empty.collect_schema()), _by_types(files, set(empty.collect_schema()))
        for further, _ in alike:
            # Quantiles that were asked for, and columns that were kept; of one name, they may be of several types.
            for name, kind in further.items():
                schema[name] = kind if schema.get(name, kind) == kind else _common(schema[name], kind)
        schema = {**{name: kind for name, kind in schema.items() if name not in keys}, **keys}
        scans: list[polars.LazyFrame] = []
        for further, some in alike:
            own = {name: further.get(name, kind) for name, kind in schema.items()}
            scan: polars.LazyFrame = pl.scan_parquet(
                some, schema=own, glob=False, hive_partitioning=True, hive_schema=keys, missing_columns="insert", extra_columns="ignore"
            )
            changed = [pl.col(name).cast(kind) for name, kind in schema.items() if own[name] != kind]
            scans.append(scan.with_columns(changed) if changed else scan)
        together: polars.LazyFrame = scans[0] if len(scans) == 1 else pl.concat(scans)
        return together

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
    found = Results(directory)
    _check_there(found.directory)
    return found

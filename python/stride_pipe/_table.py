"""A table of results in memory, which other libraries take without a copy."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    import polars
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]


def needed(name: str, what: str) -> Any:
    """A package that is not required by this one."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{what} needs {name}: pip install {name}") from error


def place(text: str) -> pathlib.Path | str:
    """A path of this machine; the address of something in an object store stays text, which a path would change."""
    return text if "://" in text else pathlib.Path(text)


class Table:
    """Columns of equal length. Speaks the Arrow PyCapsule interface: `polars.DataFrame(table)`, `pyarrow.table(table)` and
    DuckDB take it as it is. `table["y_mean"]` is a NumPy array."""

    __slots__ = ("_batches",)

    def __init__(self, table: object) -> None:
        """A table of anything that speaks the Arrow PyCapsule interface."""
        self._batches = table if isinstance(table, _core.Batches) else _core.Batches.from_arrow(table)

    @property
    def columns(self) -> list[str]:
        return self._batches.column_names

    @property
    def metadata(self) -> dict[str, str]:
        """What is said of the table as a whole, such as the model that its scores come from."""
        return self._batches.metadata

    def __len__(self) -> int:
        return self._batches.num_rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A column as a NumPy array; null is NaN in numbers with a point, and None elsewhere. `y_samples` has a row of values
        for each row."""
        numpy: Any = needed("numpy", "a column as an array")
        column = self._batches.column(name)
        if isinstance(column, tuple):
            data, width = column
            # A copy: bytes cannot be written to, and the array belongs to whoever asked.
            values: np.ndarray[Any, Any] = numpy.frombuffer(data, dtype=numpy.float64).copy()
            return values.reshape(-1, width) if width else values
        kinds = {type(value) for value in column}
        array: npt.NDArray[Any] = numpy.array(column, dtype=kinds.pop() if kinds in ({int}, {bool}) else object)
        return array

    def to_pandas(self) -> pandas.DataFrame:
        pandas: Any = needed("pandas", "to_pandas")
        several = {name: self[name] for name in self.columns}
        return pandas.DataFrame({name: list(column) if column.ndim > 1 else column for name, column in several.items()})

    def to_polars(self) -> polars.DataFrame:
        made: polars.DataFrame = needed("polars", "to_polars").DataFrame(self)
        return made

    def to_pyarrow(self) -> pyarrow.Table:
        pyarrow: Any = needed("pyarrow", "to_pyarrow")
        return pyarrow.table(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._batches.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._batches.__arrow_c_schema__()

    def __reduce__(self) -> tuple[Any, ...]:
        pyarrow: Any = needed("pyarrow", "pickling a table")
        return (Table, (pyarrow.table(self),))

    def __repr__(self) -> str:
        return f"stride_pipe.Table({len(self)} rows: {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        from html import escape

        shown = min(len(self), 10)
        cells = [[f"{value:.6g}" if isinstance(value, float) else str(value) for value in self._first(name, shown)] for name in self]
        head = "".join(f"<th>{escape(name)}</th>" for name in self)
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in zip(*cells))
        more = f"<p>{len(self)} rows × {len(self.columns)} columns</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"

    def _first(self, name: str, rows: int) -> list[object]:
        values: list[object] = self[name][:rows].tolist()
        return [f"[{len(value)} values]" if isinstance(value, list) else value for value in values]

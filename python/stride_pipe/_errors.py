"""Exceptions: one class for each exit code of the command, with the text that the command would print."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._run import Run


class StrideError(Exception):
    """Something went wrong. `exit_code` is what the command would end with, and `run` the run, if it left results."""

    exit_code: int = 1
    run: Run | None = None


class StageError(StrideError):
    """A stage failed: what it computes could not be computed."""


class UsageError(StrideError, ValueError):
    """An argument is wrong."""

    exit_code = 2


class ConditionError(StrideError):
    """A `fail_if` condition holds. All results are written; `run` has them."""

    exit_code = 4


class DataError(StrideError, ValueError):
    """Input data, or a model file, are invalid."""

    exit_code = 65


class MissingInputError(StrideError, FileNotFoundError):
    """An input is missing."""

    exit_code = 66


class BugError(StrideError, RuntimeError):
    """A mistake of stride-pipe; please report it."""

    exit_code = 70


class WriteError(StrideError, OSError):
    """Something cannot be written."""

    exit_code = 73


class LockedError(StrideError):
    """Another run holds the lock; try later."""

    exit_code = 75


class PipelineError(StrideError, ValueError):
    """The pipeline file is invalid; the text has every problem of it with its place."""

    exit_code = 78


class Interrupted(KeyboardInterrupt):
    """Ctrl-C. Work up to the last checkpoint is kept; the text says how to go on."""

    exit_code = 130


class StrideWarning(UserWarning):
    """What the command would warn of."""


_CLASSES = (
    StageError,
    UsageError,
    ConditionError,
    DataError,
    MissingInputError,
    BugError,
    WriteError,
    LockedError,
    PipelineError,
    Interrupted,
)
# As people know them, in tracebacks and pickles.
for _kind in (StrideError, StrideWarning, *_CLASSES):
    _kind.__module__ = "stride_pipe"
_BY_CODE: dict[int, type[BaseException]] = {kind.exit_code: kind for kind in _CLASSES}


def of(code: int, text: str) -> BaseException:
    """The exception of a failure. Who speaks is said by its class."""
    text = text.removeprefix("stride-pipe: ")
    kind = _BY_CODE.get(code)
    if kind is not None:
        return kind(text)
    error = StrideError(text)
    error.exit_code = code
    return error

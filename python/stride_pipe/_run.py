"""Runs pipelines."""

from __future__ import annotations

import datetime
import json
import logging
import os
import pathlib
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from . import _core
from ._errors import StrideWarning
from ._fork import work
from ._progress import progress as shown
from ._results import Results
from ._table import Table, place

_log = logging.getLogger("stride_pipe")
# Without it, warnings would be printed where nobody has set logging up.
_log.addHandler(logging.NullHandler())
# Words that YAML reads as themselves.
_PLAIN = re.compile(r"[A-Za-z_/.][A-Za-z0-9_/.@-]*")
_NOT_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", ".nan", ".inf"}


@dataclass(frozen=True)
class Run:
    """A run that is done."""

    run_id: str
    pipeline: str
    results: pathlib.Path | str
    """The results directory; an address such as `s3://bucket/results` is text."""
    done: int
    """How many pieces of work were done."""
    cached: int
    """How many were taken from the cache."""
    report: pathlib.Path | str | None
    """The HTML report, if the pipeline has one."""
    metrics: Table = field(repr=False)
    """The rows of this run in the table `metrics`."""
    summary: str = field(repr=False)
    """What the command would print."""

    @property
    def tables(self) -> Results:
        """All tables of this run, as lazy frames of polars."""
        return Results(self.results, self.run_id)

    def __str__(self) -> str:
        return self.summary

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.summary)}</pre>"


def _value(value: object) -> str:
    """A value as `--set` takes it: YAML, which JSON is."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _NOT_WORDS
        return value if plain or value.startswith("${") else json.dumps(value, ensure_ascii=False)
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    item = getattr(value, "item", None)
    return json.dumps(item() if callable(item) else value, ensure_ascii=False)


def _sets(changes: Mapping[str, object] | Iterable[str] | None) -> list[str]:
    if changes is None:
        return []
    if isinstance(changes, Mapping):
        return [f"{name}={_value(value)}" for name, value in changes.items()]
    return [changes] if isinstance(changes, str) else list(changes)


def _seconds(time: str | float | datetime.timedelta) -> str:
    if isinstance(time, datetime.timedelta):
        time = time.total_seconds()
    return time if isinstance(time, str) else f"{int(time + 0.999)}s"


def run(
    file: str | os.PathLike[str],
    *,
    set: Mapping[str, object] | Iterable[str] | None = None,
    results: str | os.PathLike[str] | None = None,
    force: bool = False,
    from_stage: str | None = None,
    to: str | None = None,
    only: str | None = None,
    resume: bool | str = False,
    shard: str | None = None,
    keep_going: bool = False,
    lock_timeout: str | float | datetime.timedelta | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Run:
    """Runs a pipeline as `stride-pipe run` does, with the same results.

    >>> run = sp.run("fashion.yaml", set={"m": 125})
    >>> run.metrics.to_pandas()

    set: changes parameters and options, as `{"m": 125, "stages.model.train.kernel": "matern32"}`.
    results: writes results here instead of where the pipeline says.
    force, from_stage, to, only: which stages are done, even if nothing changed.
    resume: True, or the name of a run, goes on with one that was interrupted or failed.
    shard: a share of the tasks, such as "0/4".
    keep_going: when a case fails, the others are finished; then `StageError` is raised, whose `run` is the run.
    lock_timeout: how long to wait for another run of this pipeline, in seconds or as "10m".
    progress: False shows no bar. Log lines go to the logger `stride_pipe`, warnings are of the class `StrideWarning`.

    Ctrl-C ends the work at the next safe place and raises `Interrupted`; what is done is kept.
    """
    words = ["stride-pipe", "run", os.fspath(file)]
    for change in _sets(set):
        words += ["--set", change]
    options = {
        "--results": None if results is None else os.fspath(results),
        "--from": from_stage,
        "--to": to,
        "--only": only,
        "--shard": shard,
        "--lock-timeout": None if lock_timeout is None else _seconds(lock_timeout),
        "--threads": None if threads is None else str(threads),
    }
    # With `=`, so that nothing that a value begins with is taken for an option.
    words += [f"{name}={value}" for name, value in options.items() if value is not None]
    words += ["--force"] * force + ["--keep-going"] * keep_going
    if resume:
        words += ["--resume" if resume is True else f"--resume={resume}"]

    return perform(words, progress, stacklevel=3)


def perform(words: list[str], progress: bool | None, stacklevel: int) -> Run:
    """Runs the command with these words; warnings are shown as those of the caller so many calls above."""
    bar = shown(progress)
    said: list[str] = []

    def look(share: float, left: float | None, task: str, text: str, lines: list[tuple[bool, str]]) -> None:
        for warning, line in lines:
            _log.log(logging.WARNING if warning else logging.INFO, line)
            if warning:
                said.append(line)
        bar.update(share, left, task, text)

    outcome = "stride-pipe: ended early"
    try:
        with work():
            found = _core.run(words, look)
        outcome = f"run {found['run_id']}: {found['done']} task(s) done, {found['cached']} taken from the cache"
    finally:
        bar.close(outcome)
        for line in said:
            warnings.warn(line, StrideWarning, stacklevel=stacklevel)
    error = found.pop("error")
    places = {name: found[name] and place(found[name]) for name in ("results", "report")}
    made = Run(**{**found, **places, "metrics": Table(found["metrics"])})
    if error is not None:
        error.run = made
        raise error
    return made

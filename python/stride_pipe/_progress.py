"""Shows how far a run is: a bar that renews itself in a notebook or on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import html
import importlib
import shutil
import sys
import time
from typing import Any

# A bar is drawn this often; where there is none, long work says this often how far it is. In seconds.
_BETWEEN_BARS = 0.2
_BETWEEN_LINES = 10.0


def _duration(seconds: float) -> str:
    whole = int(seconds + 0.5)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Nothing is shown. The others differ in how."""

    between = float("inf")

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.last = self.started

    def update(self, share: float, left: float | None, task: str, text: str) -> None:
        now = time.monotonic()
        if now - self.last < self.between:
            return
        self.last = now
        rest = "" if left is None else f", {_duration(left)} left"
        times = f"{_duration(now - self.started)}{rest}"
        self.show(share, times, f"{task}  {text}".rstrip())

    def show(self, share: float, times: str, text: str) -> None:
        pass

    def close(self, outcome: str) -> None:
        """The end; `outcome` is one line."""


class LineProgress(Progress):
    """Lines in a log."""

    between = _BETWEEN_LINES

    def show(self, share: float, times: str, text: str) -> None:
        print(f"stride-pipe: {100 * share:3.0f} %, {times}: {text}", file=sys.stderr, flush=True)


class TerminalProgress(Progress):
    """One line of a terminal, which is cleared in the end."""

    between = _BETWEEN_BARS

    def show(self, share: float, times: str, text: str) -> None:
        filled = int(20 * share)
        line = f"{'█' * filled}{'░' * (20 - filled)} {100 * share:3.0f} % {times} {text}"
        width = max(shutil.get_terminal_size().columns - 1, 20)
        sys.stderr.write("\r\x1b[2K" + "".join(c if c.isprintable() else "�" for c in line)[:width])
        sys.stderr.flush()

    def close(self, outcome: str) -> None:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


class NotebookProgress(Progress):
    """An output cell that renews itself. Without widgets, so that it needs no extension and survives in the saved notebook."""

    between = _BETWEEN_BARS

    def __init__(self) -> None:
        super().__init__()
        self.handle: Any = None

    def show(self, share: float, times: str, text: str) -> None:
        bar = f'<progress max="1" value="{share:.4f}" style="width: 16em; vertical-align: middle"></progress>'
        page = f"{bar} {100 * share:.0f} % <small>{html.escape(times)}<br>{html.escape(text)}</small>"
        self.put({"text/plain": f"{100 * share:3.0f} % {times} {text}", "text/html": page})

    def close(self, outcome: str) -> None:
        if self.handle is not None:
            self.put({"text/plain": outcome, "text/html": f"<small>{html.escape(outcome)}</small>"})

    def put(self, bundle: dict[str, str]) -> None:
        display: Any = importlib.import_module("IPython.display").display
        if self.handle is None:
            self.handle = display(bundle, raw=True, display_id=True)
        else:
            self.handle.update(bundle, raw=True)


def in_notebook() -> bool:
    """Whether output goes to a notebook."""
    shell = sys.modules.get("IPython")
    current = shell.get_ipython() if shell is not None else None
    return current is not None and hasattr(current, "kernel")


def progress(wanted: bool | None) -> Progress:
    """What fits the place, or nothing."""
    if wanted is False:
        return Progress()
    if in_notebook():
        return NotebookProgress()
    if sys.stderr is not None and sys.stderr.isatty():
        return TerminalProgress()
    return LineProgress() if sys.stderr is not None else Progress()

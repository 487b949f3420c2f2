"""A process that was forked in the middle of work has its locks, but none of the threads that would open them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ._errors import StrideError

_under_way: set[object] = set()
_parted = False


def _in_child() -> None:
    global _parted
    _parted = _parted or bool(_under_way)
    _under_way.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@contextlib.contextmanager
def work() -> Iterator[None]:
    """Around what computes: refused where it could wait for ever."""
    if _parted:
        raise StrideError(
            "this process was forked while its parent was computing with stride_pipe, and might wait for ever; fork before or after, "
            "or start processes with `spawn`: multiprocessing.get_context('spawn')"
        )
    this = object()
    _under_way.add(this)
    try:
        yield
    finally:
        _under_way.discard(this)

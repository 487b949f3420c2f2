"""The command `stride-pipe`: the same library, in the process of Python."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Does what the program `stride-pipe` does with the words of this process; returns the exit code."""
    # Signals are the command's own business: Python's handler would raise an exception after the work is done.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from . import _core

    arguments = [os.fsencode(word) for word in sys.argv[1:]]
    return _core.main(["stride-pipe", *map(os.fsdecode, arguments)])


if __name__ == "__main__":
    sys.exit(main())

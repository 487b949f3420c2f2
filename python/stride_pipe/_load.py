"""Loads the part that is written in Rust, with OpenBLAS running the inner loops that belong to the processor.

OpenBLAS chooses its loops when it is loaded. A processor that is newer than the library is unknown to it and gets the loops
of 2004; the program `stride-pipe` then starts itself anew with a word about the processor. A module cannot start Python
anew. It loads the library, looks, and where the choice was poor unloads it and loads it again with that word. So the module
computes with the same loops as the program, which means the same bits.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import types

_VARIABLE = "OPENBLAS_CORETYPE"


def _file() -> pathlib.Path:
    here = pathlib.Path(__file__).parent
    for ending in importlib.machinery.EXTENSION_SUFFIXES:
        if (here / f"_core{ending}").exists():
            return here / f"_core{ending}"
    raise ImportError(f"{here} has no _core module: `maturin develop`, or `make python`, makes it")


def _better(file: pathlib.Path) -> str | None:
    """The name of better loops than those that OpenBLAS chooses by itself, if there are any: then it is unloaded again."""
    import _ctypes

    library = ctypes.PyDLL(str(file), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    name = _wanted(library)
    if name:
        handle = library._handle
        del library
        _ctypes.dlclose(handle)
    return name


def _wanted(library: ctypes.CDLL) -> str | None:
    try:
        corename = library.openblas_get_corename
    except AttributeError:
        return None
    corename.restype = ctypes.c_char_p
    if corename() != b"Prescott":
        return None
    answer = library.stride_pipe_better_kernels
    answer.restype = ctypes.c_char_p
    name: bytes | None = answer()
    return name.decode() if name else None


def load() -> types.ModuleType:
    """The module `stride_pipe._core`."""
    name = "stride_pipe._core"
    if name in sys.modules:
        return sys.modules[name]
    file = _file()
    word = None
    if os.name == "posix" and _VARIABLE not in os.environ:
        word = _better(file)
    if word:
        os.environ[_VARIABLE] = word
    try:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        # The word is for this library alone; NumPy's own OpenBLAS may know better.
        if word:
            del os.environ[_VARIABLE]
    sys.modules[name] = module
    if "stride_pipe" in sys.modules:
        setattr(sys.modules["stride_pipe"], "_core", module)
    return module

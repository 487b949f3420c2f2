"""Types: the package passes the strict checks, and a user's program does."""

import os
import pathlib
import subprocess
import sys

import stride_pipe

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(stride_pipe.__file__).parent


def mypy(*words, tmp_path):
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--python-version", "3.11", *words]
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)


def test_strict(tmp_path):
    assert (PACKAGE / "py.typed").exists()
    done = mypy("-p", "stride_pipe", tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    done = mypy(str(HERE / "sample.py"), tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mistakes_are_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import stride_pipe as sp\nsp.run(3)\nsp.Model('m').predict([], sampels=3)\nsp.Model('m').predict([], on_invalid='x')\n")
    done = mypy(str(wrong), tmp_path=tmp_path)
    assert done.stdout.count("error:") == 3, done.stdout


def test_the_stub_has_what_the_module_has(tmp_path):
    """`_core.pyi` is written by hand; the check compares names, arguments and their defaults with the module."""
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-m", "mypy.stubtest", "stride_pipe._core"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

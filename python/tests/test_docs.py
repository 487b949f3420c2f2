"""The Python of the manual's page runs."""

import os
import re
import shutil

import stride_pipe as sp
from conftest import REPOSITORY


def test_the_page(tmp_path, capfd, recwarn):
    page = (REPOSITORY / "docs/python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 5
    for name in ["data/uci/energy.parquet", "pipelines/scoring/train.yaml", "pipelines/scoring/score.yaml"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        names = {}
        for block in blocks:
            exec(block, names)
    finally:
        os.chdir(before)
    out, err = capfd.readouterr()
    for part in ["task(s) done", "sparse_gp", "(768, 100)", "succeeded", "inbox/date=2026-11-16"]:
        assert part in out, out
    # Where a machine is slow, lines say how far it is.
    assert all(line.startswith("stride-pipe: ") for line in err.splitlines()), err
    assert all(warning.category is sp.StrideWarning for warning in recwarn), [str(warning) for warning in recwarn]


def test_every_exception_is_in_the_table():
    page = (REPOSITORY / "docs/python.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|(?: `(\w+)`)? ?\|$", page, re.MULTILINE)
    assert {name: int(code) for name, code, _ in rows} == {kind.__name__: kind.exit_code for kind in sp._errors._CLASSES}
    import builtins

    for name, _, also in rows:
        assert not also or issubclass(getattr(sp, name), getattr(builtins, also))


def test_licences_go_into_the_wheel():
    """`.ci/wheel_contents.py` looks into the wheel that is built; here is what it is built from."""
    import tomllib

    package = REPOSITORY / "python"
    patterns = tomllib.loads((package / "pyproject.toml").read_text())["project"]["license-files"]
    found = {path.name: path.read_text() for pattern in patterns for path in package.glob(pattern)}
    for name in ["LICENSE-MIT", "LICENSE-APACHE"]:
        assert found[name] == (REPOSITORY / name).read_text()
    for name, part in [("OpenBLAS.txt", "Redistributions in binary form"), ("GCC-runtime.txt", "GCC RUNTIME LIBRARY EXCEPTION"),
                       ("GPL-3.txt", "GNU GENERAL PUBLIC LICENSE"), ("LGPL-2.1.txt", "GNU LESSER GENERAL PUBLIC LICENSE")]:
        assert part in found[name], name

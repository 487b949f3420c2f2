"""What the tests have in common: the program to compare with, and a small directory in which it has trained a model."""

import os
import pathlib
import shutil
import subprocess

import pyarrow.parquet as pq
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

TRAIN = """\
version: 1
name: teach
seed: 11
stages:
  rows:
    ingest: { path: rows.parquet, key: row_id, features: [relative_compactness, "*_area", overall_height], target: heating_load }
  all:
    split: { input: rows, all: {} }
  model:
    train: { input: all, method: sparse_gp, inducing: { count: 20 }, publish: models/energy }
"""

SMALL = """\
version: 1
name: small
seed: 7
params: { m: 10 }
stages:
  rows:
    ingest: { path: rows.parquet, key: row_id, features: [relative_compactness, "*_area", overall_height, orientation, "glazing_*"], target: heating_load }
  folds:
    split: { input: rows, kfold: { folds: 3 } }
  model:
    train: { input: folds, method: sparse_gp, inducing: { count: "${params.m}" } }
  predictions:
    predict: { model: model, input: folds, intervals: [0.9] }
  metrics:
    evaluate: { input: predictions }
"""


class Program:
    """The program, to be run in a directory."""

    def __init__(self, path, directory):
        self.path, self.directory = path, directory

    def __call__(self, *words, code=0):
        done = subprocess.run([self.path, *words], cwd=self.directory, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done


@pytest.fixture(scope="session")
def program_path():
    path = os.environ.get("STRIDE_PIPE_PROGRAM") or shutil.which("stride-pipe")
    assert path, "STRIDE_PIPE_PROGRAM is the program to compare with"
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with rows and pipelines, in which the tests run."""
    directory = tmp_path_factory.mktemp("place")
    energy = pq.read_table(REPOSITORY / "data/uci/energy.parquet")
    pq.write_table(energy.slice(0, 240), directory / "rows.parquet")
    (directory / "teach.yaml").write_text(TRAIN)
    (directory / "small.yaml").write_text(SMALL)
    before = os.getcwd()
    os.chdir(directory)
    yield directory
    os.chdir(before)


@pytest.fixture(scope="module")
def program(program_path, place):
    return Program(program_path, place)


@pytest.fixture(scope="module")
def model(program):
    """A model that the program has trained."""
    import stride_pipe as sp

    program("run", "teach.yaml", "--quiet")
    return sp.Model("models/energy")


def said(done):
    """What the program said when it failed, without its name in front."""
    return done.stderr.strip().removeprefix("stride-pipe: ")

"""Runs from Python: the results of the program, its messages as exceptions, interruptions, what is shown."""

import datetime
import logging
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import polars as pl
import pytest
import stride_pipe as sp
from conftest import said

LONG = """\
version: 1
name: long
stages:
  rows:
    ingest: { path: rows.parquet, key: row_id, features: [relative_compactness, wall_area, overall_height, orientation, "glazing_*"], target: heating_load }
  part:
    split: { input: rows, holdout: { test_fraction: 0.2 } }
  model:
    train: { input: part, method: stride, inducing: { count: 10 }, em: { iterations: 8, particles: 2 } }
  predictions:
    predict: { model: model, input: part }
  metrics:
    evaluate: { input: predictions }
"""

# What differs from run to run.
OWN = ["run_id", "run_date"]


def python(script, **options):
    """Another Python that runs this."""
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], text=True, **options)


def test_same_results_as_the_program(program):
    program("run", "small.yaml", "--quiet", "--results", "theirs", "--set", "m=12")
    run = sp.run("small.yaml", set={"m": 12}, results="ours")
    theirs, ours = sp.results("theirs"), sp.results("ours")
    for table in ["predictions", "metrics"]:
        left, right = (results[table].drop(OWN).collect() for results in (theirs, ours))
        assert len(left) > 0 and left.equals(right), table
    assert run.pipeline == "small" and run.run_id in ours.runs.collect()["run_id"].to_list()
    assert (run.done, run.cached) == (9, 0)
    assert run.metrics.to_polars().equals(ours.metrics.drop("pipeline", "run_date").collect())
    assert run.tables.metrics.collect().equals(ours.metrics.collect())
    assert f"run {run.run_id}: 9 task(s) done" in str(run) and "<pre>" in run._repr_html_()
    # The record says how to do the same with the command.
    command = "stride-pipe run small.yaml --set m=12 --results=ours"
    assert ours.runs.collect()["command"].to_list() == [command]
    again = program(*command.split()[1:])
    assert "0 task(s) done, 9 taken from the cache" in again.stdout
    assert sp.run("small.yaml", set={"m": 12}, results="ours").cached == 9
    assert sp.run("small.yaml", set=["m=12"], results="ours", only="model", threads=1).done == 3


def test_values_are_set_as_they_are(place):
    values = {"a": "5", "b": 5, "c": "x: y # z", "f": True, "g": "true", "i": "p/q.r", "t": datetime.date(2026, 11, 18)}
    (place / "values.yaml").write_text(
        "version: 1\nname: values\nparams: { a: 0, b: 0, c: 0, f: 0, g: 0, i: 0, t: 0 }\nstages:\n  rows:\n    "
        "ingest: { path: rows.parquet, features: [wall_area] }\n"
    )
    run = sp.run("values.yaml", set=values, results="values")
    found = run.tables.params.select("name", "value", "origin").sort("name").collect().rows()
    expected = ["5", "5", "x: y # z", "true", "true", "p/q.r", "2026-11-18"]
    assert found == [(name, value, "set") for name, value in zip("abcfgit", expected)]
    # A text that looks like a number stays a text.
    with pytest.raises(sp.PipelineError, match='"3"'):
        sp.run("small.yaml", set={"stages.folds.split.kfold.folds": "3"})
    run = sp.run("small.yaml", set={"stages.predictions.predict.intervals": [0.5, 0.8]}, results="values")
    assert {"y_q25", "y_q10"} <= set(run.tables.predictions.collect_schema())


@pytest.mark.parametrize(
    ("words", "options", "kind", "code"),
    [
        (["bad.yaml"], {}, sp.PipelineError, 78),
        (["none.yaml"], {}, sp.MissingInputError, 66),
        (["small.yaml", "--set", "q=1"], {"set": {"q": 1}}, sp.PipelineError, 78),
        (["small.yaml", "--from=modle"], {"from_stage": "modle"}, sp.UsageError, 2),
        (["small.yaml", "--threads=0"], {"threads": 0}, sp.UsageError, 2),
        (["small.yaml", "--set", "stages.folds.split.kfold.folds=999"], {"set": {"stages.folds.split.kfold.folds": 999}}, sp.DataError, 65),
        (["small.yaml", "--results=rows.parquet"], {"results": "rows.parquet"}, sp.WriteError, 73),
    ],
)
def test_messages_are_those_of_the_program(program, words, options, kind, code):
    (program.directory / "bad.yaml").write_text("version: 1\nname: bad\nstages:\n  rows:\n    ingst: { path: x }\n")
    done = program("run", "--quiet", *words, code=code)
    with pytest.raises(kind) as error:
        sp.run(words[0], **options)
    assert error.value.exit_code == code and isinstance(error.value, sp.StrideError)
    # A run has a name of its own, and `--quiet` is not among the words.
    theirs = [line for line in said(done).splitlines() if not line.startswith("to go on: ")]
    ours = [line for line in str(error.value).splitlines() if not line.startswith("to go on: ")]
    assert ours == theirs


def test_failures_that_leave_results(program):
    text = (program.directory / "small.yaml").read_text().replace("stages:\n", "matrix: { k: [3, 999] }\nstages:\n", 1)
    (program.directory / "cases.yaml").write_text(text.replace("folds: 3", 'folds: "${matrix.k}"'))
    with pytest.warns(sp.StrideWarning, match="going on with the other cases"), pytest.raises(sp.StageError, match="1 case") as error:
        sp.run("cases.yaml", keep_going=True, results="cases")
    assert error.value.run.metrics["case"].tolist()[0] == "k=3"
    (program.directory / "fail.yaml").write_text(
        (program.directory / "small.yaml").read_text().replace("intervals: [0.9]", "fail_if: share_outside_range >= 0")
    )
    with pytest.raises(sp.ConditionError, match="all results are written") as error, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sp.run("fail.yaml", results="fail")
    assert error.value.run.run_id and error.value.exit_code == 4


def test_interrupted_and_resumed(place):
    """Ctrl-C keeps the checkpoint; the run that goes on ends as if nothing had been."""
    (place / "long.yaml").write_text(LONG)
    whole = sp.run("long.yaml", results="whole")
    script = """
        import logging, stride_pipe as sp
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        try:
            sp.run("long.yaml", results="cut", threads=1)
        except KeyboardInterrupt as error:
            print(type(error).__name__, error.exit_code, error)
    """
    worker = python(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    checkpoints = place / "cut/checkpoints"
    for _ in range(2400):
        if worker.poll() is not None or checkpoints.exists() and any(path.is_file() for path in checkpoints.rglob("*.safetensors")):
            break
        time.sleep(0.05)
    worker.send_signal(signal.SIGINT)
    stdout, stderr = worker.communicate(timeout=120)
    assert stdout.startswith("Interrupted 130 interrupted by signal 2; the checkpoint after EM iteration "), stdout + stderr
    run_id = stdout.split("--resume ")[1].strip()
    assert f"to go on: stride-pipe run long.yaml --results=cut --threads=1 --resume {run_id}" in stdout
    assert f"run {run_id}: " in stderr
    resumed = sp.run("long.yaml", results="cut", resume=run_id)
    assert resumed.run_id == run_id
    columns = ["metric", "value", "fold"]
    left, right = (run.tables.metrics.select(columns).collect() for run in (whole, resumed))
    assert left.equals(right)
    with pytest.raises(sp.UsageError):
        sp.run("long.yaml", results="cut", resume="nonsense")


def test_nothing_to_resume(place):
    """A notebook that is run again from its beginning gets its results, from the cache."""
    first = sp.run("small.yaml", results="over", resume=True)
    assert (first.done, first.cached) == (9, 0)
    for resume in [True, first.run_id]:
        again = sp.run("small.yaml", results="over", resume=resume)
        assert (again.done, again.cached) == (0, 9) and again.run_id != first.run_id
        assert again.metrics["value"].tolist() == first.metrics["value"].tolist()
    commands = sp.results("over").runs.sort("run_id").collect()["command"].to_list()
    assert commands[1:] == ["stride-pipe run small.yaml --results=over"] * 2


def test_exit_codes_keep_their_number():
    error = sp._errors.of(143, "stride-pipe: interrupted by signal 15")
    assert type(error) is sp.StrideError and error.exit_code == 143 and str(error) == "interrupted by signal 15"
    assert sp.StrideError.exit_code == 1 and error.run is None


def test_a_lock_is_respected(place, program_path):
    """A run of the same pipeline waits for nobody unless it is told to."""
    (place / "long.yaml").write_text(LONG)
    other = subprocess.Popen([program_path, "run", "long.yaml", "--results", "locked", "--force"], stderr=subprocess.PIPE, text=True)
    other.stderr.readline()
    try:
        with pytest.raises(sp.LockedError, match="is held by") as error:
            sp.run("long.yaml", results="locked")
        assert error.value.exit_code == 75
    finally:
        other.kill()
        other.communicate()


def test_nothing_is_printed_unless_asked_for(place, capfd, caplog):
    with caplog.at_level(logging.INFO, logger="stride_pipe"):
        run = sp.run("small.yaml", results="quiet")
    out, err = capfd.readouterr()
    # Where a machine is slow, lines say how far it is.
    assert out == "" and all(line.startswith("stride-pipe: ") for line in err.splitlines()), err
    assert any(line.startswith(f"run {run.run_id}") for line in caplog.messages)
    assert sum("done in" in line for line in caplog.messages) == 9


def test_a_terminal_gets_a_bar(place):
    """One line that is drawn anew, never longer than the terminal, and gone in the end."""
    (place / "long.yaml").write_text(LONG)
    leader, follower = pty.openpty()
    os.set_blocking(leader, False)
    script = "import stride_pipe as sp; sp.run('long.yaml', results='shown', force=True)"
    environment = {**os.environ, "COLUMNS": "60", "PYTHONWARNINGS": "ignore"}
    worker = python(script, stderr=follower, env=environment)
    os.close(follower)
    seen = b""
    while worker.poll() is None:
        time.sleep(0.05)
        try:
            seen += os.read(leader, 65536)
        except (BlockingIOError, OSError):
            pass
    os.close(leader)
    assert worker.returncode == 0
    lines = seen.decode().split("\r\x1b[2K")
    assert len(lines) > 2 and lines[-1] == "" and all(len(line) < 60 and "\n" not in line for line in lines)
    assert any("░" in line and "model" in line and " % " in line for line in lines)


def test_results(program, place):
    program("run", "small.yaml", "--quiet", "--results", "mixed")
    program("run", "small.yaml", "--quiet", "--results", "mixed", "--set", "stages.predictions.predict.intervals=[0.5]")
    program("run", "small.yaml", "--quiet", "--results", "mixed", "--set", "stages.folds.split.kfold.folds=999", code=65)
    results = sp.results("mixed")
    assert list(results) == results.tables and "traces" in results.tables and "metrics" in dir(results)
    for table in results:
        frame = results[table]
        assert isinstance(frame, pl.LazyFrame)
        columns = frame.collect_schema()
        assert columns["pipeline"] == pl.String and columns["run_date"] == pl.Date
        frame.collect()
    # Columns of every run, null where a run does not have them.
    predictions = results.predictions.collect()
    assert predictions.select(pl.col("y_q05", "y_q25").count()).row(0) == (240, 240) and len(predictions) == 480
    assert results.runs.collect()["status"].sort().to_list() == ["failed", "succeeded", "succeeded"]
    assert results.hidden.collect().is_empty()
    with pytest.raises(AttributeError, match="tables: predictions, metrics"):
        results.metriks
    with pytest.raises(KeyError, match="there is no table"):
        results["metriks"]
    with pytest.raises(sp.MissingInputError, match="nowhere"):
        sp.results("nowhere")


def test_results_of_unusual_places(program, place):
    text = (place / "teach.yaml").read_text().replace(", publish: models/energy", "")
    text += "  scores:\n    predict: { model: model, input: rows, keep: [orientation] }\n"
    (place / "keep.yaml").write_text(text)
    odd = "odd [1] *{x}"
    program("run", "keep.yaml", "--quiet", "--results", odd)
    # The same column as text, in the next run.
    frame = pl.read_parquet("rows.parquet")
    frame.with_columns(pl.format("towards {}", "orientation").alias("facing")).drop("orientation").rename({"facing": "orientation"}).write_parquet("facing.parquet")
    (place / "keep.yaml").write_text(text.replace("rows.parquet", "facing.parquet"))
    program("run", "keep.yaml", "--quiet", "--results", odd)
    results = sp.results(odd)
    (file, *_) = results.files("predictions")
    (file.parent / "_half.parquet").write_bytes(b"not yet")
    predictions = results.predictions.collect()
    kept = predictions["orientation"].to_list()
    assert len(kept) == 480 and predictions.schema["orientation"] == pl.String and predictions.schema["run_date"] == pl.Date
    assert set(kept[:240]) == {"2.0", "3.0", "4.0", "5.0"}
    assert all(value.startswith("towards ") for value in kept[240:])
    assert len(results.predictions.filter(pl.col("orientation") == "towards 3.0").collect()) == kept.count("towards 3.0") > 0
    assert len(results.runs.collect()) == 2
    # What is not there, or not here.
    import shutil

    shutil.rmtree(odd)
    with pytest.raises(sp.MissingInputError, match="there is no results directory here"):
        results.predictions
    with pytest.raises(sp.UsageError, match="^s3://bucket/results: sp.results reads directories of this machine"):
        sp.results("s3://bucket/results")
    assert sp._table.place("s3://bucket/results") == "s3://bucket/results"


def test_the_command(program, place):
    """`stride-pipe` of the package is the program, exit codes and unfinished last lines included."""
    def command(*words):
        return subprocess.run([sys.executable, "-m", "stride_pipe", *words], cwd=place, capture_output=True, text=True)

    for words in [["--version"], ["--help"], ["run", "--help"], ["schema"], ["model", "show", "nowhere"], ["run", "none.yaml"],
                  ["run", "bad.yaml"], ["plan", "small.yaml", "--format", "json"], ["completions", "bash"], ["nonsense"], []]:
        theirs = subprocess.run([program.path, *words], cwd=place, capture_output=True, text=True)
        ours = command(*words)
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr), words
    done = command("run", "small.yaml", "--quiet", "--results", "command")
    assert done.returncode == 0 and "task(s) done" in done.stdout
    assert sp.results("command").runs.collect()["command"].to_list() == ["stride-pipe run small.yaml --quiet --results command"]


def test_the_command_is_interrupted(place):
    (place / "long.yaml").write_text(LONG)
    words = [sys.executable, "-m", "stride_pipe", "run", "long.yaml", "--results", "stopped", "--force"]
    worker = subprocess.Popen(words, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = [worker.stderr.readline()]
    worker.send_signal(signal.SIGINT)
    stdout, stderr = worker.communicate(timeout=120)
    assert worker.returncode == 130 and stdout == ""
    assert "to go on: stride-pipe run long.yaml --results stopped --force --resume " in stderr, said[0] + stderr
    assert "Traceback" not in stderr


def test_poor_loops_of_openblas_are_exchanged():
    """Where OpenBLAS does not know the processor, it is loaded again with a word about it; nobody else hears the word."""
    script = """
        import importlib.util, os, pathlib, sys
        place = importlib.util.find_spec("stride_pipe").submodule_search_locations[0]
        spec = importlib.util.spec_from_file_location("load", pathlib.Path(place) / "_load.py")
        load = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(load)
        if sys.argv[1:]:
            load._wanted = lambda library: sys.argv[1]
        print(load.load().kernels()[0], "OPENBLAS_CORETYPE" in os.environ)
    """

    def kernels(*words, **variables):
        environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"} | variables
        command = [sys.executable, "-c", textwrap.dedent(script), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    usual = kernels()[0]
    assert kernels("Nehalem") == ["Nehalem", "False"]
    assert kernels("Sandybridge") == ["Sandybridge", "False"]
    assert kernels("Nehalem", OPENBLAS_CORETYPE=usual) == [usual, "True"]

"""Models score tables of every library, with the bits of the program."""

import os
import pickle
import signal
import threading
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stride_pipe as sp
from conftest import said

COLUMNS = ["y_mean", "y_std", "f_std", "noise_std", "y_q05", "y_q95"]


@pytest.fixture(scope="module")
def rows(place):
    return pq.read_table("rows.parquet")


@pytest.fixture(scope="module")
def expected(program, model):
    program("score", "--model", "models/energy", "--input", "rows.parquet", "--output", "scores.parquet", "--intervals", "0.9",
            "--key", "row_id", "--keep", "orientation", "--quiet")
    return pq.read_table("scores.parquet")


def same(scores, expected, columns=COLUMNS):
    for name in columns:
        np.testing.assert_array_equal(scores[name], expected[name].to_numpy(), strict=True, err_msg=name)


def test_the_tables_of_every_library(model, rows, expected):
    relation = duckdb.connect().from_arrow(rows)
    assert hasattr(relation, "__arrow_c_stream__")
    frames = {
        "pyarrow": rows,
        "one batch": rows.combine_chunks().to_batches()[0],
        "a stream": rows.to_reader(max_chunksize=7),
        "pandas": rows.to_pandas(),
        "polars": pl.from_arrow(rows),
        "lazy polars": pl.from_arrow(rows).lazy(),
        "duckdb": relation,
        "ours": sp.Table(rows),
        "columns in another order": rows.select(rows.column_names[::-1]),
    }
    for name, frame in frames.items():
        scores = model.predict(frame, intervals=[0.9], key="row_id", keep="orientation")
        assert scores.columns == expected.column_names, name
        same(scores, expected)
        assert scores["row_id"].tolist() == expected["row_id"].to_pylist()
        assert scores["orientation"].tolist() == expected["orientation"].to_pylist()


def test_threads_and_batches_do_not_matter(model, rows, expected):
    same(model.predict(rows.to_reader(max_chunksize=1), intervals=[0.9], threads=1), expected)
    same(model.predict(rows, intervals=[0.9], threads=3), expected)


def test_scores_go_to_every_library(model, rows):
    scores = model.predict(rows, samples=2)
    assert len(scores) == len(rows) and scores["row"].tolist() == list(range(len(rows)))
    mean = scores["y_mean"]
    np.testing.assert_array_equal(pl.DataFrame(scores)["y_mean"].to_numpy(), mean)
    np.testing.assert_array_equal(scores.to_polars()["y_samples"].to_numpy(), scores["y_samples"])
    np.testing.assert_array_equal(pa.table(scores)["y_mean"].to_numpy(), mean)
    np.testing.assert_array_equal(scores.to_pandas()["y_mean"].to_numpy(), mean)
    assert scores.to_pyarrow().schema.metadata[b"stride.model_sha256"].decode() == model.sha256 == scores.metadata["stride.model_sha256"]
    assert duckdb.sql("SELECT avg(y_mean), count(*) FROM scores").fetchall() == [(pytest.approx(mean.mean()), len(rows))]
    page = scores._repr_html_()
    assert "<th>y_mean</th>" in page and "[2 values]" in page and "240 rows" in page
    assert pickle.loads(pickle.dumps(scores))["y_mean"].tolist() == mean.tolist()


def test_rows_are_not_copied(model, rows):
    scores = model.predict(rows)
    address = lambda table: table["y_mean"].chunk(0).buffers()[1].address
    assert address(pa.table(scores)) == address(pa.table(scores))
    assert address(pa.table(sp.Table(pa.table(scores)))) == address(pa.table(scores))


def test_quantiles(model, rows, expected):
    scores = model.predict(rows, quantiles=[0.95, 0.5, 0.05, 0.001], variance=False)
    same(scores, expected, ["y_mean", "y_q05", "y_q95"])
    assert np.isnan(scores["y_std"]).all()
    assert (scores["y_q001"] < scores["y_q05"]).all() and (scores["y_q05"] < scores["y_q50"]).all()
    assert (scores["y_q50"] < scores["y_q95"]).all()
    for wrong in [0, 1, 1.5, float("nan"), 1e-9]:
        with pytest.raises(sp.UsageError, match="between 0 and 1"):
            model.predict(rows, quantiles=[wrong])


def test_samples(model, rows):
    scores = model.predict(rows, samples=400, seed=3, quantiles=[0.05, 0.25, 0.5, 0.75, 0.95])
    samples = scores["y_samples"]
    assert samples.shape == (240, 400)
    # Each row's own values: reproducible, whatever the batches and threads.
    again = model.predict(rows.to_reader(max_chunksize=11), samples=400, seed=3, threads=1)["y_samples"]
    np.testing.assert_array_equal(again, samples)
    # Rows that calibrate with the same score give the same values.
    assert (model.predict(rows, samples=400, seed=4)["y_samples"] != samples).mean() > 0.9
    np.testing.assert_array_equal(model.predict(rows, samples=7, seed=3)["y_samples"], samples[:, :7])
    # The distribution is the one of the quantiles: 96,000 values, and ranks of 240 rows between which quantiles jump.
    for level, name in [(0.05, "y_q05"), (0.25, "y_q25"), (0.5, "y_q50"), (0.75, "y_q75"), (0.95, "y_q95")]:
        assert (samples < scores[name][:, None]).mean() == pytest.approx(level, abs=0.012), name
    # Rows are independent of each other.
    z = (samples - scores["y_mean"][:, None]) / scores["y_std"][:, None]
    assert abs(np.corrcoef(z[0], z[1])[0, 1]) < 0.25


def test_invalid_rows(model, program, rows):
    broken = rows.to_pandas()
    broken["wall_area"] = broken["wall_area"].astype(float)
    broken.loc[5, "wall_area"] = np.inf
    pq.write_table(pa.Table.from_pandas(broken), "broken.parquet")
    with pytest.raises(sp.DataError) as error:
        model.predict(broken)
    done = program("score", "--model", "models/energy", "--input", "broken.parquet", "--output", "never.parquet", code=65)
    assert str(error.value) == said(done).split("\n")[-1].removeprefix("stride-pipe: ").replace("broken.parquet", "the table")
    assert isinstance(error.value, ValueError) and error.value.exit_code == 65
    with pytest.warns(sp.StrideWarning, match="1 of 240 rows cannot be scored"):
        scores = model.predict(broken, on_invalid="null")
    assert np.isnan(scores["y_mean"][5]) and np.isfinite(np.delete(scores["y_mean"], 5)).all()
    with pytest.warns(sp.StrideWarning, match="left out"):
        assert 5 not in model.predict(broken, on_invalid="skip")["row"]
    with pytest.raises(sp.UsageError, match="none of error, null, skip"):
        model.predict(rows, on_invalid="perhaps")


def test_tables_that_do_not_fit(model, rows):
    with pytest.raises(sp.DataError, match="^score: the table: the model needs the feature.s. wall_area, which the input does not have"):
        model.predict(rows.drop_columns("wall_area"))
    with pytest.raises(TypeError, match="list does not speak the Arrow PyCapsule interface"):
        model.predict([1, 2])
    for column in [pa.array([1.0]), pa.chunked_array([[1.0]]), pl.Series([1.0])]:
        with pytest.raises(TypeError, match="this is one column; give a table"):
            model.predict(column)
    # Rows that are null as a whole, in one array and in a stream.
    structs = pa.array(rows.to_pylist()[:3] + [None], pa.struct(rows.schema))
    for table in [structs, pa.chunked_array([structs])]:
        with pytest.raises(sp.DataError, match="1 row.s. are null as a whole"):
            model.predict(table)
        with pytest.raises(ValueError, match="null as a whole"):
            sp.Table(table)
    whole = pa.array(rows.to_pylist(), pa.struct(rows.schema))
    np.testing.assert_array_equal(model.predict(whole)["y_mean"], model.predict(rows)["y_mean"])
    assert len(model.predict(rows.slice(0, 0))) == 0

    def failing():
        yield rows.to_batches()[0]
        raise RuntimeError("the source is gone")

    with pytest.raises(sp.DataError, match="the source is gone"):
        model.predict(pa.RecordBatchReader.from_batches(rows.schema, failing()))


def test_unusual_rows_are_warned_of(model, rows):
    far = rows.to_pandas() * 3
    with pytest.warns(sp.StrideWarning, match="share_outside_range > 0.2"):
        model.predict(far)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(far, warn_if=[])
        model.predict(rows)
    with pytest.raises(sp.UsageError, match="warn_if: "):
        model.predict(rows, warn_if="nonsense")


def test_other_threads_go_on(model, rows):
    """Rows that another Python thread has to hand over: nothing would move if predicting kept the interpreter."""
    asked, given = threading.Event(), threading.Event()

    def helper():
        asked.wait(60)
        given.set()

    def batches():
        asked.set()
        assert given.wait(60)
        yield from rows.to_batches()

    thread = threading.Thread(target=helper)
    thread.start()
    assert len(model.predict(pa.RecordBatchReader.from_batches(rows.schema, batches()))) == 240
    thread.join()


def test_models(model, program, rows, expected):
    assert model.method == "sparse_gp" and model.features[0] == "relative_compactness" and len(model.features) == 6
    assert model.meta["training"]["version"] == sp.__version__
    assert "sparse_gp" in repr(model)
    same(pickle.loads(pickle.dumps(model)).predict(rows, intervals=[0.9]), expected)
    assert model.path.read_bytes() == model.to_bytes()
    with pytest.raises(sp.MissingInputError) as error:
        sp.Model("models/nowhere")
    assert str(error.value) == said(program("model", "show", "models/nowhere", code=66))
    assert isinstance(error.value, FileNotFoundError)
    (program.directory / "broken.safetensors").write_bytes(model.to_bytes()[:-8])
    with pytest.raises(sp.DataError) as error:
        sp.Model("broken.safetensors")
    assert str(error.value) == said(program("model", "show", "broken.safetensors", code=65))


MIXED = """\
version: 1
name: mixed
seed: 3
stages:
  rows:
    ingest:
      path: mixed.parquet
      key: row_id
      features:
        - relative_compactness
        - kind
        - { name: tall, kind: boolean }
        - { name: wall_area, missing: median }
      target: heating_load
  all:
    split: { input: rows, all: {} }
  model:
    train: { input: all, method: sparse_gp, inducing: { count: 15 }, publish: models/mixed }
"""


def test_columns_of_every_kind(program, rows):
    frame = rows.select(["row_id", "relative_compactness", "wall_area", "heating_load"]).to_pandas()
    frame["kind"] = np.array(["flat", "house", "tower"])[np.arange(len(frame)) % 3]
    frame["tall"] = rows["overall_height"].to_numpy() > 4
    frame["wall_area"] = frame["wall_area"].astype(float)
    frame.loc[::7, "wall_area"] = np.nan
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, "mixed.parquet")
    (program.directory / "mixed.yaml").write_text(MIXED)
    program("run", "mixed.yaml", "--quiet")
    program("score", "--model", "models/mixed", "--input", "mixed.parquet", "--output", "mixed-scores.parquet", "--quiet")
    expected = pq.read_table("mixed-scores.parquet")
    model = sp.Model("models/mixed")
    assert model.features == ["relative_compactness", "wall_area", "kind", "tall"]
    assert len(model.meta["feature_names"]) > 4 and "kind" in repr(model)
    polars, position = pl.from_arrow(table), table.column_names.index("kind")
    frames = {
        "polars": polars,
        "polars, categories": polars.with_columns(pl.col("kind").cast(pl.Categorical)),
        "pandas": frame,
        "pandas, categories": frame.astype({"kind": "category"}),
        "pyarrow": table,
        "pyarrow, dictionary": table.set_column(position, "kind", table["kind"].dictionary_encode()),
    }
    for name, given in frames.items():
        scores = model.predict(given[model.features] if "pandas" in name else given.select(model.features))
        same(scores, expected, ["y_mean", "y_std"])


def test_arrays_belong_to_whoever_asks(model, rows):
    scores = model.predict(rows, samples=2)
    for name in ["y_mean", "y_samples", "row"]:
        before = scores[name]
        before += 1
        np.testing.assert_array_equal(scores[name] + 1, before)


def test_numbers_out_of_range(model, rows):
    wrong = [("threads", 0), ("threads", -1), ("threads", 65536), ("threads", 1.5), ("samples", -1), ("samples", 65536), ("samples", "3"),
             ("seed", -1), ("seed", 2**64), ("seed", None)]
    for name, value in wrong:
        with pytest.raises(sp.UsageError, match=f"^{name}: write a whole number between"):
            model.predict(rows, **{name: value})
    assert model.predict(rows, samples=np.int64(1), seed=2**64 - 1, threads=np.int8(1))["y_samples"].shape == (240, 1)


def test_threads_of_openblas_are_set_back(model, rows, place):
    """Others may give OpenBLAS more threads, which would change the order of sums."""
    import ctypes

    import threadpoolctl

    library = ctypes.CDLL(sp._core.__file__)
    expected = model.predict(rows, intervals=[0.9]).to_pyarrow()
    with threadpoolctl.threadpool_limits(4, user_api="blas"):
        library.openblas_set_num_threads(4)
        assert library.openblas_get_num_threads() == 4
        scores = sp.Model("models/energy").predict(rows, intervals=[0.9])
        assert library.openblas_get_num_threads() == 1
        library.openblas_set_num_threads(4)
        sp.run("teach.yaml", results="again", set={"stages.model.train.publish": "models/again"}, progress=False)
        assert library.openblas_get_num_threads() == 1
    same(scores, expected)
    same(sp.Model("models/again").predict(rows, intervals=[0.9]), expected)


def in_fork(work):
    """The exit code of a forked process that does this."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(int(work()))
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_forks(model, rows):
    """After work, a child goes on; in the middle of it, the child is told."""
    expected = model.predict(rows)["y_mean"]
    assert in_fork(lambda: int((model.predict(rows)["y_mean"] != expected).any())) == 0
    begun, go_on = threading.Event(), threading.Event()

    def batches():
        begun.set()
        assert go_on.wait(60)
        yield from rows.to_batches()

    thread = threading.Thread(target=lambda: model.predict(pa.RecordBatchReader.from_batches(rows.schema, batches())))
    thread.start()
    assert begun.wait(60)

    def refused():
        for work in [lambda: model.predict(rows), lambda: sp.run("teach.yaml", progress=False)]:
            try:
                work()
            except sp.StrideError as error:
                assert "forked while its parent was computing" in str(error)
            else:
                return 1
        return 0

    assert in_fork(refused) == 0
    go_on.set()
    thread.join()
    assert in_fork(lambda: len(model.predict(rows)) != 240) == 0

"""Rows a second that are scored through Python, and by the program: 10⁶ rows, a model of 50 inducing points with its local layer.

    make rate        # or: PYTHONPATH=target/python python3 benches/python_rate.py target/release/stride-pipe [ROWS]

Needs numpy and pyarrow. Both read the same Parquet file and write one; both are timed in turn, and the medians are compared.
Python's time without reading and writing is that of a table in memory. Processor time is what counts on a busy machine.
"""

import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import stride_pipe as sp

PIPELINE = """\
version: 1
name: rate
stages:
  rows:
    ingest: { path: train.parquet, features: ["f*"], target: y }
  all:
    split: { input: rows, all: {} }
  model:
    train: { input: all, method: sparse_gp, publish: model }
"""
FEATURES, TRAINING, TIMES = 16, 5000, 5


def rows(count, seed):
    random = np.random.default_rng(seed)
    columns = {f"f{number}": random.normal(size=count) for number in range(FEATURES)}
    columns["y"] = np.sin(columns["f0"]) + 0.5 * columns["f1"] * columns["f2"] + 0.1 * random.normal(size=count)
    return pa.table(columns)


def children():
    """Processor seconds of the programs that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 1_000_000
    program = str(pathlib.Path(program).resolve())
    with tempfile.TemporaryDirectory() as place:
        here = pathlib.Path(place)
        (here / "rate.yaml").write_text(PIPELINE)
        pq.write_table(rows(TRAINING, 1), here / "train.parquet")
        pq.write_table(rows(count, 2).drop_columns("y"), here / "rows.parquet", row_group_size=100_000)
        subprocess.run([program, "run", "rate.yaml", "--quiet"], cwd=here, check=True, stdout=subprocess.DEVNULL)
        words = ["score", "--model", "model", "--input", "rows.parquet", "--output", "theirs.parquet", "--quiet"]
        model = sp.Model(here / "model")
        taken = {"program": [], "Python": [], "Python, in memory": []}
        cpu = {"program": [], "Python": []}
        for _ in range(TIMES):
            start, used = time.perf_counter(), children()
            subprocess.run([program, *words], cwd=here, check=True, stdout=subprocess.DEVNULL)
            taken["program"].append(time.perf_counter() - start)
            cpu["program"].append(children() - used)
            start, used = time.perf_counter(), time.process_time()
            table = pq.read_table(here / "rows.parquet")
            read = time.perf_counter()
            scores = model.predict(table)
            predicted = time.perf_counter()
            pq.write_table(pa.table(scores), here / "ours.parquet", compression="zstd")
            taken["Python"].append(time.perf_counter() - start)
            cpu["Python"].append(time.process_time() - used)
            taken["Python, in memory"].append(predicted - read)
        theirs, ours = pq.read_table(here / "theirs.parquet"), pq.read_table(here / "ours.parquet")
        assert ours.equals(theirs), "not the same bits"
    for name, seconds in taken.items():
        print(f"{name:18} {count / statistics.median(seconds):>10.0f} rows/s", [round(value, 2) for value in seconds])
    for name, kind in [("time", taken), ("processor time", cpu)]:
        ratios = sorted(one / other for one, other in zip(kind["program"], kind["Python"]))
        print(f"Python's rate over the program's, by {name}: {ratios[len(ratios) // 2]:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


main()

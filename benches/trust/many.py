"""Times what looks at a results directory with many runs.

    STRIDE_PIPE=target/release/stride-pipe python3 benches/trust/many.py [RUNS] [REPEATS]

Makes RUNS runs (2,000) of a small pipeline, most of them from the cache, and prints the shortest of REPEATS times of every command:
each should be below a second on two free cores. Needs pyarrow.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from common import call, copy, prepare

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
REPEATS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
PIPELINE = """\
version: 1
name: many
stages:
  rows: { ingest: { path: hills-data.parquet, key: row_id, features: [u, v], target: height } }
  folds: { split: { input: rows, kfold: { folds: 2 } } }
  model: { train: { input: folds, method: ridge } }
  predictions: { predict: { model: model, input: folds } }
  metrics: { evaluate: { input: predictions } }
"""
COMMANDS = {
    "runs list": ("runs", "list"),
    "runs show": ("runs", "show", "last"),
    "report": ("report", "-o", "all.html"),
    "views": ("views",),
    "runs prune, nothing to remove": ("runs", "prune", "--keep", str(RUNS)),
    "runs prune, half of them": ("runs", "prune", "--keep", str(RUNS // 2)),
}


def main():
    root = Path(tempfile.mkdtemp(prefix="stride-many-"))
    place = root / "place"
    prepare(place)
    (place / "many.yaml").write_text(PIPELINE)
    for number in range(RUNS):
        call(place, "run", "many.yaml", "--quiet", "--threads", "1", "--set", f"seed={number // 8}", check=True)
    for name, words in COMMANDS.items():
        times = []
        for _ in range(REPEATS):
            trial = place
            if "half" in name:
                trial = root / "trial"
                copy(place, trial)
            began = time.monotonic()
            call(trial, *words, check=True)
            times.append(time.monotonic() - began)
        print(f"{name}: {min(times):.2f} s", flush=True)
    shutil.rmtree(root)


main()

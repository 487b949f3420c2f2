"""Trains on many generated rows, in one process or several, and says how long it takes and what it holds in memory at most.

    STRIDE_PIPE=target/mpi/stride-pipe python3 benches/scale.py DIRECTORY ROWS RANKS [KEY=VALUE ...]

Needs numpy and pyarrow. DIRECTORY gets `ROWS.parquet/`, files of a million rows each with 30 features, which are kept for the next call. With
one rank the program is started without MPI. Keys: `m` inducing points (100), `rank` of the hidden layers (200), `chains` (2), `iterations`
(2), `transitions` (1), `leapfrog` (1), `exchanges` (0), `optimise` (what M steps move: `variance, length, noise`; empty for no M steps), `memory` (for --memory), `threads` (1).
"""

import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

FEATURES = 30
PER_FILE = 1_000_000
GROUP = 100_000


def generate(directory, rows):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = directory / f"{rows}.parquet"
    if target.exists():
        return target
    unfinished = directory / f"{rows}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for number, first in enumerate(range(0, rows, PER_FILE)):
        count = min(PER_FILE, rows - first)
        generator = np.random.default_rng([23, number])
        x = generator.standard_normal((count, FEATURES), dtype=np.float32)
        y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + np.tanh(x[:, 3:8]).sum(axis=1) + 0.1 * generator.standard_normal(count)
        columns = {f"x{place:02}": x[:, place] for place in range(FEATURES)} | {"y": y}
        columns["id"] = np.arange(first, first + count)
        pq.write_table(pa.table(columns), unfinished / f"part-{number:04}.parquet", row_group_size=GROUP, compression="none")
    unfinished.rename(target)
    return target


def pipeline(directory, rows, options):
    get = lambda name, other: options.get(name, other)
    text = f"""\
version: 1
name: scale
seed: 23
stages:
  rows:
    ingest: {{ path: {rows}.parquet, features: ["x*"], target: y }}
  folds:
    split: {{ input: rows, hash: {{ key: id, test_fraction: 0.001 }} }}
  model:
    train:
      input: folds
      method: stride
      local: false
      calibrate: none
      inducing: {{ rows: [{", ".join(str(row) for row in points(rows, int(get("m", 100))))}] }}
      hyperparameters: {{ variance: 1.0, length: 6.0, noise: 0.1, optimise: [{get("optimise", "variance, length, noise")}] }}
      deep: {{ hidden: {{ rank: {get("rank", 200)}, repivot: {get("repivot", "false")} }} }}
      em:
        iterations: {get("iterations", 2)}
        particles: {get("chains", 2)}
        exchanges: {get("exchanges", 0)}
        final_transitions: 0
        sampler: {{ hmc: {{ transitions: {get("transitions", 1)}, leapfrog: {get("leapfrog", 1)} }} }}
  predictions:
    predict: {{ model: model, input: folds }}
  metrics:
    evaluate: {{ input: predictions }}
"""
    (directory / "scale.yaml").write_text(text)


def points(rows, count):
    """Rows that train, spread over all of them: by the rule of `split: hash` most do, and those that do not are left out."""
    return [1 + index * (rows // (count + 1)) for index in range(count)]


def watch(peaks, stop):
    """The largest resident memory of every process of the program."""
    while not stop.is_set():
        for entry in Path("/proc").iterdir():
            try:
                if (entry / "comm").read_text().strip() == "stride-pipe":
                    status = (entry / "status").read_text()
                    peaks[entry.name] = int(status.split("VmHWM:")[1].split()[0])
            except (OSError, IndexError, ValueError):
                continue
        stop.wait(0.2)


def main():
    directory, rows, ranks = Path(sys.argv[1]), int(float(sys.argv[2])), int(sys.argv[3])
    options = dict(word.split("=", 1) for word in sys.argv[4:])
    directory.mkdir(parents=True, exist_ok=True)
    generate(directory, rows)
    if ranks == 0:
        return
    pipeline(directory, rows, options)
    program = str(Path(os.environ.get("STRIDE_PIPE", "target/release/stride-pipe")).resolve())
    words = [program, "run", "scale.yaml", "--threads", options.get("threads", "1"), "--results", f"results{ranks}", "--force"]
    if "memory" in options:
        words += ["--memory", options["memory"]]
    if ranks > 1:
        words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] + words
    peaks, stop = {}, threading.Event()
    watcher = threading.Thread(target=watch, args=(peaks, stop))
    watcher.start()
    began = time.monotonic()
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True)
    seconds = time.monotonic() - began
    stop.set()
    watcher.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    for line in (done.stdout + done.stderr).splitlines():
        if "processes" in line or done.returncode != 0 or "model" in line:
            print(line)
    shown = ", ".join(f"{kilobytes / 1024:.0f}" for kilobytes in sorted(peaks.values()))
    print(f"{rows} rows, {ranks} rank(s): {seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} processor s, peaks {shown} MiB")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()

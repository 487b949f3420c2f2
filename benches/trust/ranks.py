"""Kills one rank of an MPI job at random moments, goes on with another number of ranks, and compares the bits.

    STRIDE_PIPE=target/mpi/stride-pipe python3 benches/trust/ranks.py [KILLS] [SEED]

Needs pyarrow and Open MPI, and the program with the feature `mpi`. What an undisturbed run of one process leaves is the reference: rows of
every table and models. Ends with 1 if anything differs.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from common import PROGRAM, command, contents, prepare

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 23
RUN = ("run", "ranks.yaml", "--quiet", "--threads", "1")
PIPELINE = """\
version: 1
name: ranks
seed: 3
stages:
  rows:
    ingest: { path: hills-data.parquet, key: row_id, features: [u, v], target: height }
  folds:
    split: { input: rows, kfold: { folds: 2 } }
  model:
    train:
      input: folds
      method: stride
      local: { rows: 500 }
      inducing: { count: 8, candidates: 30 }
      em: { iterations: 6, particles: 2, final_transitions: 8 }
  predictions:
    predict: { model: model, input: folds, intervals: [0.9] }
  metrics:
    evaluate: { input: predictions }
"""


def launched(directory, ranks, *words):
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(mpirun + command(*words), cwd=directory, **quiet)


def children(of):
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(") ", 1)[1].split(" ")[1])
        except (OSError, IndexError, ValueError):
            continue
        if parent == of:
            found.append(int(entry.name))
    return sorted(found)


def prepared(root, name):
    directory = root / name
    prepare(directory)
    (directory / "ranks.yaml").write_text(PIPELINE)
    return directory


def main():
    generator, counts, faults = random.Random(SEED), Counter(), 0
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        plain = prepared(root, "plain")
        subprocess.run(command(*RUN), cwd=plain, check=True)
        reference = contents(plain, "ranks")
        timed = prepared(root, "timed")
        began = time.monotonic()
        job = launched(timed, 2, *RUN)
        if job.wait() != 0:
            sys.exit(job.stderr.read().decode())
        seconds = time.monotonic() - began
        if contents(timed, "ranks") != reference:
            sys.exit("two undisturbed ranks differ from one process")
        print(f"{PROGRAM}: two ranks take {seconds:.1f} s; {KILLS} kills, seed {SEED}")
        for number in range(KILLS):
            directory = prepared(root, f"killed{number}")
            before, after = generator.choice([2, 3, 4]), generator.choice([1, 2, 3, 4])
            moment = generator.uniform(0.0, seconds)
            job = launched(directory, before, *RUN)
            time.sleep(moment)
            ranks = children(job.pid)
            if ranks and job.poll() is None:
                os.kill(generator.choice(ranks), signal.SIGKILL)
                counts["killed"] += 1
            else:
                counts["too late"] += 1
            try:
                job.wait(timeout=60)
            except subprocess.TimeoutExpired:
                job.kill()
                counts["job went on"] += 1
                faults += 1
            again = launched(directory, after, *RUN, "--resume")
            text = again.stderr.read().decode()
            if again.wait() != 0 or not (directory / "results").exists():
                # Nothing was begun, or all was done.
                counts["begun anew"] += 1
                again = launched(directory, after, *RUN)
                text = again.stderr.read().decode()
                again.wait()
            same = again.returncode == 0 and contents(directory, "ranks") == reference
            if not same:
                faults += 1
                print(f"kill {number} after {moment:.2f} s, {before} then {after} ranks: differs\n{text}")
            shutil.rmtree(directory)
    print(f"{dict(counts)}, faults: {faults}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

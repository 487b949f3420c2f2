"""Kills the program at random moments of its work, and lets it go on.

    STRIDE_PIPE=target/release/stride-pipe python3 benches/trust/kills.py [KILLS] [SEED] [KIND …]

Kinds are run, publish, score, report, prune, nearby (a top layer by neighbours that starts from a published model, and is explained),
shard, rollback and storage (results and models in object storage). Needs pyarrow, and moto[server] for storage. After every kill the same work is asked for again, as a scheduler would, and what it comes to is compared with what
came of it undisturbed: rows of every table, models, scores. Ends with 1 if anything was lost.
"""

import json
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

from common import Store, call, command, contents, copy, leftovers, prepare, table
from worlds import REMOTE, SWEEP

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 22
KINDS = sys.argv[3:]
SCORE = ("score", "--model", "models/hills", "--input", "hills-data.parquet", "--output", "out/again.parquet", "--key", "row_id")


# Starts from the published model, predicts by neighbours, and says why.
NEARBY = """\
version: 1
name: nearby
seed: 3
stages:
  rows: { ingest: { path: hills-data.parquet, key: row_id, features: [u, v], target: height } }
  folds: { split: { input: rows, kfold: { folds: 2 } } }
  model:
    train:
      input: folds
      method: stride
      top: { neighbours: 8 }
      inducing: { count: 8 }
      deep: { width: 1 }
      em: { iterations: 12, particles: 2, final_transitions: 4 }
  begun:
    train:
      input: folds
      method: stride
      inducing: { count: 8 }
      em: { iterations: 6, particles: 2, final_transitions: 4 }
      start_from: models/hills
  predictions: { predict: { model: model, input: folds, intervals: [0.9] } }
  metrics: { evaluate: { input: predictions } }
  why: { explain: { model: begun, input: folds, rows: 40, grid: 5, repeats: 2, samples: 16 } }
  page: { report: { input: metrics } }
"""


class Workshop:
    """Prepared directories, and what undisturbed commands leave in copies of them."""

    def __init__(self, root):
        self.root, self.random = root, random.Random(SEED)
        self.counts, self.faults = Counter(), []
        self.fresh, self.done = root / "fresh", root / "done"
        prepare(self.fresh)
        self.run_seconds = self.undisturbed(self.fresh, self.done, ("run", "work.yaml", "--quiet"))
        self.reference = contents(self.done)
        # Another model is published over the first.
        self.second = root / "second"
        self.other_seconds = self.undisturbed(self.done, self.second, ("run", "other.yaml", "--quiet"))
        self.other_reference = contents(self.second, "other")
        self.scored = root / "scored"
        self.score_seconds = self.undisturbed(self.second, self.scored, SCORE)
        self.old_scores = self.score_of(self.done)
        self.new_scores = table(self.scored / "out" / "again.parquet")
        self.reported = root / "reported"
        self.report_seconds = self.undisturbed(self.second, self.reported, ("report", "last", "-o", "page.html"))
        self.page = (self.reported / "page.html").read_bytes()
        # Several runs of both pipelines, of which the last ones are kept.
        self.many = root / "many"
        copy(self.second, self.many)
        for seed in ("5", "6"):
            call(self.many, "run", "work.yaml", "--quiet", "--set", f"seed={seed}", check=True)
        call(self.many, "run", "other.yaml", "--quiet", check=True)
        self.pruned = root / "pruned"
        self.prune_seconds = self.undisturbed(self.many, self.pruned, ("runs", "prune", "--keep", "1"))
        self.kept = self.left_by_prune(self.pruned)
        self.near, self.near_done = root / "near", root / "near-done"
        copy(self.done, self.near)
        (self.near / "nearby.yaml").write_text(NEARBY)
        self.near_seconds = self.undisturbed(self.near, self.near_done, ("run", "nearby.yaml", "--quiet"))
        self.near_reference = contents(self.near_done, "nearby")
        self.sweep = root / "sweep"
        copy(self.fresh, self.sweep)
        (self.sweep / "sweep.yaml").write_text(SWEEP)
        self.sweep_seconds = self.undisturbed(self.sweep, root / "swept", ("run", "sweep.yaml", "--quiet"))
        self.sweep_reference = contents(root / "swept", "sweep")
        self.rollback_seconds = self.undisturbed(self.second, root / "back", ("model", "rollback", "models/hills"))
        if not KINDS or "storage" in KINDS:
            self.prepare_storage()

    def prepare_storage(self):
        self.store = Store()
        self.environment = {**self.store.environment, "STRIDE_PIPE_CACHE": "machine"}
        self.store.put("hills-data.parquet", (self.fresh / "hills-data.parquet").read_bytes())
        self.remote = self.root / "remote"
        copy(self.fresh, self.remote)
        (self.remote / "remote.yaml").write_text(REMOTE)
        self.storage_seconds = self.undisturbed(self.remote, self.root / "there", ("run", "remote.yaml", "--quiet"))
        self.storage_reference = self.seen_from_afar(self.root / "there")
        self.store.clear("results/", "models/")

    def seen_from_afar(self, place):
        """What a machine that has nothing of it yet finds in the store: runs, tables, the model's scores."""
        far = {**self.environment, "STRIDE_PIPE_CACHE": "elsewhere"}
        shutil.rmtree(place / "elsewhere", ignore_errors=True)
        listed = json.loads(call(place, "runs", "list", "--results", "s3://bucket/results", "--format", "json", check=True, environment=far).stdout)
        (mirror,) = (place / "elsewhere" / "results").iterdir()
        found = contents(mirror.parent, "nightly", mirror.name)
        score = ("score", "--model", "s3://bucket/models/plane", *SCORE[3:])
        call(place, *score, check=True, environment=far)
        found["scores"] = table(place / "out" / "again.parquet")
        return [run["status"] for run in listed], found

    # Where the program finds object storage.
    environment = None

    def undisturbed(self, source, target, words):
        copy(source, target)
        began = time.monotonic()
        call(target, *words, check=True, environment=self.environment)
        return time.monotonic() - began

    def score_of(self, directory):
        copy(directory, self.root / "aside")
        call(self.root / "aside", *SCORE, check=True)
        return table(self.root / "aside" / "out" / "again.parquet")

    @staticmethod
    def left_by_prune(directory):
        """The files of the results but for the times of the cache; what runs are listed; whether all work is still cached."""
        files = sorted(str(p.relative_to(directory)) for p in (directory / "results").rglob("*") if p.is_file() and "locks" not in p.parts)
        files = [name for name in files if not name.endswith(".lock")]
        plan = call(directory, "plan", "other.yaml", "--exit-code").returncode
        return files, call(directory, "runs", "list", check=True).stdout, plan, contents(directory, "other")

    def fault(self, kind, text):
        self.faults.append(f"{kind}, kill {sum(self.counts.values())}: {text}")
        shutil.copytree(self.root / "trial", self.root / f"fault-{len(self.faults)}", symlinks=True)
        print(self.faults[-1], flush=True)

    def kill(self, directory, words, seconds):
        """Starts the program and kills it after a random time; whether it was still at work."""
        around = {**os.environ, **(self.environment or {})}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen(command(*words), cwd=directory, env=around, **quiet)
        time.sleep(self.random.uniform(0.0, 1.05 * seconds))
        alive = child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
        return alive

    def trial(self, kind):
        place = self.root / "trial"
        words, seconds, source = {
            "run": (("run", "work.yaml"), self.run_seconds, self.fresh),
            "publish": (("run", "other.yaml"), self.other_seconds, self.done),
            "score": (SCORE, self.score_seconds, self.second),
            "report": (("report", "last", "-o", "page.html"), self.report_seconds, self.second),
            "prune": (("runs", "prune", "--keep", "1"), self.prune_seconds, self.many),
            "nearby": (("run", "nearby.yaml"), self.near_seconds, self.near),
            "shard": (("run", "sweep.yaml", "--shard", self.random.choice(("0/2", "1/2"))), 0.5 * self.sweep_seconds, self.sweep),
            "rollback": (("model", "rollback", "models/hills"), self.rollback_seconds, self.second),
            "storage": (("run", "remote.yaml"), getattr(self, "storage_seconds", 0), getattr(self, "remote", None)),
        }[kind]
        copy(source, place)
        if not self.kill(place, words, seconds):
            return False
        self.counts[kind] += 1
        getattr(self, f"after_{kind}")(place, words)
        if left := leftovers(place):
            self.fault(kind, f"left behind: {left}")
        return True

    def again(self, kind, place, *words):
        done = call(place, *words, environment=self.environment)
        if done.returncode != 0 or "panicked" in done.stderr:
            self.fault(kind, f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-500:]}")
        return done

    def after_run(self, place, _):
        # A second kill now and then: what goes on can be killed, too.
        if self.random.random() < 0.3:
            self.kill(place, ("run", "work.yaml", "--resume"), self.run_seconds)
        self.again("run", place, "run", "work.yaml", "--resume", "--quiet")
        self.same("run", contents(place), self.reference)
        self.again("run", place, "runs", "show", "last")

    def after_publish(self, place, _):
        scored = self.again("publish", place, *SCORE)
        if scored.returncode == 0 and table(place / "out" / "again.parquet") not in (self.old_scores, self.new_scores):
            self.fault("publish", "scores of neither model")
        self.again("publish", place, "run", "other.yaml", "--resume", "--quiet")
        self.same("publish", contents(place, "other"), self.other_reference)
        versions = call(place, "model", "list", "models/hills", check=True).stdout
        if len(list((place / "models" / "hills" / "versions").glob("*"))) != 2:
            self.fault("publish", f"other versions than two: {versions}")
        self.again("publish", place, "model", "rollback", "models/hills")
        self.again("publish", place, *SCORE)
        if table(place / "out" / "again.parquet") != self.old_scores:
            self.fault("publish", "going back does not bring the first model")

    def after_score(self, place, words):
        output = place / "out" / "again.parquet"
        if output.exists() and table(output) != self.new_scores:
            self.fault("score", "half an output is seen")
        self.again("score", place, *words)
        if table(output) != self.new_scores:
            self.fault("score", "other scores")

    def after_report(self, place, words):
        page = place / "page.html"
        if page.exists() and page.read_bytes() != self.page:
            self.fault("report", "half a page is seen")
        self.again("report", place, *words)
        if page.read_bytes() != self.page:
            self.fault("report", "another page")

    def after_prune(self, place, words):
        # Whatever is left is told, and the run that stays is whole.
        self.again("prune", place, "runs", "list")
        self.same("prune", contents(place, "other"), self.kept[3])
        self.again("prune", place, *words)
        left = self.left_by_prune(place)
        if left != self.kept:
            changed = set(left[0]) ^ set(self.kept[0])
            self.fault("prune", f"other files: {sorted(changed)[:5]}; {left[1]} {left[2]}")

    def after_nearby(self, place, words):
        if self.random.random() < 0.3:
            self.kill(place, (*words, "--resume"), self.near_seconds)
        self.again("nearby", place, *words, "--resume", "--quiet")
        self.same("nearby", contents(place, "nearby"), self.near_reference)

    def after_shard(self, place, words):
        self.again("shard", place, *words, "--quiet")
        other = "1/2" if words[-1] == "0/2" else "0/2"
        self.again("shard", place, *words[:-1], other, "--quiet")
        self.again("shard", place, "run", "sweep.yaml", "--quiet")
        self.same("shard", contents(place, "sweep"), self.sweep_reference)

    def after_rollback(self, place, _):
        # One model or the other, and both still there.
        done = self.again("rollback", place, *SCORE)
        if done.returncode == 0 and table(place / "out" / "again.parquet") not in (self.old_scores, self.new_scores):
            self.fault("rollback", "scores of neither model")
        for number, scores in (("1", self.old_scores), ("2", self.new_scores)):
            self.again("rollback", place, "model", "rollback", "models/hills", "--to", number)
            self.again("rollback", place, *SCORE)
            if table(place / "out" / "again.parquet") != scores:
                self.fault("rollback", f"version {number} is another one")

    def after_storage(self, place, words):
        self.again("storage", place, *words, "--resume", "--quiet")
        runs, found = self.seen_from_afar(place)
        self.same("storage", found, self.storage_reference[1])
        # One that was killed before it had a name, or began again because nothing had come of it, is there once.
        if runs.count("succeeded") != 1:
            self.fault("storage", f"runs seen from elsewhere: {runs}")
        self.store.clear("results/", "models/")

    def same(self, kind, found, wanted):
        if found != wanted:
            names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
            self.fault(kind, f"not the same as undisturbed: {names}")


def main():
    root = Path(tempfile.mkdtemp(prefix="stride-kills-"))
    shop = Workshop(root)
    shares = ["run"] * 6 + ["publish"] * 4 + ["score"] * 2 + ["report"] * 2 + ["prune"] * 3
    shares += ["nearby"] * 6 + ["shard"] * 3 + ["rollback"] * 2 + ["storage"] * 4
    shares = KINDS or shares
    number = 0
    while sum(shop.counts.values()) < KILLS:
        shop.trial(shares[number % len(shares)])
        number += 1
    print(f"{sum(shop.counts.values())} kills: {dict(shop.counts)}, {len(shop.faults)} fault(s)")
    if shop.faults:
        sys.exit(f"kept for a look: {root}")
    shutil.rmtree(root)


main()

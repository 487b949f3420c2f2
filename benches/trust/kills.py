"""Kills the program at random moments of training, publishing, scoring, reporting and pruning, and lets it go on.

    STRIDE_PIPE=target/release/stride-pipe python3 benches/trust/kills.py [KILLS] [SEED]

Needs pyarrow. After every kill the same work is asked for again, as a scheduler would, and what it comes to is compared with what
came of it undisturbed: rows of every table, models, scores. Ends with 1 if anything was lost.
"""

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from common import call, command, contents, copy, leftovers, prepare, table

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 22
SCORE = ("score", "--model", "models/hills", "--input", "hills-data.parquet", "--output", "out/again.parquet", "--key", "row_id")


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

    def undisturbed(self, source, target, words):
        copy(source, target)
        began = time.monotonic()
        call(target, *words, check=True)
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
        child = subprocess.Popen(command(*words), cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
        done = call(place, *words)
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

    def same(self, kind, found, wanted):
        if found != wanted:
            names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
            self.fault(kind, f"not the same as undisturbed: {names}")


def main():
    root = Path(tempfile.mkdtemp(prefix="stride-kills-"))
    shop = Workshop(root)
    shares = ["run"] * 7 + ["publish"] * 5 + ["score"] * 3 + ["report"] * 2 + ["prune"] * 3
    number = 0
    while sum(shop.counts.values()) < KILLS:
        shop.trial(shares[number % len(shares)])
        number += 1
    print(f"{sum(shop.counts.values())} kills: {dict(shop.counts)}, {len(shop.faults)} fault(s)")
    if shop.faults:
        sys.exit(f"kept for a look: {root}")
    shutil.rmtree(root)


main()

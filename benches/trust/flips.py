"""Flips bits in every kind of file that the program reads back, and looks at what it makes of them.

    STRIDE_PIPE=target/release/stride-pipe python3 benches/trust/flips.py [FLIPS] [SEED] [KIND …]

Needs pyarrow. After each flip the commands that read the file must refuse it with a message, or give what they give of the whole one
(because they make it again), or say what they left out. Ends with 1 if a flipped bit was used, or the program crashed.
"""

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from common import call, command, contents, copy, prepare, table

FLIPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 22
WANTED = sys.argv[3:]
SCORE = ("score", "--model", "models/hills", "--input", "hills-data.parquet", "--output", "out/again.parquet", "--key", "row_id")
# What a command says of a file that it did not use.
SAID = ("damaged", "not as run", "not a manifest", "its hash is another one", "unknown status", "first time")
REFUSED = (65, 66)


def build(root):
    """A directory with a run of each of two pipelines, a scoring, two published versions, and a run that was killed in a fit."""
    prepare(root)
    for words in (("run", "work.yaml"), ("run", "other.yaml"), (*SCORE, "--results", "results")):
        call(root, *words, "--quiet", check=True)
    call(root, "plan", "work.yaml", check=True)
    long = ("run", "work.yaml", "--set", "params.iterations=12")
    child = subprocess.Popen(command(*long), cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list((root / "results" / "checkpoints").glob("*.safetensors")):
        time.sleep(0.002)
        if child.poll() is not None:
            sys.exit("no checkpoint was seen")
    child.kill()
    child.wait()


class Bench:
    def __init__(self, root):
        self.root, self.random = root, random.Random(SEED)
        self.base, self.trial = root / "base", root / "trial"
        build(self.base)
        runs = sorted(path.name for path in (self.base / "results" / "run").iterdir())
        self.work, self.other, self.scoring, self.killed = runs
        self.faults, self.tally = [], {}
        self.expected = {}

    def files(self, pattern, only=lambda path: True):
        return sorted(p for p in self.base.glob(pattern) if p.is_file() and only(p) and p.stat().st_size > 0)

    # Each of these does in the trial's directory what reads the file, and returns what came of it.

    def score(self):
        (self.trial / "out" / "again.parquet").unlink(missing_ok=True)
        done = call(self.trial, *SCORE)
        out = self.trial / "out" / "again.parquet"
        return done, table(out) if out.exists() else None

    def rollback(self):
        done = call(self.trial, "model", "rollback", "models/hills", "--to", "1")
        return done, self.score()[1] if done.returncode == 0 else None

    def listing(self):
        done = call(self.trial, "model", "list", "models/hills")
        return done, done.stdout

    def rerun(self):
        done = call(self.trial, "run", "work.yaml", "--quiet")
        return done, contents(self.trial) if done.returncode == 0 else None

    def resume(self):
        done = call(self.trial, "run", "work.yaml", "--set", "params.iterations=12", "--resume", "--quiet")
        return done, contents(self.trial) if done.returncode == 0 else None

    def report(self):
        done = call(self.trial, "report", self.work, "-o", "page.html")
        return done, (self.trial / "page.html").read_text() if done.returncode == 0 else None

    def overview(self):
        done = call(self.trial, "report", "-o", "all.html")
        return done, (self.trial / "all.html").read_text() if done.returncode == 0 else None

    def report_scoring(self):
        done = call(self.trial, "report", self.scoring, "-o", "page.html")
        return done, (self.trial / "page.html").read_text() if done.returncode == 0 else None

    def looks(self, *words):
        done = call(self.trial, *words)
        return done, done.stdout

    def list(self):
        return self.looks("runs", "list")

    def show(self):
        return self.looks("runs", "show", self.work)

    def show_scoring(self):
        return self.looks("runs", "show", self.scoring)

    def diff(self):
        return self.looks("runs", "diff", self.work, self.other)

    def pivot(self):
        return self.looks("runs", "table", self.work, "--metric", "smse", "--rows", "case", "--columns", "method")

    def plan(self):
        return self.looks("plan", "work.yaml", "--set", "seed=9")

    def prune(self):
        done = call(self.trial, "runs", "prune", "--keep", "1")
        # What a kept run needs must be there still.
        return done, (contents(self.trial, "other"), call(self.trial, "plan", "other.yaml", "--exit-code").returncode)

    def model_of_run(self):
        path = next((self.trial / "results" / "models" / "work" / self.work).rglob("model.safetensors"))
        done = call(self.trial, "model", "show", str(path.relative_to(self.trial)))
        return done, done.stdout

    def kinds(self):
        run = lambda id, name: (lambda: self.files(f"results/run/{id}/{name}"))
        entries = lambda name: (lambda: self.files(f"results/cache/entries/*/*/{name}"))
        in_cache = sorted({path.name for path in self.files("results/cache/entries/*/*/*")})
        tables = sorted({path.parts[len(self.base.parts) + 1] for path in self.files("results/*/pipeline=work/**/*.parquet")})
        of_table = lambda name: (lambda: self.files(f"results/{name}/pipeline=work/**/*.parquet"))
        kinds = {
            "published model": (lambda: self.files("models/hills/model.safetensors"), (self.score,)),
            "version of a model": (lambda: self.files("models/hills/versions/1/*"), (self.rollback, self.listing)),
            "previous model": (lambda: self.files("models/hills/previous/*"), (self.rollback,)),
            "model of a run": (lambda: self.files(f"results/models/work/{self.work}/**/*"), (self.report,)),
            "checkpoint": (lambda: self.files("results/checkpoints/*"), (self.resume,)),
            "events of a killed run": (run(self.killed, "events.jsonl"), (self.resume, self.prune)),
            "events": (run(self.work, "events.jsonl"), (self.show, self.report)),
            "events of a scoring": (run(self.scoring, "events.jsonl"), (self.show_scoring,)),
            "manifest": (run(self.work, "manifest.json"), (self.show, self.list, self.diff, self.prune)),
            "manifest of a scoring": (run(self.scoring, "manifest.json"), (self.show_scoring, self.report_scoring)),
            "resolved pipeline": (run(self.work, "resolved.yaml"), (self.diff, self.report)),
            "resolved pipeline of a killed run": (run(self.killed, "resolved.yaml"), (self.resume,)),
            "last": (lambda: self.files("results/cache/last/work/**/*.json"), (self.plan,)),
            "locks": (lambda: self.files("**/*.lock") + self.files("**/.*.lock"), (self.resume,)),
            "views": (lambda: self.files("results/views.sql"), (self.rerun,)),
        }
        for name in in_cache:
            kinds[f"cache: {name}"] = (entries(name), (self.rerun,))
        for name in tables:
            readers = {"metrics": (self.show, self.pivot, self.list, self.overview), "timings": (self.show,)}
            kinds[f"table: {name}"] = (of_table(name), readers.get(name, ()) + (self.report,))
        return kinds

    def undisturbed(self, action):
        if action.__name__ not in self.expected:
            copy(self.base, self.trial)
            done, found = action()
            if done.returncode != 0:
                sys.exit(f"{action.__name__} fails undisturbed: {done.stderr}")
            self.expected[action.__name__] = found
        return self.expected[action.__name__]

    def verdict(self, action, done, found):
        text = (done.stderr or "") + (done.stdout or "") + (found if isinstance(found, str) else "")
        if done.returncode in (70, -6, -11, 101, 134, 139) or "panicked" in text:
            return "crashed"
        if done.returncode in REFUSED:
            return "refused"
        if done.returncode != 0:
            return f"code {done.returncode}"
        if found == self.undisturbed_cached(action):
            return "same"
        return "said" if any(word in text for word in SAID) else "USED"

    def undisturbed_cached(self, action):
        return self.expected[action.__name__]

    def flip(self, kind, files, actions):
        file = self.random.choice(files)
        bit = self.random.randrange(8 * file.stat().st_size)
        action = self.random.choice(actions)
        self.undisturbed(action)
        copy(self.base, self.trial)
        target = self.trial / file.relative_to(self.base)
        data = bytearray(target.read_bytes())
        data[bit // 8] ^= 1 << bit % 8
        # In place, as a disk does it: a file that is linked elsewhere is flipped there, too.
        with open(target, "r+b") as handle:
            handle.write(data)
        done, found = action()
        verdict = self.verdict(action, done, found)
        self.tally.setdefault(kind, Counter())[verdict] += 1
        if verdict not in ("same", "refused", "said"):
            place = f"{kind}: bit {bit} of {file.relative_to(self.base)}, {action.__name__}: {verdict}"
            self.faults.append(place)
            print(f"{place}\n    {(done.stderr or '').strip()[-300:]}", flush=True)

    def run(self):
        for kind, (files, actions) in self.kinds().items():
            if WANTED and not any(word in kind for word in WANTED):
                continue
            found = files()
            if not found:
                print(f"{kind}: no such file", flush=True)
                continue
            for _ in range(FLIPS):
                self.flip(kind, found, actions)
            print(f"{kind}: {sum(self.tally[kind].values())} flips: {dict(self.tally[kind])}", flush=True)


def main():
    root = Path(tempfile.mkdtemp(prefix="stride-flips-"))
    bench = Bench(root)
    bench.run()
    total = sum(sum(counts.values()) for counts in bench.tally.values())
    print(f"{total} flips in {len(bench.tally)} kinds of files, {len(bench.faults)} fault(s)")
    shutil.rmtree(root)
    sys.exit(1 if bench.faults else 0)


main()

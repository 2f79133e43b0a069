# Everything runs in .venv, which make sets up by itself: it needs Python 3.11 or later, pip and make, nothing else.
# uv is put into .venv first; `uv run` then adds what a target needs, as uv.lock says.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
UV     := .venv/bin/uv
RUN    := $(UV) run --frozen --no-default-groups --extra all
PYTHONS := 3.11 3.12 3.13

# Only .venv counts, whatever the shell that called make had active.
export UV_PROJECT_ENVIRONMENT := .venv
export UV_PYTHON_DOWNLOADS := never
unexport UV_PYTHON VIRTUAL_ENV PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all-pythons test-floors test-real test-real-short coverage check format lock bench \
    bench-quick bench-pace bench-held-out bench-wrinkles bench-pace-gate bench-real docs docs-serve changelog build clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

# A Python without ensurepip (Debian's, without python3-venv) cannot put pip into a venv, but its own pip can fill one.
$(UV):
	@test -n "$(PYTHON)" || { echo "andante needs Python 3.11 or later; found none (make PYTHON=... names one)" >&2; exit 1; }
	@if $(PYTHON) -m venv --clear .venv >/dev/null 2>&1; \
	then .venv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.8'; \
	else $(PYTHON) -m venv --clear --without-pip .venv \
	    && $(PYTHON) -m pip --python .venv/bin/python install --quiet --disable-pip-version-check 'uv>=0.8'; fi
	@touch $(UV)

setup: $(UV) ## .venv with everything for working on andante
	$(UV) sync --frozen --extra all

demo: $(UV) ## the comparison on a real trace (DEMO_ARGS="--load 3 --seed 1 --json")
	$(RUN) andante demo $(DEMO_ARGS)

test: $(UV) ## the test suite (PYTEST_ARGS="-k bucket -x")
	$(RUN) --group test pytest $(PYTEST_ARGS)

# Each Python gets an environment of its own; one that is not here is left out, and said.
test-all-pythons: $(UV) ## the short suite on every Python from 3.11 to 3.13 that is here
	@ran=0; for v in $(PYTHONS); do \
	    python=$$(UV=$(UV) .ci/find-python $$v) || { echo "Python $$v: not here, left out"; continue; }; \
	    echo "Python $$v: $$python"; \
	    UV_PROJECT_ENVIRONMENT=.venv-$$v $(RUN) --python "$$python" --group test \
	        pytest -q -m "not real and not slow" $(PYTEST_ARGS) || exit 1; ran=$$((ran + 1)); \
	done; test $$ran -gt 0

test-floors: $(UV) ## the short suite with the oldest versions that pyproject.toml allows
	UV_PROJECT_ENVIRONMENT=.venv-floors $(UV) venv --quiet --clear --python .venv/bin/python .venv-floors
	$(UV) pip install --quiet --python .venv-floors/bin/python --resolution lowest-direct -e '.[all]'
	$(UV) pip install --quiet --python .venv-floors/bin/python --group test
	.venv-floors/bin/python -m pytest -q -m "not real and not slow" $(PYTEST_ARGS)

test-real: $(UV) ## a real engine under twice its capacity (60 s runs)
	ANDANTE_REAL_REQUIRED=1 $(RUN) --group test --group real pytest tests/real -m real -s $(PYTEST_ARGS)

test-real-short: $(UV) ## the same in 20 s: leaks and slots only
	ANDANTE_REAL_REQUIRED=1 ANDANTE_REAL_SECONDS=20 $(RUN) --group test --group real pytest tests/real -m real $(PYTEST_ARGS)

coverage: $(UV) ## the test suite with branch coverage
	$(RUN) --group test pytest --cov --cov-report=term $(PYTEST_ARGS)

check: $(UV) ## lint, format, types, import contract, lock file
	$(UV) lock --check --quiet
	$(RUN) --group lint ruff check
	$(RUN) --group lint ruff format --check
	$(RUN) --group lint mypy
	$(RUN) --group lint basedpyright
	$(RUN) --group lint lint-imports

format: $(UV) ## let ruff fix and format
	$(RUN) --group lint ruff check --fix
	$(RUN) --group lint ruff format

lock: $(UV) ## bring uv.lock up to date with pyproject.toml
	$(UV) lock

bench: $(UV) ## compare with peers, interleaved (BENCH_ARGS="...")
	$(RUN) --group bench python -m benchmarks $(BENCH_ARGS)

bench-quick: $(UV) ## that every benchmark runs; its figures mean little
	$(RUN) --group bench python -m benchmarks --quick

bench-pace: $(UV) ## value served by NaturalPace, as a share of the bound, on the main grid (minutes)
	$(RUN) --group bench python -m benchmarks.pace main $(BENCH_ARGS)

bench-held-out: $(UV) ## the same on other engines and mixes, and without objectives; nothing is tuned on them
	$(RUN) --group bench python -m benchmarks.pace held-out --policies natural natural-whole none $(BENCH_ARGS)
	$(RUN) --group bench python -m benchmarks.pace offline --policies natural natural-whole static-128 static-256 $(BENCH_ARGS)

bench-wrinkles: $(UV) ## the same under noise, freezes, wrong sizes, several gateways, ...
	$(RUN) --group bench python -m benchmarks.pace_wrinkles $(BENCH_ARGS)

bench-pace-gate: $(UV) ## a short grid: fails where less is served than benchmarks/pace_baseline.json allows
	$(RUN) --group bench python -m benchmarks.pace short --gate

bench-real: $(UV) ## NaturalPace and a limit in front of real engines in the same minute (REAL_ARGS="natural 1 --loads 1.5")
	$(RUN) --group test --group real python -m tests.real.pairs $(or $(REAL_ARGS),natural 1)

docs: $(UV) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(RUN) --group docs mkdocs build --strict --quiet

docs-serve: $(UV) ## the documentation at http://127.0.0.1:8000, rebuilt as you write
	NO_MKDOCS_2_WARNING=1 $(RUN) --group docs mkdocs serve

changelog: $(UV) ## what the changelog would say of the next release
	$(RUN) --group docs towncrier build --draft

build: $(UV) ## source archive and wheel into dist/
	$(UV) build

clean: ## remove everything that make made
	rm -rf .venv .venv-* site dist .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

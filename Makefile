# `make run` does the main job, `make check` is for every save, `make test` passes the tests. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KAFKA ?= 4.4.0
READY := $(VENV)/.ready
CALLERS = $(shell grep -lE '^(from|import) fencepost\.' examples/*.py examples/*/*.py campaigns/*.py | grep -v examples/sinks)  # of fencepost's own functions
unexport PYTHONDONTWRITEBYTECODE  # else every process of the tests compiles them anew, which costs seconds each

.PHONY: help run check everyday-tests test nightly-test setup lint controls bench clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: setup  ## perform campaigns/first.toml on a real cluster and report
	$(BIN)/fencepost campaign campaigns/first.toml

check: $(READY)  ## for every save: lint, types, and all tests that need no broker, no Spark and no browser
	@$(MAKE) --no-print-directory --jobs 2 lint everyday-tests

everyday-tests: $(READY)
	$(BIN)/python -m pytest --numprocesses auto -m "not cluster and not spark and not browser and not nightly"

test: setup  ## all tests, those on real clusters included
	$(BIN)/python -m pytest --numprocesses 4

nightly-test: setup  ## the tests that only the nightly runs (docs/development.md)
	$(BIN)/python -m pytest -m nightly

setup: $(READY)  ## virtual environment, locked dependencies, Kafka's jars
	@$(BIN)/fencepost cluster fetch $(KAFKA)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
		{ echo "fencepost needs Python 3.10 or newer as '$(PYTHON)' (Debian, Ubuntu: apt install python3; or make PYTHON=/path/to/python3.11 ...)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "Python's venv module is missing (Debian, Ubuntu: apt install python3-venv)"; exit 1; }
	@{ test -n "$$JAVA_HOME" && test -x "$$JAVA_HOME/bin/java"; } || command -v java >/dev/null || \
		{ echo "Java 17 or newer is missing (Debian, Ubuntu: apt install openjdk-17-jre-headless; or set JAVA_HOME)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy $(CALLERS)

controls: setup  ## perform the positive controls
	$(BIN)/fencepost campaign campaigns/controls.toml

bench: setup  ## measure, as ratios within one run
	$(BIN)/python -m benchmarks

clean:  ## remove what runs and tools left behind (not the results)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Each target sets up what it needs in a virtual environment of its own, one
# per Python version. Another interpreter: make test PYTHON=python3.13

PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c \
  'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV ?= .venv-$(VERSION)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Test processes, and anything to add to pytest's command line. A file's tests
# stay together, since they share compiled programs. A test process that crashes
# ends the run.
JOBS ?= 2
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo reproduce test lint format clean

help:
	@echo 'make demo       install, then translate with and without speculation'
	@echo 'make test       install, then lint and run the tests'
	@echo 'make reproduce  install, then write the tables and figures of the paper'
	@echo 'make lint       ruff and pyright'
	@echo 'make format     let ruff sort imports and format the code'
	@echo 'make clean      remove virtual environments and caches'
	@echo 'All of them take PYTHON=..., the interpreter to use (3.11 or newer).'

demo: $(VENV)/experiments.stamp
	$(BIN)/python -m experiments.generate --gin_file=gin_configs/demo.gin

reproduce: $(VENV)/experiments.stamp
	$(BIN)/python -m experiments.reproduce --gin_file=gin_configs/reproduce.gin

test: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --max-worker-restart 0 \
	  $(PYTEST_ARGS)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-* build *.egg-info
	rm -rf .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'specdec_jax needs Python 3.11 or newer; "$(PYTHON)" is' \
	    '"$(VERSION)". Name another one: make test PYTHON=python3.12' >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/experiments.stamp: pyproject.toml | $(BIN)/python
	$(PIP) install --editable '.[experiments]'
	@touch $@

# The developer's extra holds the experiments' one.
$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(PIP) install --editable '.[dev]'
	@touch $(VENV)/experiments.stamp $@

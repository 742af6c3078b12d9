# `make` builds the environment; `make quickstart` runs the whole pipeline on it.
# Nothing but Python 3.11-3.13, make and a C++ compiler is needed.
SHELL := /bin/bash
VENV ?= .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# The first interpreter on PATH that the project supports.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)

.PHONY: all env quickstart gpu-corpus test test-adversarial test-all lint format constraints clean
all: env
env: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11, 3.12 or 3.13 on PATH; install one, or say PYTHON=/path/to/python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check uv
	$(VENV)/bin/uv pip install --quiet --compile-bytecode --python $(PY) --constraint constraints.txt --editable '.[dev]'
	@touch $@

quickstart: $(READY)
	$(PY) -m pipelines.all --config configs/quickstart.yaml --corpus build/quickstart

# The same on a host with a CUDA device.
gpu-corpus: $(READY)
	$(PY) -m pipelines.all --config configs/gpu.yaml --corpus build/gpu-corpus

test: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest -m "not slow" -n 2

# Every cheat and every honest kernel; `make test` runs a sample of them.
test-adversarial: $(READY)
	$(PY) -m pytest tests/adversarial -n 2

test-all: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest -n 2

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m mypy

format: $(READY)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

# One universal, host-free set of pins for Python 3.11-3.13; run after changing pyproject.toml.
constraints:
	$(VENV)/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --no-header --no-annotate --quiet --output-file constraints.txt

clean:
	rm -rf build

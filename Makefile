# make setup [TORCH=2.11.0 | TORCH=path.whl] [PYTHON=python3.12] [PIP_OPTIONS="--index-url ..."]
# prepares .venv; every other target does so by itself when it is needed, with the same choices.

ifneq ($(shell uname -s),Linux)
$(error kernelwright runs on Linux only; this is $(shell uname -s))
endif

-include .venv/choices.mk
PYTHON ?= python3
TORCH ?= $(shell sed -n 's/^torch==//p' constraints.txt)
PIP_OPTIONS ?=

BIN := .venv/bin
CHOICE := $(shell printf '%s' '$(PYTHON) $(TORCH) $(PIP_OPTIONS)' | cksum | cut -d' ' -f1)
READY := .venv/ready-$(CHOICE)
TESTS := $(wildcard tests/pure tests/cpu tests/exploits tests/docs)
PYTEST := $(BIN)/python -m pytest
BUDGET ?= 90s

.PHONY: setup check test test-all demo docs clean

setup: $(READY)
	@echo "setup: .venv is ready; try $(BIN)/kernelwright doctor"

$(READY): pyproject.toml constraints.txt scripts/setup_venv.sh
	@scripts/setup_venv.sh '$(PYTHON)' '$(TORCH)' '$(PIP_OPTIONS)'
	@touch $@

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python scripts/module_size.py src tests scripts $(wildcard benchmarks examples)

# Tests marked `serial` measure time, so nothing may run beside them.
test: $(READY)
	$(PYTEST) -n 2 --dist worksteal -m "not slow and not serial and not gpu" $(TESTS)
	$(PYTEST) -m "serial and not slow and not gpu" $(TESTS)

test-all: $(READY)
	$(PYTEST) -n 2 --dist worksteal -m "not serial" $(TESTS) $(wildcard tests/gpu)
	$(PYTEST) -m serial $(TESTS) $(wildcard tests/gpu)

demo: $(READY)
	@$(BIN)/kernelwright optimize softmax --budget $(BUDGET); status=$$?; \
	echo "the result lies in $$(ls -dt runs/*-softmax-* | head -1)"; exit $$status

docs: $(READY)
	$(BIN)/python -m sphinx -q -W -b html docs build/docs
	@echo "docs: build/docs/index.html"

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

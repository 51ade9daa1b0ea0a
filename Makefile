# make demo          the whole path on the bundled sample, from nothing
# make test          lint, types, every test, and a bare install, from nothing (PYTHON=python3.13 for another Python)
# make unit          every test alone; WING=lab those of one wing, FILES=tests/engine/test_fuse.py those of a file
# make test-all      make test, then all groups of tests below but walk and faults: at most 30 minutes
# make pythons       a bare install, the demo and a core of the tests, with the other Pythons that we support
# make test-latest   the same with the newest version of every dependency
# make frameworks    the tests of the retrievers for LangChain, LlamaIndex and Haystack, and of docs/agents.md, with the SDKs
# make languages     the tests of the encoder for other languages, with its weights
# make milvus        the tests of the milvus backend, with milvus-lite
# make ray           the tests of bulk work on Ray, on a cluster of two nodes on this machine
# make browser       the tests that drive the pages with a real Chromium, which must be installed
# make walk          every command of every page of the documentation
# make long          the large forms of tests whose small forms make unit runs, and more examples of each property
# make growth        the tests that time grows with the size of the input, and not with its square
# make faults        200 kills, 1,000 damaged files of each kind, 1,000,000 odd inputs, 1,000 jobs (about four hours)
# make dist          build both wheels, and install them in an empty environment
# make lock          write constraints.txt again, with the newest versions
PYTHON ?= python3
PYTHONS ?= 3.11 3.12 3.13 3.14
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.ready-dev
REQUIREMENTS := pyproject.toml models/pyproject.toml $(CONSTRAINTS)
# pip compiles nothing here, and Python compiles a module when it is first imported. Where an environment forbids
# bytecode files, every process would compile everything again.
export PYTHONDONTWRITEBYTECODE :=

# An environment of another Python is made again.
ifneq ($(shell $(BIN)/python --version 2> /dev/null),$(shell $(PYTHON) --version 2> /dev/null))
$(shell rm -f $(READY) $(DEV))
endif
ENVIRONMENT := PYTHON=$(PYTHON) CONSTRAINTS=$(CONSTRAINTS) sh scripts/environment.sh

.PHONY: demo test test-all test-rest test-latest lint types unit smoke compiled docs long pythons frameworks languages milvus ray browser \
  growth walk faults lock dist clean

demo: $(READY)
	$(BIN)/surefind demo demo
	@echo 'surefind is not on your path yet. Run this first: . $(abspath $(BIN)/activate)'

# Two things at a time, since each of them uses one core. The tests use all cores, so they come last.
test:
	$(MAKE) $(DEV)
	$(MAKE) --jobs=2 --output-sync=target compiled types smoke lint
	$(MAKE) unit

test-all: test test-rest

# What cannot be installed is an error here.
test-rest: long pythons growth browser frameworks languages milvus ray

test-latest:
	rm -rf .venv-latest
	$(MAKE) test VENV=.venv-latest CONSTRAINTS=

lint: $(DEV)
	$(BIN)/ruff check src tests benchmarks models scripts training examples/plugin
	$(BIN)/ruff format --check src tests benchmarks models scripts training examples/plugin

types: $(DEV)
	$(BIN)/mypy

# Kernels are compiled once here. Otherwise each process of the tests would compile them. The files are named, because
# to collect all of them takes longer than these tests.
KERNELS := engine/test_contracts.py::test_retriever engine/test_contracts.py::test_fuser
KERNELS += engine/test_retrieve.py::test_a_scan_without_kernels_gives_the_same_bits
KERNELS += lab/test_measure_spans.py::test_lcs_of_a_text_with_itself_is_its_length
KERNELS += lab/test_train_features.py::test_rich_of_a_batch_is_that_of_each_query_alone
KERNELS += lab/test_train_features.py::test_trees_predict_what_xgboost_predicts
compiled: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/pytest --quiet $(addprefix tests/,$(KERNELS))

# WING=lab runs the tests of one wing, FILES='tests/lab/test_tune*.py' those of some files.
unit: $(DEV)
	BIN=$(BIN) sh scripts/unit.sh $(or $(FILES),$(if $(WING),tests/$(WING)))

# A test of properties has the mark `hypothesis`, and asks five times as many questions here.
long: $(DEV)
	BIN=$(BIN) sh scripts/unit.sh -m 'long or hypothesis' --hypothesis-profile long $(FILES)

# A user's install: no development tools, not editable, run from another folder.
smoke:
	PYTHON=$(PYTHON) CONSTRAINTS=$(CONSTRAINTS) sh scripts/smoke.sh

# docs/cli.md and docs/api.md are generated; a test fails when one is stale.
docs: $(DEV)
	$(BIN)/python scripts/cli_reference.py docs/cli.md
	$(BIN)/python scripts/api_reference.py docs/api.md

pythons: $(DEV)
	PYTHON=$(PYTHON) PYTHONS="$(PYTHONS)" CONSTRAINTS=$(CONSTRAINTS) sh scripts/pythons.sh

browser: $(DEV)
	@command -v chromium > /dev/null || { echo 'There is no chromium here. Install it: apt install chromium'; exit 1; }
	OMP_NUM_THREADS=1 $(BIN)/pytest -m browser

growth walk: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m $@

# The packages of frameworks, Milvus and Ray are large, and few users need them. The SDKs of agents refuse a version that
# constraints.txt has (websockets), so they have an environment of their own.
AGENT_SDKS := openai-agents==0.24.0 'anthropic[mcp]==2.9.0' 'pydantic-ai-slim[openai,mcp]==2.66.0'
frameworks:
	$(ENVIRONMENT) .venv-$@ -e ./models -e '.[langchain,llama-index,haystack]' pytest hypothesis
	.venv-$@/bin/pytest tests/doors/test_adapters.py
	PYTHON=$(PYTHON) CONSTRAINTS= sh scripts/environment.sh .venv-agents -e ./models -e '.[mcp]' pytest hypothesis $(AGENT_SDKS)
	.venv-agents/bin/pytest tests/doors/test_agent_docs.py

milvus ray languages:
	$(ENVIRONMENT) .venv-$@ -e ./models -e '.[$@,dev]'
	.venv-$@/bin/pytest tests/*/test_$@*.py

# The seeds are fixed, so that two runs do the same. docs/results/safety.md has the results.
faults: $(DEV)
	$(BIN)/python benchmarks/faults/kill.py --kills 200 --seed 1
	$(BIN)/python benchmarks/faults/damage.py --each 1000 --seed 1
	$(BIN)/python benchmarks/faults/fuzz.py --cases 1000000 --seed 1
	$(BIN)/python benchmarks/faults/freeze.py --jobs 1000

# One file for every platform and every Python from 3.11. hatchling and editables build the two packages, uv installs them.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check --upgrade uv
	printf 'hatchling\neditables\nuv\n' | .venv-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --no-annotate --no-emit-index-url --custom-compile-command 'make lock' \
	  --extra dev --extra languages --extra langchain --extra llama-index --extra haystack --extra milvus --extra ray --output-file constraints.txt pyproject.toml models/pyproject.toml -

# An interrupted install leaves no stamp behind, and the next one starts from nothing.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Surefind needs Python 3.11 or newer. Name one: make PYTHON=python3.12 $(MAKECMDGOALS)'; exit 1; }
	@echo 'Installing into $(VENV). This takes a minute the first time.'
	$(ENVIRONMENT) $(VENV) -e ./models -e '.[$(1)]'
	@touch $(2)
endef

DEMO := formats,serve
$(READY): $(REQUIREMENTS)
	$(call install,$(DEMO),$(READY))

$(DEV): $(REQUIREMENTS)
	$(call install,dev,$(READY) $(DEV))

# Builds both wheels, and installs them in an empty environment.
dist:
	rm -rf dist .venv-dist
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist ./models .
	PIP_CONSTRAINT=$(CONSTRAINTS) .venv-dist/bin/python -m pip install --quiet --disable-pip-version-check \
	  dist/surefind_models-*.whl "$$(ls dist/surefind-*.whl)[formats,serve]"
	cd / && $(CURDIR)/.venv-dist/bin/surefind --version

clean:
	rm -rf .venv .venv-* demo

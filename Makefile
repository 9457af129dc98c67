# Every command works in a fresh clone: each brings what it needs into the project first.
# Only Python 3.11 to 3.13 and a package registry are asked of the machine.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Tests start hundreds of processes, each of which would compile the whole library again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
DEMO_ARGS ?=
WALK_ARGS ?=
# One more than cores: a worker often waits for Spark, PostgreSQL or a process that it started.
WORKERS ?= 3
PINS_ARGS ?=

BIN := .venv/bin
READY := .venv/.ready
PEERS_READY := .venv-peers/.ready
AIRFLOW_READY := .venv-airflow/.ready
BROWSER_READY := .venv-browser/.ready
PIN_GROUPS := uv build core dev peers airflow browser
FAST := "not (postgres or crash or slow or full or bench or peers or s3 or azure or gcs or spark)"

##@ Start here

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: setup peers jars ## Run a pipeline on Spark end to end, each step checked
	@LAKEWARD_CACHE="$(CURDIR)/.jars" $(BIN)/lakeward demo $(DEMO_ARGS)

.PHONY: test
test: setup ## Run everything: lint, types, layers, all tests
	@$(MAKE) --no-print-directory -j 2 check archive peers browser
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

.PHONY: setup
setup: $(READY) ## Create .venv from the pins
	@:

.PHONY: peers
peers: $(PEERS_READY) ## Create .venv-peers: the readers that are not ours
	@:

.PHONY: browser
browser: $(BROWSER_READY) ## Create .venv-browser: what looks at the service from outside
	@:

.PHONY: jars
jars: setup ## Fetch the jars for Spark into .jars
	@LAKEWARD_CACHE="$(CURDIR)/.jars" $(BIN)/python -m lakeward.engines.spark.jars

.PHONY: archive
archive: jars ## Archive the classes of Spark, so that the tests start it faster
	@$(BIN)/python -m tests.support.class_archive

##@ While working

.PHONY: unit
unit: setup ## Run the fast tests only
	$(BIN)/pytest -m $(FAST) $(PYTEST_ARGS)

.PHONY: check
check: lint types imports ## Run every check that needs no test

.PHONY: fmt
fmt: setup ## Format and mend what can be mended
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

.PHONY: lint
lint: setup ## Check style and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: types
types: setup ## Check types
	$(BIN)/mypy

.PHONY: imports
imports: setup ## Check that imports point down the layers
	$(BIN)/lint-imports --no-logo

.PHONY: walk
walk: setup jars ## Trace the main paths through the packages and modules
	@LAKEWARD_CACHE="$(CURDIR)/.jars" $(BIN)/python scripts/walk $(WALK_ARGS) 2>/dev/null

.PHONY: docs
docs: setup ## Build the documentation as a site in build/site, strictly
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

.PHONY: docs-serve
docs-serve: setup ## Show the documentation at http://127.0.0.1:8000, and changes as they are made
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict

##@ Proof

.PHONY: pythons
pythons: setup ## Run the fast tests on every Python that pyproject.toml names and this machine has
	@$(BIN)/python -c "from tests.support import pythons; [print(*found) for found in pythons.found().items()]" \
		| while read -r version python; do \
			PYTHON="$$python" scripts/bootstrap ".venv-$$version" requirements/dev.txt --editable || exit 1; \
			echo "Python $$version"; \
			".venv-$$version/bin/pytest" -q -n 2 -m $(FAST) $(PYTEST_ARGS) || exit 1; \
		done

.PHONY: faults
faults: setup peers ## Run the fault tests at full size and print their figures
	$(BIN)/pytest -m full -s $(PYTEST_ARGS)

.PHONY: matrix
matrix: setup ## Run all of the behaviour suite for every format and store, on an S3 server too
	$(BIN)/pytest -n 2 --dist loadgroup --everywhere tests/behaviour $(PYTEST_ARGS)

.PHONY: s3
s3: setup ## Run the whole behaviour suite with the warehouse on an S3 server
	$(BIN)/pytest -m "s3 and not full" --everywhere $(PYTEST_ARGS)

.PHONY: azure
azure: setup jars ## Run the storage suite, also with Spark, on Azurite from npm
	$(BIN)/pytest -m azure -n 0 $(PYTEST_ARGS)

.PHONY: gcs
gcs: setup jars ## Run the storage suite, also with Spark, on fake-gcs-server, built by Go
	$(BIN)/pytest -m gcs -n 0 $(PYTEST_ARGS)

.PHONY: airflow
airflow: $(AIRFLOW_READY) ## Run the tests of the Airflow provider, in an environment with Airflow
	.venv-airflow/bin/pytest -p no:cacheprovider tests/airflow $(PYTEST_ARGS)

.PHONY: bench
bench: setup peers ## Compare with the peers, interleaved in one run
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

##@ Upkeep

.PHONY: pins
pins: ## Compile requirements/*.in again (PINS_ARGS=--upgrade moves every version)
	@scripts/bootstrap uv
	@cd requirements && for group in $(PIN_GROUPS); do \
		echo "requirements/$$group.txt"; \
		UV_SYSTEM_CERTS=1 ../.tools/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
			--no-emit-index-url --no-header --no-annotate $(PINS_ARGS) $$group.in --output-file $$group.txt || exit 1; \
	done

.PHONY: clean
clean: ## Remove environments, tools, caches and builds
	rm -rf .venv .venv-* .tools .jars .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml scripts/bootstrap
	@PYTHON="$(PYTHON)" scripts/bootstrap .venv requirements/dev.txt --editable
	@touch $@

$(BROWSER_READY): requirements/uv.txt requirements/browser.txt scripts/bootstrap
	@PYTHON="$(PYTHON)" scripts/bootstrap .venv-browser requirements/browser.txt
	@touch $@

$(AIRFLOW_READY): requirements/uv.txt requirements/airflow.txt pyproject.toml scripts/bootstrap
	@PYTHON="$(PYTHON)" scripts/bootstrap .venv-airflow requirements/airflow.txt --editable
	@touch $@

$(PEERS_READY): requirements/uv.txt requirements/peers.txt scripts/bootstrap
	@PYTHON="$(PYTHON)" scripts/bootstrap .venv-peers requirements/peers.txt
	@touch $@

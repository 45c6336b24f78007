# Everything runs in .venv: made at the first use, renewed when pyproject.toml or constraints.txt change, repaired when
# broken, never deleted. The install is editable, so changes of the source need no new one.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
CORE := torch numpy pydantic typer rich safetensors matplotlib plotly jinja2 pooch PIL scipy torchmetrics
FAST := tests/test_layering.py tests/laws/test_interface_laws.py tests/algorithms/test_identities.py \
	tests/report/test_summary.py tests/test_cli.py::test_resume_finishes_a_run_and_shows_its_result \
	tests/runs/test_resume_after_kill.py::test_a_killed_process_is_resumed_to_the_same_bits
DEV := pytest hypothesis xdist pytest_timeout ruff pyright optuna tensorboard mlflow wandb h5py \
	pandas datasets nbclient ipykernel flwr dp_accounting mkdocs material mkdocstrings nbconvert

# $(call complete,modules): "yes" when .venv can find them, and finds driftless in this directory. Imports none: 50 ms.
complete = $(shell $(BIN)/python -c 'import os, sys; from importlib.util import find_spec; here = find_spec("driftless"); \
	sys.exit(not (here and os.path.realpath("src/driftless") in map(os.path.realpath, here.submodule_search_locations) \
	and os.path.exists("$(BIN)/driftless") and all(map(find_spec, sys.argv[1:]))))' pip $(1) 2>/dev/null && echo yes)

# $(call install,requirement,modules): ends with all modules importable, whatever state .venv was left in.
define install
	@$(MAKE) --no-print-directory venv
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '$(1)'
	@$(BIN)/python -c 'import sys; list(map(__import__, sys.argv[1:]))' $(2) || { \
		echo "$(VENV) has damaged packages; installing all of them again."; \
		$(BIN)/python -m pip install --disable-pip-version-check --ignore-installed -c constraints.txt -e '$(1)'; }
endef

.DEFAULT_GOAL := help
.PHONY: help run check test lint format docs docs-serve fuzz soak bench clean venv FORCE
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.installed ## install driftless and compare algorithms on the digits example
	$(BIN)/driftless compare examples/digits.toml $(ARGS)

check: lint ## lint, and the fastest tests of every part: under a minute
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 $(FAST)

test: $(VENV)/.installed-dev ## run the tests in two processes (ARGS="-k sentence" selects)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

lint: $(VENV)/.installed-dev ## check style, formatting and types
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m pyright

format: $(VENV)/.installed-dev ## format the code and repair what ruff can repair
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

docs: $(VENV)/.installed-dev ## build the site, build/site/index.html; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "open build/site/index.html in a browser, or make docs-serve"

docs-serve: $(VENV)/.installed-dev ## show the site at http://127.0.0.1:8000, built anew after each change
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

fuzz: $(VENV)/.installed-dev ## give 10,000 random configurations, words, arguments and damaged files (minutes)
	OMP_NUM_THREADS=1 DRIFTLESS_FUZZ_CASES=10000 $(BIN)/python -m pytest -n 2 tests/fuzz $(ARGS)

soak: fuzz ## fuzz, kill runs 200 times at random moments, and run on an emulated accelerator (minutes)
	DRIFTLESS_EMULATED=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(ARGS) tests/engine/test_device.py -k emulated
	OMP_NUM_THREADS=1 DRIFTLESS_KILLS=200 $(BIN)/python -m pytest $(ARGS) \
		tests/runs/test_resume_after_kill.py::test_a_run_killed_at_random_moments_is_resumed_to_the_same_bits

bench: $(VENV)/.installed ## compare the speed with other simulators, write benchmarks/RESULTS.md (about an hour)
	PYTHON=$(abspath $(BIN))/python sh benchmarks/peers/install.sh
	$(BIN)/python benchmarks/results.py $(ARGS)

clean: ## remove caches and build products; .venv and runs/ stay
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find src tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.installed: pyproject.toml constraints.txt $(if $(call complete,$(CORE)),,FORCE)
	$(call install,.,$(CORE))
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt $(if $(call complete,$(CORE) $(DEV)),,FORCE)
	$(call install,.[dev],$(CORE) $(DEV))
	@touch $(VENV)/.installed $@

# A .venv whose Python runs is kept as it is; in another one, links to a Python that is gone are replaced.
venv:
	@if ! $(BIN)/python -c '' 2>/dev/null; then \
		$(PYTHON) -c '' 2>/dev/null || { \
			echo "No Python called '$(PYTHON)' was found. Name one: make PYTHON=/path/to/python3.11 run"; exit 1; }; \
		$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
			echo "driftless needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
				"Name a newer one: make PYTHON=python3.11 run"; exit 1; }; \
		for link in $(BIN)/python*; do test -e "$$link" || rm -f "$$link"; done; \
		$(PYTHON) -m venv $(VENV); \
	fi
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "driftless needs Python 3.11 or newer; $(VENV) has $$($(BIN)/python --version 2>&1)." \
			"Move it away (mv $(VENV) $(VENV)-old) and run make PYTHON=python3.11 run"; exit 1; }
	@$(BIN)/python -c 'import pip' 2>/dev/null || $(BIN)/python -m ensurepip --upgrade

FORCE:

# Every command of the project. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export PYTHONPATH := $(CURDIR)

##@ Start here
.PHONY: help demo test
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## Real cluster, a Serval stand-in, a finished build that becomes a live translation
	@scripts/demo

test: setup ## Everything: lint, unit, integration (real apiserver), end to end (real cluster)
	@scripts/test

##@ Tests, one tier at a time
.PHONY: lint test-unit test-integration test-e2e test-slow prove fuzz
lint: setup ## ruff, mypy --strict, import contracts, pip check
	@scripts/lint

test-unit: setup ## Fast tests without services
	@scripts/test unit

test-integration: setup ## Tests on a real etcd + kube-apiserver, a real S3 server and real predictor processes
	@scripts/test integration

test-e2e: setup ## Tests on the real cluster
	@scripts/test e2e

test-slow: setup ## Every tier with unscaled waits
	@SERVAL_LIVE_TIME_FACTOR=1 scripts/test unit integration e2e

fuzz: setup ## Many more calls by the fuzzer than a test run makes (SERVAL_LIVE_FUZZ_EXAMPLES, default 1000)
	@SERVAL_LIVE_FUZZ_EXAMPLES=$${SERVAL_LIVE_FUZZ_EXAMPLES:-1000} SERVAL_LIVE_FUZZ_SECONDS=7200 $(BIN)/python -m pytest \
		-o timeout=7300 tests/integration/predictor/test_openapi.py

prove: setup ## Swap each guarded function for its naive version and expect its test to fail
	@$(BIN)/python -m tests.support.prove

##@ Figures and images
.PHONY: bench gpu-check images
bench: setup ## Run all benchmarks, or one with NAME=conversion
	@$(BIN)/python -m benchmarks $(NAME)

gpu-check: setup ## On a machine with a GPU: compute types, probes and memory, written into docs/gpu.md
	@$(BIN)/python -m benchmarks.gpu_check

images: setup ## Build all images and push them with REGISTRY=…
	@scripts/images $(REGISTRY)

##@ Set-up
.PHONY: setup clean
setup: $(STAMP) ## Python environment in .venv

$(STAMP): pyproject.toml constraints.txt
	@echo "==> Python environment in $(VENV) (a minute or two)"
	@command -v $(PYTHON) > /dev/null || { echo "serval-live needs Python 3.11 or newer: apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit("serval-live needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@# An environment without pip is what an attempt without Debian's python3-venv leaves behind.
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean: ## Remove what the build left in the checkout
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

##@ Cluster and data
-include devcluster/devcluster.mk
-include tinymodel/tinymodel.mk

# Sickbay. `make help` lists what there is; `make demo` and `make test` set up what they need.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup services demo thread check test bench fuzz docs

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
SERVICES ?=
WORKERS ?= 2

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | awk -F'\t' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: $(STAMP)  ## create .venv from requirements.lock (needs Python >= 3.11; network once)

$(STAMP): requirements.lock pyproject.toml
	@deploy/setup "$(PYTHON)" $(VENV)
	@touch $@

services:  ## install the real services that the tests use (as root; seconds the next time)
	@tests/services/install

demo: $(STAMP)  ## break a small simulated cluster and diagnose it; the report is out/demo.html
	@mkdir -p out
	@$(BIN)/sickbay demo --report out/demo.html

check: $(STAMP)  ## lint, types, layers and the fast tests: under two minutes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -n $(WORKERS) -m "not slow and not service"

test: $(STAMP)  ## all tests; SERVICES=require installs every service and fails where one is missing
	@if [ "$(SERVICES)" = require ]; then tests/services/install; fi
	@SERVICES=$(SERVICES) $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
	@status=0; export SERVICES=$(SERVICES); \
	$(BIN)/pytest -n $(WORKERS) --durations=15 -m "not thread" || status=1; \
	$(BIN)/pytest --durations=0 -m thread || status=1; exit $$status
	@tests/services/missing

thread: $(STAMP)  ## one fault through real Kafka, Slurm, Prometheus and Alertmanager, then on the embedded log
	@tests/services/install thread
	@SERVICES=require $(BIN)/python -m tests.thread

bench: $(STAMP)  ## print the numbers, each with its conditions
	@$(BIN)/python -m benchmarks parse --json

accuracy: $(STAMP)  ## small windows of the accuracy benchmark; fails where a score leaves its pinned interval
	@$(BIN)/python -m benchmarks accuracy --quick --json

fuzz: $(STAMP)  ## the property and mutation tests with ten times the inputs
	@FUZZ_FACTOR=10 $(BIN)/pytest -n $(WORKERS) -m "slow or not slow" -k "fuzz or mutat or property or law"

docs: $(STAMP)  ## write docs/reference.md from the code
	@$(BIN)/python docs/build.py

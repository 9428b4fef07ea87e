# Everything runs from a virtual environment in .venv that the targets make themselves: all they need beforehand is
# Python >= 3.11 with pip and venv. `make PYTHON=/path/to/python3.13 venv` chooses the interpreter.

VENV    ?= .venv
BIN     := $(VENV)/bin
PYTEST  := $(BIN)/python -m pytest
# Tests start whole crawls, each with several processes: more runners than this only makes them wait for each other.
RUNNERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ "$$n" -le 4 ] || n=4; echo $$n)
ARGS    ?=
MINUTES ?= 1

.DEFAULT_GOAL := help
.PHONY: help venv runtime new update demo test test-all check check-deploy format fuzz audit coverage bench bench-dedup bench-check soak up down lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: ## .venv with everything locked in requirements-dev.txt (a second run takes no time)
	@PYTHON="$(PYTHON)" VENV="$(VENV)" deploy/venv.sh requirements-dev.txt

runtime:
	@PYTHON="$(PYTHON)" VENV="$(VENV)" deploy/venv.sh requirements.txt

new: ## a copy of this project under another name (NAME=shop DIR=../shop CONTACT=https://shop.example/bot)
	@$(or $(PYTHON),python3) deploy/template.py new "$(NAME)" "$(DIR)" "$(CONTACT)"

update: ## in a copy: take in what the template changed since; your rooms stay (FROM=PATH-OR-URL REF=main)
	@$(or $(PYTHON),python3) deploy/template.py update "$(FROM)" "$(or $(REF),HEAD)"

demo: runtime ## a local website, three workers, one frontier; ends with a table (ARGS="--pages 1000 --kill")
	@$(BIN)/scrapy demo $(ARGS)

test: venv ## the default suite (ARGS="-k bloom")
	@$(PYTEST) -n $(RUNNERS) $(ARGS)

test-all: venv ## the default suite, the slow tests and, where an engine runs, the Docker tests
	@$(PYTEST) -n $(RUNNERS) -m "" --ignore tests/benchmarks $(ARGS)

check: venv ## ruff and mypy
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

check-deploy: venv ## Dockerfile, compose file, Kubernetes manifests, Prometheus's rules: static checks
	@BIN=$(BIN) sh deploy/check.sh

format: venv ## let ruff fix and format what it can
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

fuzz: venv ## damaged payloads, seeds, rules and .env files, for MINUTES (1); stops at the first that does harm
	@$(BIN)/python -m tests.fuzz $(MINUTES)

audit: venv ## known holes of the locked packages, from PyPI's advisories or OSV (needs the network)
	@BIN=$(BIN) sh deploy/audit.sh

coverage: venv ## the default suite once more, with branch coverage of every process it starts (ARGS as for test)
	@BIN=$(BIN) sh deploy/coverage.sh -n $(RUNNERS) $(ARGS)

bench: venv ## the benchmarks, figures to docs/benchmarks.md (an hour on a quiet machine; QUICK=1: minutes; ARGS="worker dedup": these)
	@$(BIN)/python -m pip install -q --no-deps --require-hashes -r requirements-bench.txt || echo "without scrapy-redis-bloomfilter"
	@$(if $(findstring .py,$(ARGS)),$(PYTEST) -m "" -s $(ARGS),$(BIN)/python -m tests.benchmarks $(if $(QUICK),--quick) $(ARGS))

bench-check: venv ## did the frontier become dearer? counts and ratios only, two minutes, on a busy machine too
	@$(BIN)/python -m tests.benchmarks.bench_check

soak: MINUTES = 20
soak: venv ## workers at full speed for MINUTES=20 on an endless local site: is memory flat, is nothing left over?
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

bench-dedup: venv ## measure and draw docs/dedup.md anew (20 minutes; what needs a quiet machine: ARGS="-k dedup_time")
	@BENCH_WRITE=1 $(PYTEST) -m "" -s tests/benchmarks/bench_dedup.py tests/benchmarks/bench_dedup_time.py tests/integration/test_dedup_processes.py $(ARGS)
	@$(BIN)/python -m tests.benchmarks.dedup_figures

up: .env ## Redis and $WORKERS workers of $SPIDER in Docker (ARGS="--scale worker=4 --detach")
	@docker compose version >/dev/null 2>&1 || { echo "make up needs Docker with its compose plugin; without Docker: make demo, or scrapy crawl" >&2; exit 1; }
	docker compose up --build $(ARGS)

down: ## stop what `make up` started; data stays in the volumes (ARGS=--volumes removes it)
	docker compose --profile '*' down $(ARGS)

.env:
	@sed "s/^REDIS_PASSWORD=.*/REDIS_PASSWORD=$$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')/" .env.example > .env
	@echo "wrote .env with a new Redis password; edit it to make the crawler yours"

lock: venv ## compile requirements.txt and requirements-dev.txt from pyproject.toml (ARGS=--upgrade for newer versions)
	@PYTHON="$(PYTHON)" ARGS="$(ARGS)" deploy/lock.sh

clean: ## remove .venv and every cache; .env, items and .scrapy stay
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

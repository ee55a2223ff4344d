# Every command a person needs. `make` alone explains them; ARGS="…" goes to the command that a target runs.
PYTHON ?= python3
BIN    := .venv/bin
PARTS  := libs/common services/env-bundle services/resources services/head services/driver
PEERS  := $(patsubst requirements/peer-%.txt,.venvs/%/.installed,$(wildcard requirements/peer-*.txt))
OUTPUT ?= results/$(shell date +%Y%m%d-%H%M%S)/rollouts.jsonl
ARGS   ?=
# Two processes share the tests' files in the order given: the containers' tests, the longest work, begin first.
# make test ARGS="--numprocesses 0" has one process do all, for --pdb.
AT_ONCE := --numprocesses 2 --no-loadscope-reorder --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help install eval test test-unit lint up down compose-eval simulate bench bench-sessions pin peers clean

help: ## what there is
	@echo "Rollgym: make TARGET [ARGS=…]. Start with: make eval (this machine), or: make up compose-eval (containers)"
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' Makefile

install: .venv/.installed ## make .venv with the pinned requirements (PYTHON=python3.13 picks an interpreter)
.venv/.installed: scripts/install.sh requirements/build.txt requirements/run.txt requirements/dev.txt $(PARTS:%=%/pyproject.toml)
	@scripts/install.sh .venv $(PYTHON) "requirements/run.txt requirements/dev.txt" $(PARTS)

eval: install ## run the 200 example tasks with the scripted policy; no Docker, no key, no network
	$(BIN)/gym eval run --input examples/gridsim/tasks.jsonl --output $(OUTPUT) $(ARGS)

test: install ## unit, integration (real processes), compose (real containers), e2e (a browser); skips say why
	$(BIN)/pytest -v -rs $(AT_ONCE) tests/compose tests/e2e tests/integration tests/unit $(ARGS)

test-unit: install ## the tests without sockets: seconds
	$(BIN)/pytest -v $(AT_ONCE) tests/unit $(ARGS)

lint: install ## ruff, mypy --strict, import rules, Prometheus rules, what must not be committed
	@scripts/lint.sh $(BIN)

up: ## build and start head, env-bundle, resources; ready when it returns (ARGS='prometheus grafana' adds dashboards)
	scripts/compose.sh up --build --detach --wait $(ARGS) head env-bundle resources
	@echo "up: http://127.0.0.1:$${HEAD_PORT:-11000} shows servers and runs; make compose-eval runs an eval, make down ends it"

compose-eval: ## one more eval in the containers; the eval's exit code, results in ./results (ARGS="--limit 20")
	scripts/compose.sh run --rm --build driver eval run --no-serve --config /opt/rollgym/eval.yaml $(ARGS)

down: ## leave nothing of the stack in Docker; results and history of runs stay (./results, ./history)
	docker compose --profile monitoring down --remove-orphans $(ARGS)

simulate: install ## capacity simulator: the driver's loop and collector under full load, as a table
	$(BIN)/gym simulate capacity $(ARGS)

bench: install ## the driver measured, beside the published nemo-gym with ARGS="--peer-venv VENV"
	$(BIN)/python -m benchmarks.drivers $(ARGS)

bench-sessions: install ## sessions under load: busy bundle, herd, throughput, as tables
	$(BIN)/python -m benchmarks.sessions $(ARGS)

pin: ## pin requirements/*.in anew (ARGS=--upgrade takes the newest versions)
	scripts/pin.sh $(ARGS)

peers: $(PEERS) ## virtual environments of the published programs that tests run beside ours
.venvs/%/.installed: requirements/peer-%.txt scripts/install.sh
	@scripts/install.sh .venvs/$* $(PYTHON) $<

clean: ## remove what make and the tools made here; results stay
	rm -rf .venv .venvs .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find libs services -name '*.egg-info' -o -name __pycache__ | xargs rm -rf

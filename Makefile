# `make help` lists the targets. Everything lives in .venv; the system's Python is left alone.
SHELL := bash
VENV := .venv/bin
SOURCES := apps cua envs model_runtime visual_tools tests $(wildcard benchmarks examples scripts)
TEST_PROGRAMS := xterm mousepad galculator xclip
WORKERS ?= 3# tests wait for programs half of the time
# one process for each part of the tests, which imports what that part needs and starts one browser; the longest first
LONGEST := apps/assistant envs cua visual_tools model_runtime
FOLDERS := $(filter-out apps __pycache__ apps/__pycache__,$(patsubst tests/%/,%,$(wildcard tests/*/ tests/apps/*/)))
PARTS := $(LONGEST) $(filter-out $(LONGEST),$(FOLDERS)) $(notdir $(wildcard tests/test_*.py))
RUN_PARTS = $(MAKE) --no-print-directory --keep-going --jobs=$(WORKERS) --output-sync=target $(PARTS:%=run-tests/%)

.DEFAULT_GOAL := help
.PHONY: help demo assistant web-demo video-demo runtime-demo rollouts-demo demo-nano nano nano-smoke test test-all check format lint types docs docs-check fuzz mutate bench runtime-bench kernels-bench gpu-check tune kernel-docs clean venv dev

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 14

demo: venv ## set everything up and watch the agent finish a task in a real browser
	@scripts/setup.sh
	@$(VENV)/cua demo

assistant: ## set everything up and open the assistant in the browser
	@scripts/bootstrap.sh assistant
	@scripts/setup.sh
	@$(VENV)/cua assistant $(ARGS)

web-demo: venv ## build a site from a screen recording, with no key, and write a report of the rounds (a minute)
	@scripts/setup.sh
	@rm -rf web-demo
	@$(VENV)/cua web demo -o web-demo

video-demo: venv ## watch two videos that come along, with no key, and write a page with clips
	@scripts/setup.sh
	@rm -rf video-demo
	@$(VENV)/cua video --demo

runtime-demo: ## serve a tiny K2.5 on this machine and send it an agent's requests
	@scripts/bootstrap.sh runtime-dev
	@$(VENV)/python -m examples.runtime_demo

rollouts-demo: venv ## groups of rollouts for reinforcement learning with the small model that is shipped: no key, no GPU
	@scripts/bootstrap.sh nano
	@$(VENV)/cua rollout run screens --group 4 --sample 8 --seeds 1 --temperature 0.5 -o rollouts-demo $(if $(wildcard rollouts-demo),--resume)

demo-nano: venv ## watch the small model that is shipped do ten tasks on a page: no key, no GPU (the first time: 600 MB for torch)
	@scripts/bootstrap.sh nano
	@scripts/setup.sh
	@$(VENV)/cua eval garden --model nano

# memory in large pages that a step leaves to the next one: else the system takes it back and clears it again
KEEPS_MEMORY = glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=8000000000

nano: venv ## train nano-K2.5 from nothing on this machine, in about two hours on two cores (ARGS="--scale 0.5")
	@scripts/bootstrap.sh train
	@scripts/fonts.sh
	@GLIBC_TUNABLES=$(KEEPS_MEMORY) $(VENV)/cua train nano $(ARGS)

nano-smoke: venv ## three minutes of its course: does it begin to read?
	@scripts/bootstrap.sh train
	@scripts/fonts.sh
	@rm -rf nano-smoke
	@$(VENV)/cua train nano-smoke --smoke

# several tests at a time share few cores: OpenMP's threads would wait there for each other, and spin
test test-all: export OMP_NUM_THREADS ?= 1
# containers often forbid to keep compiled sources: each of the hundreds of processes that tests start would compile them
test test-all: export PYTHONDONTWRITEBYTECODE =

test: dev ## set up what is missing and run the quick tests: those that take about a second or less
	@$(RUN_PARTS) SELECTED='-m "not slow and not long"'

test-all: dev ## all tests, the K2.5 runtime's too: every kernel compiled, each sandbox attacked (40 minutes)
	@scripts/bootstrap.sh runtime-dev
	@$(RUN_PARTS)

# 5: a part none of whose tests are selected
run-tests/%:
	@echo "== tests/$*"; $(VENV)/python -m pytest -o cache_dir=.pytest_cache/$* $(SELECTED) tests/$* $(ARGS) || [ $$? = 5 ]

check: lint types docs-check test ## format, lint, strict types, generated docs, tests

format: dev ## rewrite the sources in the project's format
	@$(VENV)/ruff format $(SOURCES)
	@$(VENV)/ruff check --fix $(SOURCES)

lint: dev
	@$(VENV)/ruff format --check $(SOURCES)
	@$(VENV)/ruff check $(SOURCES)

types: dev
	@$(VENV)/python -m mypy

docs: dev ## regenerate the generated pages of docs/
	@$(VENV)/python scripts/make_docs.py

docs-check: dev
	@$(VENV)/python scripts/make_docs.py --check
	@$(VENV)/python -m scripts.make_kernel_docs --check

fuzz: dev ## run the property tests for longer (FUZZ_EXAMPLES=20000)
	@FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-20000} $(VENV)/python -m pytest tests/fuzz $(ARGS)

mutate: dev ## break guards one at a time in a copy, and list what no test notices (ARGS="cua/run/budget.py --each 10")
	@$(VENV)/python scripts/mutate.py $(ARGS)

bench: dev ## print our figures beside the usual way of doing a step
	@$(VENV)/python benchmarks/startup.py
	@$(VENV)/python benchmarks/literal.py
	@$(VENV)/python benchmarks/step_overhead.py browser
	@$(VENV)/python benchmarks/step_overhead.py desktop
	@$(VENV)/python benchmarks/sandbox.py
	@$(VENV)/python -m benchmarks.visual.mazes --per-kind 2
	@$(VENV)/python -m benchmarks.visual.shares --each 4
	@$(VENV)/python benchmarks/visual/differences.py --pairs 12
	@$(VENV)/python benchmarks/visual/counting.py --scenes 4
	@$(VENV)/python -m benchmarks.visual.ocr_boxes
	@$(VENV)/python -m benchmarks.visual.ocr_turned
	@$(VENV)/python benchmarks/visual/video.py --minutes 2 --frames 68

runtime-bench: ## print the K2.5 runtime's figures beside transformers', tiktoken's and plain FastAPI's
	@scripts/bootstrap.sh dev
	@scripts/bootstrap.sh runtime-dev
	@for name in decode "decode --prompt 512 --new 32" agent_step vision template sampling rounding checkpoint server clients; do \
	  echo "== $$name"; $(VENV)/python -m benchmarks.runtime.$$name || exit 1; done

kernels-bench: ## time every kernel beside its peers (at toy sizes where there is no GPU)
	@scripts/bootstrap.sh runtime-dev
	@$(VENV)/python -m benchmarks.kernels $(ARGS)

gpu-check: ## on a GPU: check and measure kernels and engine in order, 40 minutes, resumable (OUT=DIR ARGS=--plan)
	@$(if $(PYTHON),,scripts/bootstrap.sh runtime-dev)
	@$(or $(PYTHON),$(VENV)/python) -m benchmarks.gpu_check $(if $(OUT),--out $(OUT)) $(ARGS)

tune: ## look for faster tiles on this GPU and write them to the table (ONLY=moe_int4.gate_up)
	@scripts/bootstrap.sh runtime-dev
	@$(VENV)/python -m benchmarks.kernels.tune $(if $(ONLY),--only $(ONLY)) $(ARGS)

kernel-docs: dev ## compile all kernels for Hopper and regenerate the generated parts of docs/kernels.md
	@scripts/bootstrap.sh runtime-dev
	@$(VENV)/python -m scripts.make_kernel_docs --compile

clean: ## remove .venv and every cache
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@scripts/bootstrap.sh all

dev:
	@scripts/bootstrap.sh dev
	@scripts/fonts.sh
	@scripts/setup.sh $(TEST_PROGRAMS)

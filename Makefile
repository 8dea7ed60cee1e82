# make setup | demo | test | bench | lint | lock | prometheus | check-deploy | doctor | clean. Needs Python 3.11 or newer and make, nothing else.
VENV := .venv/bin
SETUP = @python=$$(sh tools/find-python.sh) && "$$python" tools/setup.py
ARGS ?=

.PHONY: help setup demo test bench lint lock prometheus check-deploy doctor clean

help:
	@echo "make setup    .venv with the crossline command; Java and jars where they are missing"
	@echo "make demo     a stream of card payments, its frauds and the alerts, on this machine"
	@echo "make test     all tests          (ARGS='tests/unit -k times' for some)"
	@echo "make bench    all measurements   (ARGS=--help for a choice)"
	@echo "make lint     style, format, types"
	@echo "make doctor   what is installed, what is missing and how to get it"
	@echo "make lock     resolve the dependencies anew into the locks (ARGS=--upgrade for newer versions)"
	@echo "make prometheus    build a Prometheus, and have it scrape a run and judge by deploy/watch (needs Go)"
	@echo "make check-deploy  hold deploy/ against hadolint, compose, helm and the schemas of Kubernetes (needs Go)"
	@echo "make clean    remove everything that make made"

setup:
	$(SETUP)

demo: setup
	$(VENV)/crossline demo $(ARGS)

test:
	$(SETUP) broker
	$(VENV)/python -m pytest -n 2 --dist loadgroup $(ARGS)

bench:
	$(SETUP) broker
	$(VENV)/python -m bench $(ARGS)

lint: setup
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	$(VENV)/mypy

lock: setup
	sh tools/lock.sh $(ARGS)

prometheus: setup
	sh tools/go.sh prometheus
	CROSSLINE_PROMETHEUS=$(CURDIR)/.cache/go $(VENV)/python -m pytest -n 0 tests/e2e/test_prometheus.py $(ARGS)

check-deploy: setup
	sh tools/check-deploy.sh

doctor: setup
	$(VENV)/crossline doctor $(ARGS)

clean:
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis out bench/results
	find src tests bench tools -name __pycache__ -prune -exec rm -rf {} +

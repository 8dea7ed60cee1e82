# make setup | demo | test | services | bench | chaos | docs | lint | lock | prometheus | check-deploy | doctor | clean.
# Needs Python 3.11 or newer and make, nothing else.
VENV := .venv/bin
SETUP = @python=$$(sh tools/find-python.sh) && "$$python" tools/setup.py
ARGS ?=

.PHONY: help setup demo test services services-stop services-status bench chaos docs lint lock prometheus check-deploy doctor clean

help:
	@echo "make setup    .venv with the crossline command; Java and jars where they are missing"
	@echo "make demo     a stream of card payments, its frauds and the alerts, on this machine"
	@echo "make test     all tests          (ARGS='tests/unit -k times' for some)"
	@echo "make services Kafka, schema registry, Redis, PostgreSQL, object store, Iceberg catalog, for examples/payments-kafka"
	@echo "              (ARGS='start redis' for some; services-status, services-stop; the first time it fetches 200 MB)"
	@echo "make bench    all measurements   (ARGS=--help for a choice)"
	@echo "make chaos    a drill: faults of all kinds at load, and what was lost   (ARGS='--faults 20 --seed 7')"
	@echo "make docs     the site of docs/, in .cache/site      (ARGS=serve shows it while pages change)"
	@echo "make lint     style, format, types"
	@echo "make doctor   what is installed, what is missing and how to get it"
	@echo "make lock     resolve the dependencies anew into the locks (ARGS=--upgrade for newer versions)"
	@echo "make prometheus    build a Prometheus, and have it scrape a run and judge by deploy/watch (needs Go)"
	@echo "make check-deploy  hold deploy/ against hadolint, compose, helm and the schemas of Kubernetes (needs Go)"
	@echo "make clean    remove everything that make made"

setup:
	$(SETUP)

demo:
	$(SETUP) demo
	$(VENV)/crossline demo $(ARGS)

test:
	$(SETUP) broker s3 iceberg spark-iceberg browser site
	$(VENV)/python -m pytest -n 3 --dist loadgroup $(ARGS)

services:
	$(SETUP) broker registry s3 iceberg
	@$(VENV)/python -m dev.services $(ARGS)

services-stop services-status: services-%:
	@$(VENV)/python -m dev.services $* $(ARGS)

bench:
	$(SETUP) broker
	$(VENV)/python -m bench $(ARGS)

chaos:
	$(SETUP) broker registry s3
	$(VENV)/python -m chaos $(ARGS)

docs:
	$(SETUP) site
	NO_MKDOCS_2_WARNING=1 $(VENV)/python -m mkdocs $(or $(ARGS),build) --strict

lint:
	$(SETUP) site
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
	-@if [ -x $(VENV)/python ]; then $(VENV)/python -m dev.services stop && $(VENV)/python -m dev.services clear; fi
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis out bench/results
	find src tests bench chaos tools -name __pycache__ -prune -exec rm -rf {} +

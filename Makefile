# Needs Python 3.11 or later, pip and make; each target makes the environment it needs in .venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# Three, since tests wait for programs; a file on one worker, since its tests share what they make.
PYTEST_FLAGS ?= -n 3 --dist loadfile

# The version that is tested; the package itself takes a range.
Z3 := z3-solver==$(shell sed -n '/^name = "z3-solver"/{n;s/.*"\(.*\)"/\1/p;}' uv.lock)

.PHONY: help demo test slow verify-all newest lint types imports check docs packages release installed locked clean

## help: list the targets
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## demo: every stage on one kernel (NAME=jacobi)
demo: $(VENV)/demo.stamp
	$(BIN)/python -m benchmarks.demo $(NAME)

## test: all tests but the slow ones
test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

## slow: the slow tests
slow: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m slow

## verify-all: all kernels in all schemes and forms against the originals, then all mutants and proofs
verify-all: $(VENV)/dev.stamp
	$(BIN)/python -m tests.verify.matrix --log benchmarks/results/verify-all.txt
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m slow tests/verify tests/sass

## newest: the tests of proofs with the newest supported dependencies, in build/newest
newest: $(VENV)/bin/python
	$(MAKE) VENV=build/newest Z3=z3-solver build/newest/dev.stamp
	build/newest/bin/pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e .
	build/newest/bin/python -m pytest $(PYTEST_FLAGS) tests/terms tests/facts tests/semantics tests/validate \
	    tests/rewrites tests/verify tests/correctness

## check: style, types, import contracts
check: lint types imports

## lint: only style; `types` and `imports` are the other parts of check
lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

imports: $(VENV)/dev.stamp
	$(BIN)/lint-imports

## docs: the site, in site/; warnings are errors
docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[ptxas]' '$(Z3)'
	touch $@

$(VENV)/dev.stamp: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' '$(Z3)'
	touch $@ $(VENV)/demo.stamp

$(VENV)/docs.stamp: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]' '$(Z3)'
	touch $@

## packages: check recipes, image, workflows and wheel, as far as possible without a network
packages: $(VENV)/release.stamp
	$(BIN)/python -m pytest -n 0 -m "slow or not slow" tests/repository/test_packages.py

## release: wheel, sdist, recipes, notes and checksums, in dist/ (REPOSITORY=someone/ptxsw TAG=v0.2.0)
release: $(VENV)/release.stamp
	$(BIN)/python release/make.py

$(VENV)/release.stamp: $(VENV)/dev.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[release]' '$(Z3)'
	touch $@

STAMPS := $(addprefix $(VENV)/,demo.stamp dev.stamp docs.stamp release.stamp all.stamp)

## installed: the environment for all of the above, in one installation
installed: $(VENV)/all.stamp

$(VENV)/all.stamp: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,docs,release]' '$(Z3)'
	touch $(STAMPS)

## locked: the same environment, as in uv.lock
locked:
	uv sync --locked --extra dev --extra docs --extra release
	touch $(STAMPS)

clean:
	rm -rf site demo-out .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# `make run` and `make test` are all that a stranger needs. `make help` lists the rest.
PYTHON ?= python3
ARGS ?=
VENV := .venv
STAMP := $(VENV)/.installed

# A copied or moved folder: its .venv still points at the old place, and would silently run the old sources.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
$(shell rm -f $(STAMP))
endif

# Tests start Python hundreds of times: where it keeps no bytecode, each of them compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help run test test-slow test-pages attack test-ray lint format types wheel-check benchmarks results theory federated transfer edge docs release clean

help:  ## what can be made
	@sed -n 's/^\([a-z-]*\):.*##/  make \1:/p' $(MAKEFILE_LIST)

run: $(STAMP)  ## record a world, train, print and export the scenario blockage (ARGS="--set key=value" to change it)
	$(VENV)/bin/sheafedge run blockage $(ARGS)

test: $(STAMP)  ## the test suite (ARGS="tests/models -x" to choose)
	$(VENV)/bin/pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

test-slow: $(STAMP)  ## the long tests that `make test` leaves out (exit status 5: there are none)
	$(VENV)/bin/pytest -n auto --dist loadfile --no-loadscope-reorder -m "slow and not gpu" $(ARGS) || test $$? -eq 5

test-pages: $(STAMP)  ## type the commands of the pages, cut short, in the order in which they are printed
	$(VENV)/bin/pytest -n auto --dist loadgroup -m "pages and not gpu" $(ARGS)

attack: $(STAMP)  ## attack processes, ports and files for long, and print what was tried, survived and lost
	@rm -f attack-report.jsonl
	SHEAFEDGE_ATTACK_REPORT=$(CURDIR)/attack-report.jsonl $(VENV)/bin/pytest -m "attack and not gpu" tests/attacks $(ARGS); \
	status=$$?; cat attack-report.jsonl; exit $$status

test-ray: $(STAMP)  ## installs Ray (the extra [ray]) and runs the tests that need it
	$(VENV)/bin/python -m pip install -q -c constraints.txt -e '.[dev,ray]'
	$(VENV)/bin/pytest -m "slow and not gpu" tests/scenarios/workers/test_ray.py tests/scenarios/workers/test_two_hosts.py tests/scenarios/plugins $(ARGS)

lint: $(STAMP)  ## style, likely bugs and formatting
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(STAMP)  ## repair what can be repaired
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

types: $(STAMP)  ## mypy --strict on the built and installed wheel
	$(VENV)/bin/python -P .ci/wheel_check.py types

wheel-check: $(STAMP)  ## install the wheel in a clean environment and test it there, without the sources
	$(VENV)/bin/python -P .ci/wheel_check.py install

benchmarks: $(STAMP)  ## every benchmark, as JSON
	@set -e; for file in benchmarks/[!_]*.py; do echo "== $$file" >&2; $(VENV)/bin/python -P "$$file"; done

results: $(STAMP)  ## docs/results.md: hours of tuning and comparing, continued where it stopped, on any machine (ARGS="--only blockage --jobs 4")
	$(VENV)/bin/python docs/results/make.py $(ARGS)

theory: $(STAMP)  ## docs/theory.md: rules that predict which kind of method wins; hours, continued where they stopped (ARGS="--parts table")
	$(VENV)/bin/python docs/theory/make.py $(ARGS)

federated: $(STAMP)  ## docs/federated.md and two_digits.md: hours of tuning and comparing, continued where it stopped (ARGS="--only wisdm")
	$(VENV)/bin/python docs/federated/make.py $(ARGS)

transfer: $(STAMP)  ## docs/transfer.md: from streets to measured sites; half an hour, continued where it stopped (ARGS="--set world.n_sites=6")
	$(VENV)/bin/python docs/transfer/make.py $(ARGS)

edge: $(STAMP)  ## docs/edge_results.md: fewer bits, lost sensors, late joiners; an hour, continued where it stopped (ARGS="--only blockage")
	$(VENV)/bin/python docs/edge/make.py $(ARGS)

docs: $(STAMP)  ## installs MkDocs (the extra [docs]) and builds the documentation site: build/site/index.html
	$(VENV)/bin/python -m pip install -q -c constraints.txt -e '.[dev,docs]'
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build

release: $(STAMP)  ## build the source archive and the wheel into dist/, install and try the wheel, and say what to type
	$(VENV)/bin/python .ci/release.py

clean:  ## remove everything that was built or cached, .venv included
	rm -rf $(VENV) .editable build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp goes first and comes back last, so an interrupted install leaves none, and the next one starts afresh.
$(STAMP): pyproject.toml constraints.txt setup.py
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found; install Python 3.11 or later, or say which one: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "sheafedge needs Python 3.11 or later, $(PYTHON) is $$($(PYTHON) -V 2>&1); say which one to use: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot create virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	@if [ -e $@ ]; then rm $@; else $(PYTHON) -m venv --clear $(VENV); fi
	$(VENV)/bin/python -m pip install -c constraints.txt -e '.[dev]'
	@echo '$(CURDIR)' > $@

# Each target sets up what it needs: a machine with make and Python 3.11 or later is enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SAMPLE ?= sample_logs/queueing

.PHONY: demo test test-real lint bench accuracy floor clean

# A report from a sample incident, then a probe of a stream that is held back: open demo-report.html, demo-probe.html.
demo: $(VENV)/installed
	$(BIN)/llmdoctor analyze $(SAMPLE) -o demo-report.html
	$(BIN)/python -m tests.demo

test: $(VENV)/installed
	$(BIN)/python -m pytest -n auto --dist worksteal

# Real proxies, servers and engines; installs them first. What measures live streams runs alone.
test-real: $(VENV)/installed
	PYTHON=$(PYTHON) bash tests/real/install.sh
	$(BIN)/python -m pytest -o addopts="-q --strict-markers" -m "not live" -n auto --dist loadfile tests/real
	$(BIN)/python -m pytest -o addopts="-q --strict-markers" -m live tests/real

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/llmdoctor rules lint

bench: $(VENV)/installed
	$(BIN)/python -m tests.bench.bench_client
	$(BIN)/python -m tests.bench.bench

# How often the diagnosis is right, on simulated incidents: writes rules/calibration.toml from one half of the seeds and
# reports on the other, into tests/simulator/ACCURACY.md. Takes most of an hour on two cores.
accuracy: $(VENV)/installed
	$(BIN)/python -m tests.simulator.accuracy --write

# A small part of it, for every change: fails if less is found than tests/simulator/floor.toml has on record.
floor: $(VENV)/installed
	$(BIN)/python -m tests.simulator.floor

# The stamp is younger than pyproject.toml once everything that it names is installed.
$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "llmdoctor needs Python 3.11 or later: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .venv-real .cache dist demo-report.html demo-probe.html

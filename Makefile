# `make check` is what CI runs. PYTHON may name another interpreter.
PYTHON ?= .venv/bin/python
RUN = $(PYTHON) -m

.PHONY: check format lint types architecture test docs format-check lock audit

check: format-check lint types architecture test docs

format:
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

format-check:
	$(RUN) ruff format --check .

lint:
	$(RUN) ruff check .

types:
	$(RUN) mypy

architecture:
	$(RUN) pytest -q tests/test_architecture.py

test:
	$(RUN) pytest

# The CLI reference is generated from --help; this fails if it is out of date.
docs:
	$(RUN) sightwords.cli.reference --check docs/cli.md

docs-write:
	$(RUN) sightwords.cli.reference docs/cli.md

# Writes constraints.txt and requirements/test.lock: the newest versions that pyproject.toml allows.
lock:
	.ci/lock $(PYTHON)

# Fails on published vulnerabilities of what is installed; says so where none can be looked up.
audit:
	.ci/audit $(PYTHON)

# `make check` is what CI runs. PYTHON may name another interpreter.
PYTHON ?= .venv/bin/python
RUN = $(PYTHON) -m

.PHONY: check format lint types architecture test docs format-check

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

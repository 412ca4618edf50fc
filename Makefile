# The commands a newcomer needs: make demo, make serve, make test.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Two spinning OpenMP threads on a busy core cost a factor of eight.
export OMP_WAIT_POLICY := passive

.PHONY: demo serve test test-all lint faults docs bench results clean

demo: $(VENV)/.installed
	$(BIN)/npda demo

# A page on http://127.0.0.1:8765; options by SERVE="--port 9000".
serve: $(VENV)/.installed
	$(BIN)/npda serve $(SERVE)

test: $(VENV)/.installed lint
	$(BIN)/pytest

test-all: $(VENV)/.installed lint
	$(BIN)/pytest -m ''

lint: $(VENV)/.installed
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/pyright

# What nobody hopes for, and a table of what came of it; 40 minutes, FAULTS="--minutes 5" is shorter.
faults: $(VENV)/.installed
	$(BIN)/python -m tests.faults $(FAULTS)

# The site, in site/index.html.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# Tables with bars; about an hour on a busy machine, `make bench BENCH="--repeats 2"` is shorter.
bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks $(BENCH)

# The tables of docs/*.md from the run files in docs/results; benchmarks/results.py says how to keep one.
results: $(VENV)/.installed
	$(BIN)/python -m benchmarks.results

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) runs site

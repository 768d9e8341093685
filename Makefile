# Two commands do all set-up by themselves: `make demo` and `make test`.
SHELL = bash
.SHELLFLAGS = -o pipefail -c
PYTHON ?= python3.11
VENV ?= .venv
BIN = $(VENV)/bin
# Images of containers often forbid compiled modules to be kept; each process would then compile 50,000 lines again.
unexport PYTHONDONTWRITEBYTECODE
STORAGE ?= ./tausearch-runs
RESULTS ?= ./tausearch-runs/results
MINUTES ?= 60

# Of what pip says: a line for each package of 20 MB and more as its download begins, and one for the step after it.
PIP_SAYS = sed --unbuffered --quiet --regexp-extended \
	--expression 's|^ +Downloading (.*/)?([^/ -]+)-\S+ \(([2-9][0-9]\.[0-9] MB\|[0-9]{3,}\.[0-9] MB\|[0-9.]+ GB)\)$$|  downloads \2 (\3)|p' \
	--expression 's|^Installing collected packages.*|  unpacks all packages|p'

# Those that start no Ray share the cores; each takes one. Those that do wait half of the time, so three run at a time,
# in the order of their files: the longest are in tests/system, and the longest slow ones go first, as else one process
# would end long after the others. Other files are not read, which saves ten seconds.
PYTEST = $(BIN)/python -m pytest --durations 15
FAST_TESTS = $(PYTEST) --numprocesses auto --maxprocesses 4 -m "not slow and not system"
SYSTEM_FILES = $$(grep --recursive --files-with-matches --include='test_*.py' 'mark\.system' tests | sort)
SYSTEM_TESTS = $(PYTEST) --numprocesses 3 --dist loadfile --no-loadscope-reorder -m "system and not slow" $(SYSTEM_FILES)
LONGEST = tutorials/test_own_images interruption/test_resume campaigns/test_kills tutorials/test_take_a_class_out \
	test_tracking_server interruption/test_bounds test_launcher test_two_drivers
SLOW_FILES = $(LONGEST:%=tests/system/%.py) tests/test_notebooks.py tests/trainables/backbones/test_timm_kinds.py \
	$$(grep --recursive --files-with-matches --include='test_*.py' 'mark\.slow' tests | sort)
SLOW_TESTS = $(PYTEST) --numprocesses 3 --dist loadfile --no-loadscope-reorder -m slow $(SLOW_FILES)

.PHONY: setup demo results test test-fast test-slow coverage mutants lint check notebooks bench docs clean

setup: $(VENV)/.installed

# The stamp is newer than both files exactly when the environment holds what they say. pip compiles modules with one CPU,
# `compileall` with all, and leaves out what hardly anything imports, a third. Some files are for other versions of
# Python and cannot be compiled, which is no error.
$(VENV)/.installed: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "needs $(PYTHON); name another with PYTHON=..."; exit 2; }
	@echo "installing 5 GB of packages (7 GB of disk until it is done); takes some minutes"
	$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --no-compile \
		--constraint constraints.txt --editable '.[dev,docs]' | $(PIP_SAYS)
	@$(BIN)/python -m compileall -qq --workers 0 -x '/(tests?|transformers|rllib|databricks)/' $(VENV)/lib || true
	@touch $@

# A search that gains: the start of `tmc` is the paper's middle for a ViT-B/16, and the small network needs larger steps.
# Again, it goes on where it was, or shows what it found.
demo: setup
	$(BIN)/tausearch search digits tmc --name demo --resume-if-exists --storage $(STORAGE)
	$(BIN)/tausearch report demo --storage $(STORAGE)
	@echo "Open $(STORAGE)/demo/report.html, or its picture $(STORAGE)/demo/figures/history.png." \
		"Next: $(BIN)/tausearch train demo --seeds 0,1,2 --storage $(STORAGE)"

# All methods on the embedded benchmarks, and the tables of docs/explanation/results*.md from it; again, it goes on where it was.
results: setup
	$(BIN)/tausearch campaign plan examples/embedded.yaml --storage $(RESULTS) --pilot
	$(BIN)/tausearch campaign run examples/embedded.yaml --storage $(RESULTS)
	$(BIN)/python -m benchmarks.results --storage $(RESULTS)

test: setup
	$(FAST_TESTS)
	$(SYSTEM_TESTS)

test-fast: setup
	$(FAST_TESTS)

test-slow: setup
	$(SLOW_TESTS)

# Lines that the tests of `make test` reach, in the command lines and Ray workers that they start, too.
coverage: setup
	rm -rf .coverage
	$(BIN)/coverage run -m pytest -m "not slow and not system"
	$(BIN)/coverage run -m pytest -m "system and not slow"
	$(BIN)/python -m tests.coverage_floors

# Lines changed one at a time, for so many minutes; another run goes on where this one ended. Writes docs/explanation/how-we-know.md.
mutants: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants --minutes $(MINUTES)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: setup
	@$(MAKE) --no-print-directory --jobs 2 lint test-fast

# Run the notebooks, and keep their output.
notebooks: setup
	$(BIN)/python -m tests.notebooks

bench: setup
	$(BIN)/python -m benchmarks

# The site, in `site/`: no broken link or heading, and no page that docs/README.md does not link to.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:
	rm -rf $(VENV) site .coverage .mutants .hypothesis .mypy_cache .ruff_cache .pytest_cache

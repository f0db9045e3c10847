# `make demo` trains five seeds of PPO on CartPole; `make test` lints and tests in up to fifty minutes;
# `make test-all` runs every test there is, which takes hours.
# All of them make the virtual environment first, where it is missing or stale.

PYTHON ?= python3
# The tests wait for processes half of their time: three workers keep two cores busy.
WORKERS ?= 3
CHAOS_SECONDS ?= 1800
BIN := .venv/bin
READY := .venv/ready

# One thread for each process: tests and runs fill the cores by their number.
export OMP_NUM_THREADS ?= 1
# The tests start hundreds of processes: without stored bytecode, each compiles rlexp again.
unexport PYTHONDONTWRITEBYTECODE

# A virtual environment knows the folder it was made in: one that was moved is stale.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
$(shell rm -f $(READY))
endif

NEVER_IMPORTED := /(tests?|OpenGL|databricks|mypyc?|networkx|pip|setuptools)/

PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: collected demo docs gallery notebooks pictures test test-all test-long test-services test-services-ready test-suites test-lowest lint \
	release release-check clean

demo: $(READY)
	$(BIN)/rlexp run +benchmark=cartpole experiment=demo
	@echo "For commands that begin with rlexp: source $(BIN)/activate"

# Executes the notebooks of the documentation, and stores their outputs.
notebooks: $(READY)
	$(BIN)/python .ci/notebooks.py docs/notebooks/*.ipynb

# Builds the documentation site; a link without a target is an error.
docs: $(READY)
	$(BIN)/python .ci/documentation.py

# Trains for some minutes what the gallery shows, builds its pages, and draws their pictures with Chromium.
# `make docs` takes the pages into the site.
gallery: $(READY)
	$(BIN)/python .ci/gallery.py

# Trains the demonstration, and draws the pictures of the README with Chromium.
pictures: $(READY)
	$(BIN)/python .ci/pictures.py

# The same cases on every machine and every day. mypy and Sphinx use one core each: they run together.
test: $(READY)
	@$(MAKE) --no-print-directory --jobs=2 lint docs collected
	$(PYTEST)

# Stores the bytecode of the tests while mypy uses the other core: otherwise each worker compiles them.
# An error of this step is shown when the tests run.
collected: $(READY)
	@$(BIN)/pytest --collect-only -q >/dev/null 2>&1 || true

# Every case of every test, with new random examples each time; then what needs other packages or a
# cluster.
test-all: test-services-ready lint docs test-long test-lowest test-suites test-services

test-long: export RLEXP_ALL_TESTS = 1
test-long: $(READY)
	$(PYTEST)

# What needs a cluster: Slurm (Debian: slurm-wlm munge) and Ray. Then runs are killed at random
# moments for half an hour, and end as if nothing had been.
test-services-ready:
	@PATH="$$PATH:/usr/sbin" command -v slurmctld munged >/dev/null \
		|| { echo 'make test-services needs slurmctld and munged: apt-get install slurm-wlm munge' >&2; exit 1; }

test-services: test-services-ready $(READY) .venv-compiled/ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c .ci/constraints.txt -e '.[ray]'
	RLEXP_CLUSTER_TESTS=1 $(BIN)/pytest tests/cluster
	RLEXP_CLUSTER_TESTS=1 RLEXP_COMPILED_TESTS=1 .venv-compiled/bin/python -m pytest tests/compiled/test_compiled_executors.py
	RLEXP_CHAOS_SECONDS=$(CHAOS_SECONDS) $(BIN)/pytest -s tests/faults/test_chaos.py

# Suites of environments that cannot live beside what is in .venv: a virtual environment each, which
# borrows everything else from there. Meta-World and gymnasium-robotics share theirs, with mujoco 3.
SUITE_TESTS := tests/contracts/test_environments.py tests/environments tests/training/test_suites_train.py \
	tests/app/commands/test_vector_sweep.py
METAWORLD := .venv-metaworld/ready
MULTI_OBJECTIVE := .venv-multi-objective/ready
$(METAWORLD): EXTRAS := metaworld,robotics
$(METAWORLD): MODULES := metaworld, gymnasium_robotics
$(MULTI_OBJECTIVE): EXTRAS := multi-objective
$(MULTI_OBJECTIVE): MODULES := mo_gymnasium

TREES := .venv-trees/ready
$(TREES): EXTRAS := gbrl
$(TREES): MODULES := gbrl

COMPILED := .venv-compiled/ready
$(COMPILED): EXTRAS := compiled
$(COMPILED): MODULES := jax, gymnax, brax
# gymnax excludes this version of Gymnasium, and works with it. It does not name all that it imports.
$(COMPILED): PACKAGES := flax seaborn six brax==0.14.2
$(COMPILED): UNPINNED := gymnax==1.0.1

# JAX takes 380 MB. Its tests have a process of their own: JAX starts threads, and the ordinary tests fork.
test-suites: $(METAWORLD) $(MULTI_OBJECTIVE) $(COMPILED) $(TREES)
	.venv-metaworld/bin/python -m pytest $(SUITE_TESTS) -k 'metaworld or fetch or robotics or tasks'
	.venv-multi-objective/bin/python -m pytest $(SUITE_TESTS) -k 'mo_ or treasure or objective or weighted'
	RLEXP_COMPILED_TESTS=1 .venv-compiled/bin/python -m pytest tests/compiled
	RLEXP_TREE_TESTS=1 .venv-trees/bin/python -m pytest tests/trees
	RLEXP_RECIPE_TESTS=1 $(BIN)/pytest tests/app/execution/test_recipes_train.py

.venv-%/ready: $(READY)
	rm -rf $(@D)
	$(BIN)/python -m venv --without-pip $(@D)
	@# Own packages are found before those of a folder that is added as a site.
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> "$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
	@grep -v '^mujoco' .ci/constraints.txt > $(@D)/constraints.txt
	@$(BIN)/python -m pip --python $(@D)/bin/python install -q --disable-pip-version-check \
		-c $(@D)/constraints.txt -e '.[$(EXTRAS)]' $(PACKAGES)
	@$(if $(UNPINNED),$(BIN)/python -m pip --python $(@D)/bin/python install -q --disable-pip-version-check \
		--no-deps $(UNPINNED))
	@# Without it, its tests would be skipped and the target would succeed.
	@$(@D)/bin/python -c 'import $(MODULES)'
	@touch $@

# Run, sweep, compare and report with the lowest version that pyproject.toml allows of each package, where
# trainings use the library's code instead of shortcuts.
LOWEST_TESTS := tests/packaging/test_lowest_versions.py tests/training/test_lean.py tests/training/test_lean_proofs.py

test-lowest: .venv-lowest/ready
	RLEXP_LOWEST_VERSIONS=1 .venv-lowest/bin/python -m pytest $(LOWEST_TESTS)

.venv-lowest/ready: $(READY) .ci/lowest.py
	rm -rf $(@D)
	"$(PYTHON)" -m venv $(@D)
	@$(BIN)/python .ci/lowest.py > $(@D)/constraints.txt
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check \
		-c $(@D)/constraints.txt -e . pytest pytest-timeout hypothesis
	@touch $@

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Builds the version that pyproject.toml names, and tries the wheel in an environment that holds nothing
# else, with the newest packages that it allows. Uploads nothing.
release: release-check .venv-release/ready
	rm -rf dist .venv-wheel
	.venv-release/bin/python -m build
	.venv-release/bin/twine check --strict dist/*
	"$(PYTHON)" -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install -q --disable-pip-version-check dist/*.whl
	"$(PYTHON)" .ci/release.py try .venv-wheel/bin/rlexp
	@echo 'Nothing was uploaded. To publish: .venv-release/bin/twine upload dist/*'

release-check:
	@"$(PYTHON)" .ci/release.py check

# The newest ones, because they know what the index accepts.
.venv-release/ready: | release-check
	rm -rf $(@D)
	"$(PYTHON)" -m venv $(@D)
	$(@D)/bin/python -m pip install -q --disable-pip-version-check build twine
	@touch $@

clean:
	rm -rf .venv .venv-* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist

$(READY): pyproject.toml .ci/constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'rlexp needs Python 3.11 or newer: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@echo 'Installing into .venv; the first time, this takes a few minutes'
	@[ -f $(READY) ] && $(BIN)/python -c '' || { rm -rf .venv && "$(PYTHON)" -m venv .venv; }
	@# pip compiles on one core only. What has no syntax of this Python is not compiled, nor are tests of packages
	@# and what tests of rlexp never import: a third of all text. Whatever is imported after all is compiled then.
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile \
		-c .ci/constraints.txt -e '.[all,dev,docs]'
	@$(BIN)/python -m compileall -qq -j 0 -x '$(NEVER_IMPORTED)' .venv/lib || true
	@pwd -P > $(READY)

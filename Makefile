# Everything runs from .venv, which embedded/bootstrap.py makes from the hashed locks in requirements/:
#   runtime.txt   the server                   dev.txt  tests, lint, types
#   embedded.txt  PostgreSQL and Valkey        e2e.txt  browser tests (the browser itself is Debian's chromium)
#   docs.txt      the site of the documents             uv.txt   the installer
#   deploy.txt    the schema of Kubernetes, and pip-audit
# A lock changes only by `make lock`, after an edit of pyproject.toml; UPGRADE=--upgrade takes newer versions.

# The system's Python comes first: distributions compile it with profile-guided optimisation. One that pyenv compiles
# without options needs about a fifth more CPU time for everything here.
PYTHON ?= $(shell for p in /usr/bin/python3 python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && exit; done; echo python3)
BIN := .venv/bin
RUN := $(BIN)/python -m embedded run --
SERVER := runtime embedded
TESTS := $(SERVER) dev
# A test that hangs fails with the stacks of all threads; its worker is replaced, and the others go on.
HANGS := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true
# $(call only,FOLDER): the tests of a folder, or those of the paths that ARGS names instead.
only = $(if $(findstring tests/,$(ARGS)),,$(1)) $(ARGS)
LOCK = $(BIN)/uv pip compile -q --python-version 3.11 --universal --generate-hashes --no-emit-index-url --no-header $(UPGRADE)

export UV_PYTHON_DOWNLOADS := never
# Images often set it. Every process would then compile the whole project again: a fifth of the CPU time of its start.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help demo up run test test-all test-bare test-lab test-compose soak fire e2e bench docs lint release lock advisories sbom clean-demo .venv-server .venv-tests .venv-e2e .venv-docs .venv-advisories .venv-all

help: ## this list
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: .venv-server ## the stack and a real campaign on this machine; ARGS=--once exits after the table
	@$(BIN)/python -m embedded demo $(ARGS)

up: .venv-server ## the stack alone, until Ctrl-C; ARGS=--new-password for admin, if the old one is lost
	@$(BIN)/python -m embedded up $(ARGS)

run: .venv-server ## PostgreSQL and Valkey for one command: make run ARGS="python manage.py shell"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(RUN) $(ARGS)

test: .venv-tests ## the fast tests on servers of their own; ARGS goes to pytest, and a path there runs all of its tests
	@$(RUN) $(BIN)/python -m pytest -n 3 --dist loadgroup $(ARGS)

test-all: .venv-tests ## every test that one machine can run
	@$(RUN) $(BIN)/python -m pytest --tier all -n 4 --dist loadgroup $(HANGS) $(ARGS)

test-bare: .venv-tests ## make test in a root file system with Python, git and make alone; as root, needs debootstrap
	@$(BIN)/python -m tests.bare $(ARGS)

e2e: .venv-e2e ## the browser tests in Debian's chromium
	@$(RUN) $(BIN)/python -m pytest --tier all -m e2e -n 3 --dist loadgroup $(HANGS) $(call only,tests/e2e)

test-lab: .venv-tests ## settings, restarts, power cuts on virtual machines with several NUMA nodes; as root, needs QEMU
	@$(RUN) $(BIN)/python -m pytest -m lab $(call only,tests/lab)

test-compose: .venv-tests ## docker-compose.yml in a container engine: kills, upgrade, restore; as root, needs docker.io
	@$(RUN) $(BIN)/python -m pytest -m compose $(call only,tests/compose)

soak: .venv-tests ## campaigns for half an hour under 72 faults of all kinds; as root
	@$(BIN)/python -m tests.faults.soak $(ARGS)

fire: .venv-tests ## 1 000 runs while worker, Redis, PostgreSQL and SSH are killed in turn; as root
	@$(BIN)/python -m tests.faults.fire $(ARGS)

bench: .venv-tests ## what settings, orchestration, observation and long series cost
	@$(BIN)/python -m tests.benchmarks $(ARGS)

docs: .venv-docs ## the documents as a site in var/site; a dead link fails
	@$(RUN) sh -c '$(BIN)/python -m tests.site && $(BIN)/python -m pytest -m docs -q -n 0 tests/site $(ARGS)'

lint: .venv-tests ## style, types, who may import whom, templates, words, the agent's Python floor
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(RUN) $(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/djlint --quiet --lint templates
	$(BIN)/python -m tests.documents.language
	$(BIN)/uv pip check --quiet --python $(BIN)/python
	$(BIN)/vermin --quiet --no-tips --violations --target=3.9- agents

release: .venv-tests ## wheel, image and checksums of the tag that is checked out, in var/release; ARGS goes to docker build
	@$(BIN)/python -m deploy.release $(ARGS)

lock: .venv-tests ## write requirements/*.txt anew from pyproject.toml
	$(LOCK) pyproject.toml -o requirements/runtime.txt
	$(LOCK) --group embedded -c requirements/runtime.txt -o requirements/embedded.txt
	$(LOCK) --group dev -c requirements/runtime.txt -o requirements/dev.txt
	$(LOCK) --group e2e -c requirements/runtime.txt -c requirements/dev.txt -o requirements/e2e.txt
	$(LOCK) --group docs -c requirements/runtime.txt -c requirements/dev.txt -o requirements/docs.txt
	$(LOCK) --group deploy $(addprefix -c requirements/,runtime.txt embedded.txt dev.txt docs.txt) -o requirements/deploy.txt
	sed -n 's/^\(uv==[^ ]*\).*/\1/p' requirements/dev.txt | $(LOCK) - -o requirements/uv.txt

advisories: .venv-advisories ## known vulnerabilities of the packages in all locks; ARGS goes to pip-audit
	@$(BIN)/python -m deploy.advisories $(ARGS)

sbom: ## components of server, image and agent as CycloneDX in var/sbom
	@$(PYTHON) embedded/sbom.py

clean-demo: ## remove all state of demo and up (var/)
	@$(PYTHON) -m embedded clean

.venv-server:
	@$(PYTHON) embedded/bootstrap.py $(SERVER)

.venv-tests:
	@$(PYTHON) embedded/bootstrap.py $(TESTS)

.venv-e2e:
	@$(PYTHON) embedded/bootstrap.py $(TESTS) e2e

.venv-docs:
	@$(PYTHON) embedded/bootstrap.py $(TESTS) docs

.venv-advisories:
	@$(PYTHON) embedded/bootstrap.py $(TESTS) deploy

.venv-all:
	@$(PYTHON) embedded/bootstrap.py $(TESTS) e2e docs deploy

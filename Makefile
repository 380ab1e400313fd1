# Everything a developer or CI does, from a bare checkout: Python 3.11+ and make are enough.
# The first target that needs it creates .venv and installs the project into it; changing
# pyproject.toml or lab/pyproject.toml does so again.  `make help` lists the targets.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# The venv's tools must see neither an activated environment nor somebody's PYTHONPATH.  Tests, demo and
# benchmarks start nodes by the hundred: without bytecode files each would spend a second on compiling everything.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

.PHONY: help install demo test docs check lint types floors bench simulate faults experiments wheel wheel-test clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | \
		while IFS='|' read -r target text; do printf '%-20s %s\n' "$$target" "$$text"; done

install: $(STAMP) ## create .venv and install the project with its development tools

$(STAMP): pyproject.toml lab/pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "installing into $(VENV) (once; two minutes, Spark is large)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "error: '$(PYTHON) -m venv' failed (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --editable '.[dev]' --editable ./lab
	@touch $@

demo: $(STAMP) ## five daemons, standing queries, the world's airports through Spark, answers checked; a minute
	@$(BIN)/p2prdf demo $(ARGS)

WORKERS ?= 2
test: $(STAMP) ## all tests but the long ones, in two processes, half an hour; ARGS='-k word' narrows
	@$(BIN)/python -m pytest -q -n $(WORKERS) $(ARGS)

.PHONY: test-long
test-long: $(STAMP) ## the long tests: a fleet, chaos, many leaving at once, kills of replicas and workers; nine minutes
	@$(BIN)/python -m pytest -q -n $(WORKERS) -m long $(ARGS)

.PHONY: house
house: $(STAMP) ## numbers about the structure of the code, each with its bound; ARGS=--list shows the places
	@PYTHONPATH=tests/support $(BIN)/python -m house $(ARGS)

docs: $(STAMP) ## write the pages of docs/reference that are made from the code
	@PYTHONPATH=tests/support $(BIN)/python -m reference_pages

check: lint types floors ## ruff, mypy --strict and the import contracts

lint: $(STAMP)
	@$(BIN)/ruff check

types: $(STAMP)
	@$(BIN)/mypy

floors: $(STAMP)
	@report=$$($(BIN)/lint-imports 2>&1) && echo "import contracts: kept" || { echo "$$report"; exit 1; }

SEEDS ?= 2000
simulate: $(STAMP) ## seeded faulty overlays against the oracle; SEEDS=2000, or SEED=7 for exactly one
	@PYTHONPATH=tests/support $(BIN)/python -m schedules $(if $(SEED),--start $(SEED) --seeds 1,--seeds $(SEEDS)) $(ARGS)

faults: $(STAMP) ## seeded crashes, lost disks and partitions against the oracle; SEEDS=500, or SEED=7 for exactly one
	@PYTHONPATH=tests/support $(BIN)/python -m schedules --faults $(if $(SEED),--start $(SEED) --seeds 1,--seeds $(SEEDS)) $(ARGS)

.PHONY: late-bootstrap
late-bootstrap: $(STAMP) ## seeded schedules in which the names of nodes resolve 60 s late; SEEDS=500
	@PYTHONPATH=tests/support $(BIN)/python -m schedules --faults --days 'late bootstrap' --seeds $(SEEDS) $(ARGS)

.PHONY: islands
islands: $(STAMP) ## seeded schedules in which two separate clusters meet; SEEDS=150
	@PYTHONPATH=tests/support $(BIN)/python -m schedules --faults --days islands --seeds $(SEEDS) $(ARGS)

.PHONY: clock-steps
clock-steps: $(STAMP) ## seeded schedules in which clocks are wrong by minutes to years over restarts; SEEDS=500
	@PYTHONPATH=tests/support $(BIN)/python -m schedules --faults --days 'clock steps' --seeds $(SEEDS) $(ARGS)

.PHONY: slow-processors
slow-processors: $(STAMP) ## seeded schedules in which the work of peers takes time, so that turns are split; SEEDS=500
	@PYTHONPATH=tests/support $(BIN)/python -m schedules --faults --days 'slow processors' --seeds $(SEEDS) $(ARGS)

.PHONY: mutants
mutants: $(STAMP) ## run tests without the rules that they test: they must fail; NAME for one of them
	@PYTHONPATH=tests/support $(BIN)/python -m mutants $(NAME)

.PHONY: rule-days
rule-days: $(STAMP) ## fault schedules with rules in the network, the derived graph against its closure; SEEDS=100
	@PYTHONPATH=tests/support $(BIN)/python -m rule_days $(if $(SEED),--start $(SEED) --seeds 1,--seeds $(SEEDS)) $(ARGS)

.PHONY: stream-days
stream-days: $(STAMP) ## fault schedules with streams and windows, each report against pyoxigraph; SEEDS=100
	@PYTHONPATH=tests/support $(BIN)/python -m stream_days $(if $(SEED),--start $(SEED) --seeds 1,--seeds $(SEEDS)) $(ARGS)

.PHONY: settled-days
settled-days: $(STAMP) ## histories of transactions with settled subscriptions, each mark against pyoxigraph; SEEDS=100
	@PYTHONPATH=tests/support $(BIN)/python -m settled_days $(if $(SEED),--start $(SEED) --seeds 1,--seeds $(SEEDS)) $(ARGS)

.PHONY: benchmarks
benchmarks: $(STAMP) ## run the sections of `make bench` and write docs/benchmarks.md; ARGS='daemons publishing'
	@$(BIN)/python tests/benchmarks/page.py $(ARGS)

bench: $(STAMP) ## triples and answers per second, bytes per row, side by side with re-execution
	@$(BIN)/python tests/benchmarks/run.py $(ARGS)

QUERIES ?= 1000
.PHONY: algebra
algebra: $(STAMP) ## random standing queries over random histories, each step against pyoxigraph; QUERIES=5000, ARGS=--windows
	@PYTHONPATH=tests/support $(BIN)/python -m algebra --queries $(QUERIES) $(ARGS)

.PHONY: endless
endless: $(STAMP) ## a stream of 2,000,000 elements through three nodes, beyond their retention: contents over time; ARGS='--elements 100000'
	@PYTHONPATH=tests/support $(BIN)/python -m endless $(ARGS)

.PHONY: windows
windows: $(STAMP) ## streams of real sensors through five nodes, each report against pyoxigraph; ARGS='--only csrbench'
	@PYTHONPATH=tests/support $(BIN)/python -m real_streams $(ARGS)

HISTORIES ?= 2000
.PHONY: closures
closures: $(STAMP) ## random rules and histories: maintained closures against recomputed ones; HISTORIES=2000
	@HISTORIES=$(HISTORIES) $(BIN)/pytest -q tests/unit/reasoning tests/lab/test_reasoning_programs.py $(ARGS)

.PHONY: interests
interests: $(STAMP) ## random interests over random histories, 20 changesets each, against pyoxigraph; HISTORIES=2000
	@HISTORIES=$(HISTORIES) $(BIN)/pytest -q tests/unit/interest tests/lab/test_paper_interests.py $(ARGS)

.PHONY: channels
channels: $(STAMP) ## random histories of channels, with heuristics and without, each against pyoxigraph; HISTORIES=2000
	@HISTORIES=$(HISTORIES) $(BIN)/pytest -q tests/unit/channels $(ARGS)

.PHONY: reads
reads: $(STAMP) ## W3C cases and ten universities as one-time and as standing queries of seven simulated peers; ARGS=--nodes
	@PYTHONPATH=tests/support $(BIN)/python -m reads $(ARGS)

SEED_OF_FUZZ = $(if $(SEED),--seed $(SEED))
.PHONY: fuzz
fuzz: $(STAMP) ## bad datagrams and frames by the million, HTTP requests by the 100,000, for real nodes; ARGS='frames --frames 10000'
	@PYTHONPATH=tests/support $(BIN)/python -m fuzz $(SEED_OF_FUZZ) $(ARGS)

REQUESTS ?= 10000
CONTRACT_VENV ?= .venv-contract
CONTRACT_TOOLS = import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["contract"])
$(CONTRACT_VENV)/.installed: pyproject.toml
	@test -x $(CONTRACT_VENV)/bin/python || $(PYTHON) -m venv $(CONTRACT_VENV)
	@$(CONTRACT_VENV)/bin/python -m pip install --quiet $$($(PYTHON) -c '$(CONTRACT_TOOLS)')
	@touch $@

.PHONY: contract
contract: $(STAMP) $(CONTRACT_VENV)/.installed ## schemathesis's requests to a gateway: 5xx and undocumented statuses; REQUESTS=100000
	@PYTHONPATH=tests/support $(BIN)/python -m contract --schemathesis $(CONTRACT_VENV)/bin/python \
		--requests $(REQUESTS) $(SEED_OF_FUZZ) $(ARGS)

.PHONY: clients
clients: $(STAMP) ## install SPARQL clients by other authors into .clients, for tests; needs npm and Maven
	@mkdir -p .clients && cp tests/support/foreign_clients/package.json .clients
	@npm install --prefix .clients --no-audit --no-fund --loglevel=error
	@mvn -q -f tests/support/foreign_clients/pom.xml dependency:copy-dependencies -DoutputDirectory='$(CURDIR)/.clients/jena'
	@$(BIN)/python -m pip install --quiet --editable '.[clients]'

MINUTES ?= 1
.PHONY: chaos
chaos: $(STAMP) ## real nodes killed while clients publish and subscribe; MINUTES=10 ARGS='--network'
	@PYTHONPATH=tests/support $(BIN)/python -m chaos --minutes $(MINUTES) $(ARGS)

.PHONY: netns
netns: $(STAMP) ## real nodes on hosts of their own (network namespaces): restarts, scaling, partitions, moves; ten minutes
	@PYTHONPATH=tests/support $(BIN)/python -m netns $(ARGS)

.PHONY: cluster-check
cluster-check: $(STAMP) ## the manifests of k8s/ in a real cluster; KUBECONFIG=file, ARGS='--load COMMAND --image REFERENCE step'
	@PYTHONPATH=tests/support $(BIN)/python -m cluster_check --kubeconfig '$(KUBECONFIG)' $(ARGS)

N ?= 1000000
.PHONY: spark-check
spark-check: $(STAMP) ## N triples from a Spark cluster into five nodes; executor, driver and node killed; rates; N=20000
	@PYTHONPATH=tests/support $(BIN)/python -m spark_check --triples $(N) $(ARGS)

experiments: $(STAMP) ## the papers' experiments at full size, figures into docs/figures; twenty minutes
	@for name in load-distribution address-cache triple-rate query-count network-size hot-keys agreement; do \
		figure=docs/figures/$$name.svg; test $$name != agreement || figure=; \
		$(BIN)/p2prdf experiment $$name --scale 1 $${figure:+--plot $$figure} $(ARGS) || exit 1; done
	@$(BIN)/p2prdf experiment incremental-reasoning --scale 1 --plot docs/figures/incremental-reasoning.svg || test $$? -eq 5
	@$(BIN)/p2prdf experiment interest-replica --scale 1 --changesets 40 --plot docs/figures/interest-replica.svg || test $$? -eq 5
	@$(BIN)/p2prdf experiment full-text --scale 1 --publications 120 --seconds 1.5 --lucene --plot docs/figures/full-text.svg || test $$? -eq 5
	@$(BIN)/p2prdf experiment semantic-channels --plot docs/figures/semantic-channels.svg || test $$? -eq 5

.PHONY: newcomer
newcomer: $(STAMP) ## types README into a fresh clone and environment: its words, commands, seconds to the first answer
	@PYTHONPATH=tests/support $(BIN)/python -m newcomer

# Building needs no development tools: build and hatchling have an environment of their own, of 30 MB.
BUILD_VENV ?= .venv-build
BUILD_STAMP := $(BUILD_VENV)/.installed
WHEEL_TOOLS = import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["wheel"])

$(BUILD_STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BUILD_VENV)/bin/python || $(PYTHON) -m venv $(BUILD_VENV)
	@$(BUILD_VENV)/bin/python -m pip install --quiet $$($(PYTHON) -c '$(WHEEL_TOOLS)')
	@touch $@

wheel: $(BUILD_STAMP) ## build dist/*.whl; needs Python and the packages build and hatchling
	@rm -rf dist; report=$$($(BUILD_VENV)/bin/python -m build --no-isolation --wheel --outdir dist . 2>&1) && ls dist/*.whl || \
		{ echo "$$report" >&2; exit 1; }

wheel-test: wheel ## install the wheel alone, run its commands, then the unit tests with the source out of reach
	@$(PYTHON) tests/tidy/wheel_run.py dist/*.whl $(ARGS)

.PHONY: install-check
install-check: wheel ## install the wheel alone: seconds, megabytes, and a subscription that is answered
	@$(PYTHON) tests/tidy/wheel_run.py dist/*.whl --install-only

BASE ?=
ENGINE ?=
TAG ?= p2prdf:latest
.PHONY: image image-check fleet-image
image: ## build the container image with docker, podman or buildah; BASE=local-image ENGINE=podman TAG=name
	@BASE='$(BASE)' ENGINE='$(ENGINE)' TAG='$(TAG)' $(PYTHON) deploy/image.py build

fleet-image: ## build the image of Spark drivers and executors; BASE, ENGINE, TAG=name as for image
	@BASE='$(BASE)' ENGINE='$(ENGINE)' TAG='$(if $(filter p2prdf:latest,$(TAG)),,$(TAG))' $(PYTHON) deploy/image.py fleet

image-check: ## three containers of the image and a client on a network of their own, one killed
	@ENGINE='$(ENGINE)' TAG='$(TAG)' $(PYTHON) deploy/image.py check

clean: ## remove everything that was built or cached, .venv included
	@rm -rf $(VENV) $(BUILD_VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	@find p2prdf node cli lab tests -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

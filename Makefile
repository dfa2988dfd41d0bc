# The commands of this project. STACK picks the environment; dev is the simulated rack.
STACK ?= dev

PYTHON := .venv/bin/python
# A stack other than dev never sees the rack's plugins: `rack env` is added for dev alone.
ENVIRONMENT = $(PYTHON) -m tools env && $(if $(filter dev,$(STACK)),$(PYTHON) -m rack env,\
	echo 'export KUBECONFIG=$(CURDIR)/$(KUBECONFIG_FILE)')
# The rack writes its own kubeconfig; that of any other stack comes out of its state.
KUBECONFIG_FILE = .state/kubeconfig-$(STACK)
IN_ENVIRONMENT = eval "$$($(ENVIRONMENT))" &&
PULUMI = $(IN_ENVIRONMENT) pulumi --non-interactive --stack $(STACK)
# A run that ended in the middle leaves its lock, and Pulumi's own advice removes anybody's.
LOCKS = $${PULUMI_BACKEND_URL\#file://}/.pulumi/locks/organization/gpu-passthrough/$(STACK)
OR_RECOVER = || { code=$$?; compgen -G "$(LOCKS)/*" >/dev/null && echo \
	"An earlier run was interrupted, or another is at work: make recover STACK=$(STACK)" >&2; exit $$code; }
# The folder alone does not start with every language host.
POLICY := --policy-pack policy/__main__.py

SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv tools rack stack
venv:
	@python3 -m tools.venv

tools: venv ## Find, download or build the programs that are needed (20 minutes, once)
	@$(PYTHON) -m tools programs --quiet

rack: tools ## Start the simulated rack (only for STACK=dev)
	@$(if $(filter dev,$(STACK)),$(IN_ENVIRONMENT) $(PYTHON) -m rack up)

stack: rack
	@$(IN_ENVIRONMENT) $(if $(filter dev,$(STACK)),pulumi stack select --create --non-interactive dev,\
		pulumi stack output --stack $(STACK) >/dev/null 2>&1 || \
		pulumi stack init --no-select --non-interactive $(STACK)) >/dev/null

.PHONY: check preflight up preview verify report watch pr recover destroy kubeconfig stop env
check: tools ## Refuse what cannot work, before anything is touched
	@$(PYTHON) -m gpu_passthrough check $(STACK)

preflight: check rack ## Ask the Proxmox VE host whether the stack can work there; it only reads
	@$(IN_ENVIRONMENT) $(PYTHON) -m gpu_passthrough preflight $(STACK) $(PREFLIGHT_ARGS)

up: check stack ## Build the whole chain, then show nodes, GPUs and pods
	@$(IN_ENVIRONMENT) $(PYTHON) -m gpu_passthrough preflight --brief $(STACK) $(PREFLIGHT_ARGS)
	@$(PULUMI) up --yes --skip-preview $(POLICY) $(OR_RECOVER)
	@$(MAKE) --no-print-directory kubeconfig
	@$(IN_ENVIRONMENT) $(PYTHON) -m gpu_passthrough overview

preview: check stack ## Show what `make up` would change, and refuse what cannot work
	@$(PULUMI) preview --diff $(POLICY)

verify: check ## Prove that the chain works, down to a program that computes on each GPU
	@$(IN_ENVIRONMENT) $(PYTHON) -m gpu_passthrough verify $(STACK) $(VERIFY_ARGS)

# A check that fails is what the page is for, so its exit code does not end this.
report: check rack ## Check host and cluster, then write one HTML page: every GPU from the host to its pod
	@mkdir -p .state
	@$(IN_ENVIRONMENT) findings=(); for checks in preflight verify; do \
		file=.state/$$checks-$(STACK).json; \
		$(PYTHON) -m gpu_passthrough $$checks $(STACK) --json > $$file || true; \
		[ -s $$file ] && findings+=(--findings $$file); done; \
	$(PYTHON) -m gpu_passthrough report $(STACK) "$${findings[@]}" \
		--output .state/report-$(STACK).html $(REPORT_ARGS)

watch: venv ## Show what every GPU does, and for which pod, until Ctrl-C
	@$(IN_ENVIRONMENT) $(PYTHON) -m gpu_passthrough watch $(WATCH_ARGS)

pr: tools ## Print what a pull request would say about STACK; needs neither rack nor cluster
	@$(IN_ENVIRONMENT) $(PYTHON) -m pullrequest plan '$(STACK)' --stand-ins rack/plugins/bin \
		$(if $(PR_BASE),--base '$(PR_BASE)') $(if $(PR_OUTPUT),--output '$(PR_OUTPUT)')

recover: rack ## Settle what an interrupted `make up` or `make destroy` left
	@$(IN_ENVIRONMENT) $(PYTHON) -m gpu_passthrough recover $(STACK)

destroy: stack ## Remove everything that `make up` built
	@$(PULUMI) destroy --yes --skip-preview $(OR_RECOVER)

kubeconfig: ## Write the kubeconfig of a stack other than dev, for its owner only
	@$(if $(filter dev,$(STACK)),:,umask 077; \
		$(PULUMI) stack output kubeconfig --show-secrets > $(KUBECONFIG_FILE))

stop: venv ## Stop the simulated rack; `make up` goes on from where it was
	@$(PYTHON) -m rack stop

env: ## Print the environment for a shell: eval "$(make -s env)"
	@$(ENVIRONMENT)

# A file's tests stay together: those of the end-to-end ones share a rack and tell one story.
PYTEST = eval "$$($(PYTHON) -m tools env)" && $(PYTHON) -m pytest -n auto --dist loadfile \
	--no-loadscope-reorder --durations=10

.PHONY: test endurance lint format clean
test: tools ## Run the tests; end-to-end ones on a rack of their own
	@$(PYTEST) -m "not endurance" $(PYTEST_ARGS)

endurance: tools ## Interrupt `up` and `destroy` at every step, and bring ten stacks up
	@$(PYTEST) -m endurance -rP $(PYTEST_ARGS)

lint: venv ## Check style, formatting and types
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy --strict --explicit-package-bases __main__.py components gpu_passthrough pullrequest rack tools
	@$(PYTHON) -m mypy --strict policy/rules.py policy/__main__.py

format: venv ## Rewrite the code in the project's format
	@$(PYTHON) -m ruff check --fix . && $(PYTHON) -m ruff format .

clean: stop ## Remove the rack, local state and links; refuses while another stack needs its state
	@$(PYTHON) -m tools clean && rm -rf .rack

# Every target works on a fresh machine: what is missing is installed first.
# hack/setup says what it installs and uses sudo where needed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

LAB      ?= default
SEEDS    ?= 100000
HOLDFAST := _output/bin/holdfast

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST) \
		| { if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }

.PHONY: up
up: setup build release ## Build everything and bring up a two-host cluster in the lab
	$(AS_ROOT) $(HOLDFAST) lab up --name $(LAB)

.PHONY: down
down: build ## Remove the lab completely
	$(AS_ROOT) $(HOLDFAST) lab down --name $(LAB)

.PHONY: test
test: setup build release ## Lint, unit tests, and (as root) the tests of the lab
	hack/test

.PHONY: quick
quick: ## Check in a minute: rules, lint of changes, unit tests without servers
	@hack/test quick

.PHONY: lab-test
lab-test: setup build release ## Bring up whole clusters of every shape and test them
	hack/test lab

.PHONY: sim
sim: ## Simulate two hosts under seeded faults (SEEDS=n)
	go run ./internal/testkit/sim/run -seeds $(SEEDS)

.PHONY: bench
bench: setup build release ## Measure what the documents promise
	hack/bench

.PHONY: lint
lint: ## Check style and the rules of the source tree
	hack/test lint

.PHONY: generate
generate: ## Regenerate the generated files
	go generate ./...

.PHONY: verify
verify: ## Check that generated files and modules are up to date
	hack/verify

.PHONY: release
release: build ## Build the release payload
	$(HOLDFAST) release build

.PHONY: build
build:
	@mkdir -p _output/bin
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace -ldflags='-s -w' -o _output/bin/ ./cmd/...

.PHONY: setup
setup:
	@hack/setup

# sudo takes the environment away.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo env $(foreach v,HOLDFAST_CACHE HOLDFAST_LABS,$(if $($v),$v='$($v)')))

# Each target sets up what it needs; see scripts/setup.sh.

.DEFAULT_GOAL := help
.PHONY: help setup demo test bench soak sim fmt clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup: ## install what is missing: redis-server, a JDK, Maven, Redisson, redis-py
	scripts/setup.sh

demo: setup ## show Rust and Java sharing a semaphore
	cargo run --locked --release --package demo

# Packaging refuses files that are not committed. While developing they are welcome, in a clean tree not.
UNCOMMITTED = $(if $(shell git status --porcelain),--allow-dirty)

test: setup ## check everything
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --all-features --all-targets -- -D warnings
	cargo test --locked
	cargo test --locked --all-features --lib --test tls
	cargo test --locked --all-features --doc tls
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features
	cargo package --locked --list $(UNCOMMITTED)
	cargo package --locked $(UNCOMMITTED)
	cargo run --locked --example in_process
	cargo run --locked --example shared
	cargo run --locked --package demo

bench: setup ## measure against Redisson and a plain client (BENCH=quick: in two minutes)
	cargo bench --locked --bench compare

# A part of `make test`, for 30 s.
SOAK ?= 5m
soak: export SOAK := $(SOAK)
soak: setup ## faults of all kinds for a while, and the same faults for Redisson (SOAK=10m)
	cargo test --locked --release --test soak -- compare

SIM ?= 5m
sim: export SIM := $(SIM)
sim: ## made-up histories, thousands of them, each judged and repeatable (SIM=10m, or SEED=<number> for one)
	cargo test --locked --release --test hunt

fmt: ## format the sources
	cargo fmt --all

clean: ## remove what was built
	cargo clean
	rm -rf compat/target

# Each target sets up what it needs; see scripts/setup.sh.

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all builds oldest-crates oldest-rust test-servers bench bench-network figures soak sim fmt clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## install what is missing: redis-server, a JDK, Maven, Redisson, redis-py
	scripts/setup.sh

demo: setup ## show Rust and Java sharing a semaphore
	cargo run --locked --release --package demo

# Packaging refuses files that are not committed. While developing they are welcome, in a clean tree not.
UNCOMMITTED = $(if $(shell git status --porcelain),--allow-dirty)

# The oldest Rust that is promised, and the features, as Cargo.toml has them.
RUST = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
FEATURES = $(shell sed -n '/^\[features\]/,/^\[[^f]/s/^\([a-z-]*\) = .*/\1/p' Cargo.toml)

test: setup ## check this machine's redis-server and the newest Redisson: before each change
	scripts/test

test-all: export REDISSONS := all
test-all: test ## make test with all Redissons, other servers, each feature alone, packages, faults and simulation for longer
	$(MAKE) test-servers
	$(MAKE) builds
	$(MAKE) soak
	$(MAKE) sim

builds: setup ## build what users build: each feature alone, the package, with the oldest crates
	set -e; for feature in $(FEATURES); do cargo check --locked --no-default-features --features $$feature; done
	set -e; for package in rsem services demo network; do cargo check --locked --package $$package; done
	cargo test --locked --test faults -- tls_that_is_not_built_in
	cargo package --locked --list $(UNCOMMITTED)
	cargo package --locked $(UNCOMMITTED)
	$(MAKE) oldest-crates

# What a user gets whose other crates hold back those that this one needs. Resolving so is for nightly compilers, and for those
# that are told to be one.
OLDEST_CRATES = target/oldest-crates
oldest-crates: ## build with the oldest versions of the crates that Cargo.toml promises to do with
	rm -rf $(OLDEST_CRATES)/source && mkdir -p $(OLDEST_CRATES)/source
	tar --extract --gzip --strip-components 1 --directory $(OLDEST_CRATES)/source --file \
		$$(ls -t target/package/redisson-semaphore-*.crate | head -n 1)
	printf '\n[workspace]\n' >> $(OLDEST_CRATES)/source/Cargo.toml
	cd $(OLDEST_CRATES)/source && RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions
	cargo check --all-features --manifest-path $(OLDEST_CRATES)/source/Cargo.toml --target-dir $(OLDEST_CRATES)/target

oldest-rust: ## build with the oldest Rust that is promised, which rustup fetches
	scripts/setup.sh oldest-rust
	cargo +$(RUST) check --locked --all-features --package redisson-semaphore --package rsem --target-dir target/oldest-rust

# These hold on every server: the contracts of all primitives, faults, and a Redisson beside it. A server that cannot be had is a
# failure. Those of 6.2 have no sharded messages.
SERVERS ?= redis-6.2 redis-8.0 valkey-8.0 valkey-8.1
SERVER_PROGRAMS = contracts faults deployments primitives interop
SERVER_TESTS = one_server:: permission:: reconnect:: \
	replicas:: failover:: sentinel:: renewal_refused:: waiting:: --skip cluster_waiting::
ON_SERVERS = printf '%s\n' $(SERVERS) | xargs --max-procs 4 --replace env AT_ONCE=1 RUST_TEST_THREADS=2 \
	REDIS_SERVER=$(CURDIR)/target/servers/{}/redis-server scripts/test-programs --locked --all-features
test-servers: setup ## check the other versions of the server (SERVERS='redis-6.2 valkey-8.1')
	scripts/servers.sh $(SERVERS)
	cargo test --locked --all-features --no-run --test hazards $(addprefix --test ,$(SERVER_PROGRAMS))
	$(ON_SERVERS) --test hazards
	$(ON_SERVERS) $(addprefix --test ,$(SERVER_PROGRAMS)) -- $(SERVER_TESTS)

bench: setup ## measure against Redisson and a plain client (BENCH=quick: in five minutes; ONLY=wake-up: one workload)
	cargo bench --locked --bench compare

bench-network: setup ## measure over a cluster, beside redis-rs' client for that, and by TLS
	cargo run --locked --release --package network

figures: bench ## measure, and fill the guide's figures from it: on a quiet machine, in twenty minutes
	cargo run --locked --release --package demo > benches/demo.txt
	cargo bench --locked --bench compare -- figures

# A part of `make test-all`.
SOAK ?= 5m
soak: export SOAK := $(SOAK)
soak: setup ## faults of all kinds for a while, and an account of each permit (SOAK=10m)
	cargo test --locked --release --test soak

# A part of `make test`, for a minute.
SIM ?= 5m
sim: export SIM := $(SIM)
sim: ## made-up histories, thousands of them, each judged and repeatable (SIM=10m, or SEED=<number> for one)
	cargo test --locked --release --test hunt

fmt: ## format the sources
	cargo fmt --all

clean: ## remove what was built
	cargo clean
	rm -rf compat/target

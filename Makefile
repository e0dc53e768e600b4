# Each target sets up what it needs; see scripts/setup.sh.

.DEFAULT_GOAL := help
.PHONY: help setup demo test builds oldest-crates oldest-rust test-servers bench bench-network figures soak sim fmt clean

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
# The tests that are there with a feature only.
FEATURE_TESTS = $(shell awk -F'"' '/^name/ { name = $$2 } /^required-features/ { print "--test", name }' Cargo.toml)

test: setup ## check everything, on the redis-server of this machine, and what matters most on others
	@redis-server --version
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-features --all-targets -- -D warnings
	scripts/test-programs --locked
	cargo test --locked --package rsem --package services
	cargo test --locked --all-features --lib $(FEATURE_TESTS)
	cargo test --locked --all-features --doc
	$(MAKE) --jobs 2 --output-sync=target test-servers builds SERVER_TESTS="$(EACH_SERVER)"
	cargo run --locked --example in_process
	cargo run --locked --example shared
	cargo run --locked --package demo

# Beside the tests on other servers, which mostly wait.
builds: setup ## build what users build: each feature alone, the documentation, the package, with the oldest crates
	set -e; for feature in $(FEATURES); do cargo check --locked --no-default-features --features $$feature; done
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features
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

# What has to hold on every server: the contracts of all primitives, faults, and a Redisson beside it. A server that cannot be had
# is a failure. In `make test` it is a part, within a minute for each.
EACH_SERVER = contract_redis contract_lock_redis leased_redisson lost_reply permission replicas interop_waiting
SERVERS ?= redis-6.2 redis-8.0 valkey-8.0 valkey-8.1
SERVER_TESTS = $(EACH_SERVER) leased_recipes reconnect restart failover sentinel hazards renewal_refused \
	interop_lock_waiting
test-servers: setup ## check more of it on other versions of the server (SERVERS='redis-6.2 valkey-8.1')
	scripts/servers.sh $(SERVERS)
	cargo test --locked --no-run $(addprefix --test ,$(SERVER_TESTS))
	printf '%s\n' $(SERVERS) | xargs --max-procs 4 --replace env AT_ONCE=1 \
		REDIS_SERVER=$(CURDIR)/target/servers/{}/redis-server \
		scripts/test-programs --locked $(addprefix --test ,$(SERVER_TESTS))

bench: setup ## measure against Redisson and a plain client (BENCH=quick: in five minutes; ONLY=wake-up: one workload)
	cargo bench --locked --bench compare

bench-network: setup ## measure over a cluster, beside redis-rs' client for that, and by TLS
	cargo run --locked --release --package network

figures: bench ## measure, and fill the guide's figures from it: on a quiet machine, in twenty minutes
	cargo run --locked --release --package demo > benches/demo.txt
	cargo bench --locked --bench compare -- figures

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

# What people do with this checkout. Everything that a target needs is installed first, or named.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test bench build lint fmt doc fuzz loom miri clean install

PREFIX ?= /usr/local
# Seconds for each harness of `make fuzz`.
FUZZ_S ?= 60

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## build, then Weft beside TCP on a two-node virtual Ethernet: table and plot
	@scripts/setup.sh build
	cargo build --release -p weft-cli
	@mkdir -p out && scripts/weft.sh compare --quick --svg out/compare.svg

test: ## format, lints, all tests, models, documentation: under 12 minutes on 2 cores
	@scripts/setup.sh test mpi
	@scripts/test.sh

bench: ## every figure with its target: the floor, then Weft beside TCP and both MPI libraries
	@scripts/setup.sh build mpi
	cargo build --release -p weft-cli
	@scripts/weft.sh bench floor
	@mkdir -p out && scripts/weft.sh compare --svg out/compare.svg

build: ## the `weft` command, optimized, in target/release
	@scripts/setup.sh build
	cargo build --release -p weft-cli

lint: ## formatting, clippy with warnings as errors, and the tidy rules
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test -p weft-tests --test it tidy

fmt: ## formats the code, long comment lines included
	@scripts/wrap_comments.py
	cargo fmt --all

doc: ## the library's documentation, in target/doc
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

fuzz: ## every fuzz harness for FUZZ_S seconds with fresh random input
	@scripts/fuzz.sh $(FUZZ_S)

loom: ## every interleaving of the rings and doorbells
	RUSTFLAGS="--cfg loom" cargo test --target-dir target/loom -p weft-ring --release --test loom

miri: ## wire, ring and matching under Miri, which finds undefined behaviour (nightly toolchain)
	@scripts/miri.sh

clean: ## everything that was built; .venv too
	cargo clean
	rm -rf .venv out

install: build ## `weft` into PREFIX/bin (/usr/local)
	install -Dm755 "$$(scripts/weft.sh --path)" $(DESTDIR)$(PREFIX)/bin/weft

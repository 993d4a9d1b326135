# What people do with this checkout. Everything that a target needs is installed first, or named.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-mpi test-nic bench build wheel lint fmt doc fuzz loom miri arm clean install deb tarball book

PREFIX ?= /usr/local
# Seconds for each harness of `make fuzz`.
FUZZ_S ?= 60

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## build, then kernels of MPI programs on two virtual nodes: on Weft beside the same over TCP
	@scripts/setup.sh build mpi
	cargo build --release -p weft-cli -p weft-ofi -p weft-mpi -p weft-calls
	@scripts/demo.sh

test: ## format, lints, all tests, models, documentation: 20 to 40 minutes on 2 cores
	@scripts/setup.sh test mpi
	@scripts/test.sh

test-mpi: ## MPI programs on Weft, the long form: stress, mpi4py's tests, deaths and cables
	@scripts/setup.sh test mpi test-mpi package
	@scripts/build-mpi.sh
	@scripts/test-mpi.sh

test-nic: ## Weft over the drivers of network cards, in machines that QEMU plays: some 16 minutes
	@scripts/setup.sh test-nic mpi
	cargo build --release -p weft-cli -p weft-ofi -p weft-mpi -p weft-calls
	@scripts/test-nic.sh

bench: ## every figure with its target: the floor, then Weft beside TCP and both MPI libraries
	@scripts/setup.sh build mpi
	cargo build --release -p weft-cli -p weft-ofi -p weft-mpi -p weft-calls
	@scripts/weft.sh bench floor
	@mkdir -p out && scripts/weft.sh compare --svg out/compare.svg
	@scripts/weft.sh compare --mpi --svg out/compare-mpi.svg
	@scripts/weft.sh compare --halo --svg out/compare-halo.svg

build: ## the `weft` command, the libraries for MPI programs and for C, optimized, in target/release
	@scripts/setup.sh build
	cargo build --release -p weft-cli -p weft-ofi -p weft-mpi -p weft-calls -p weft-capi
	@scripts/capi.sh "$$(dirname "$$(scripts/weft.sh --path)")"/{libweft_c.a,c}

wheel: ## the Python package with the `weft` command and what MPI programs need, in out/
	@scripts/setup.sh build
	@mkdir -p out && python3 -m pip wheel --no-deps -w out .

lint: ## formatting, clippy with warnings as errors, and the tidy rules
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test -p weft-tests --test it tidy

fmt: ## formats the code, long comment lines included
	@scripts/wrap_comments.py
	cargo fmt --all

doc: ## the library's documentation, in target/doc
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

book: ## the docs as a book, in out/book
	@scripts/setup.sh book
	mdbook build

fuzz: ## every fuzz harness for FUZZ_S seconds with fresh random input
	@scripts/fuzz.sh $(FUZZ_S)

loom: ## every interleaving of rings, doorbells and the lock
	RUSTFLAGS="--cfg loom" cargo test --target-dir target/loom -p weft-ring -p weft-sys --release --test loom

miri: ## wire, ring and matching under Miri, which finds undefined behaviour (nightly toolchain)
	@scripts/miri.sh

arm: ## rings, wire and protocol built for aarch64 and run there by qemu
	@scripts/setup.sh arm
	@scripts/arm.sh

clean: ## everything that was built; .venv too
	cargo clean
	rm -rf .venv out

# What is installed or handed on tells of which commit it is; see crates/cli/build.rs.
install deb tarball: export BUILD_COMMIT := $(shell git describe --always --dirty --abbrev=12 2>/dev/null)

install: build ## `weft`, its manual, and what C and MPI programs need, into PREFIX (/usr/local)
	@DESTDIR=$(DESTDIR) scripts/install.sh $(PREFIX)
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || PATH=$$PATH:/sbin:/usr/sbin ldconfig

deb: build ## a Debian package of all that, in out/
	@scripts/setup.sh package
	@scripts/package.sh deb

tarball: build ## the same for other systems
	@scripts/package.sh tarball

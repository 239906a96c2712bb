# The two commands a newcomer needs are `make demo` and `make test`; both install what they lack.
# On a Debian machine with a Rust toolchain nothing else has to be there first.

SHELL := /bin/bash
CARGO ?= cargo
# The optimised build lets the demo show what the system can do.
TARGET := $(or $(CARGO_TARGET_DIR),target)
OPTIMISED := $(TARGET)/release
DEMO_ARGS ?=
# Where `make demo` keeps its data: `embedded` or `ceph`.
ENGINE ?= embedded
FUZZ_SECONDS ?= 3600

# What `make bench` measures; everything if empty.
BENCH ?=
# Where the OSDs of `make bench ENGINE=ceph` keep objects: `memstore`, which hides nothing behind a disk, or `bluestore`.
STORE ?= memstore
# Which Debian's Ceph `make test-ceph-on` tests against; this machine's is what `make test` uses.
RELEASE ?= trixie
# Which figures `make experiments` measures, and on what.
FIGURE ?= $(notdir $(patsubst %/README.md,%,$(wildcard experiments/*/README.md)))
ENGINES ?= embedded ceph-memstore ceph-bluestore cephfs

# Every suite is tried though one fails, and none may hang for ever.
# How those ended that failed, which is told after the last.
FAILED_SUITES := $(abspath $(TARGET))/failed-suites
# How long each suite of the last `make test` took, for `make timings`.
SUITE_SECONDS := $(abspath $(TARGET))/suite-seconds
TRY_ALL := --no-fail-fast --config "target.'cfg(unix)'.runner='$(CURDIR)/scripts/bounded-suite'"

# Tools that `make check` and `make docs` build for themselves, outside the target folder: `cargo clean` keeps them, and
# other clones share them.
TOOLS := $(abspath $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/nacre-tools)
CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := $(TOOLS)/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny
MDBOOK_VERSION := 0.5.4
MDBOOK := $(TOOLS)/mdbook-$(MDBOOK_VERSION)/bin/mdbook

# Each is what must be there, and the Debian package that brings it.
CEPH_HEADERS := /usr/include/rados/objclass.h:rados-objclass-dev /usr/include/rados/buffer.h:libradospp-dev \
    /usr/include/rados/librados.h:librados-dev
CEPH_DAEMONS := ceph-mon:ceph-mon ceph-osd:ceph-osd ceph-mds:ceph-mds ceph:ceph-common
# The suites that start Ceph daemons or run what an OSD loads, as arguments of `cargo test`. A new one whose name is
# not here has to be added.
CEPH_SUITES := $(addprefix -p nacre-,brados class cli experiments log node osd-class rados) \
    $(addprefix --test ,'ceph*' on_ceph on_cls_lua on_osd_class) \
    $(addprefix --test ,behaviour both_ways cluster conformance engine linearizability osd_class outages view)

.PHONY: help demo bench experiments build build-bench ceph-plugin test soak-engine test-ceph test-ceph-on check \
    dependencies advisories docs fuzz fmt install-deps install-test-deps install-ceph-test-deps

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

demo: build ## Run the main job, faults included, on an embedded cluster; with ENGINE=ceph on real Ceph daemons
ifeq ($(ENGINE),ceph)
	@$(MAKE) --no-print-directory ceph-plugin
	scripts/on-ceph --mons 3 --osds 3 --store bluestore --size 2 --class-dir $(OPTIMISED) -- \
	    $(OPTIMISED)/nacre demo --ceph-cluster scripts/ceph-cluster --dev-ceph {} $(DEMO_ARGS)
else
	$(OPTIMISED)/nacre demo $(DEMO_ARGS)
endif

# An OSD remembers thousands of operations of each placement group, which would hide what a class adds.
SHORT_LOGS := --set osd_min_pg_log_entries=100 --set osd_max_pg_log_entries=100 \
    --set osd_pg_log_dups_tracked=100

bench: build-bench ## Measure: every figure beside its baseline, in one run; with ENGINE=ceph on real Ceph daemons
ifeq ($(ENGINE),ceph)
	@$(MAKE) --no-print-directory ceph-plugin
	scripts/on-ceph --osds 3 --store $(STORE) --class-dir $(OPTIMISED) $(SHORT_LOGS) -- \
	    $(OPTIMISED)/nacre-bench $(BENCH) --engine ceph:{}/ceph.conf --ceph-cluster scripts/ceph-cluster
else
	@scripts/install-packages redis-server:redis-server etcd:etcd-server
	$(OPTIMISED)/nacre-bench $(BENCH)
endif

# Without a disk there is no slow one.
experiments: build-bench ceph-plugin ## Measure the papers' figures into experiments/; FIGURE=NAME, ENGINES='embedded ceph-bluestore' for some
	set -e; for figure in $(FIGURE); do for engine in $(ENGINES); do \
	    if [[ $$figure-$$engine != *-slow-device-ceph-memstore ]]; then \
	        scripts/experiment $$figure $$engine; fi; done; done

build: install-deps ## Build the nacre command, optimised
	$(CARGO) build --release --locked -p nacre-cli

build-bench: install-deps ## Build the nacre and nacre-bench commands, optimised
	$(CARGO) build --release --locked -p nacre-cli -p nacre-bench

check: install-deps ## What a developer runs all day: format, lints, dependencies, unit tests
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy -p nacre --locked -- -D warnings
	@$(MAKE) --no-print-directory dependencies
	$(CARGO) test --workspace --lib --locked -q

# These three checks need nothing but the crates. The check for known vulnerabilities downloads a database from
# GitHub, so it is `make advisories`: the tests must not fail because GitHub is away or has a new entry.
dependencies: $(CARGO_DENY) ## Check the dependencies' licences, sources and duplicates against deny.toml
	$(CARGO_DENY) --locked check --hide-inclusion-graph -D warnings bans licenses sources

advisories: $(CARGO_DENY) ## Look for known vulnerabilities and withdrawn versions of dependencies; needs GitHub
	$(CARGO_DENY) --locked check -D warnings advisories

docs: $(MDBOOK) ## Build the guide in docs/ as a site, target/docs/index.html
	@scripts/install-packages /usr/bin/python3:python3
	$(MDBOOK) build

# Unoptimised, cargo-deny builds in 34 s on two cores rather than in two minutes. Its check takes a second either way.
$(CARGO_DENY): | install-deps
	$(call install-tool,cargo-deny,$(CARGO_DENY_VERSION))

$(MDBOOK): | install-deps
	$(call install-tool,mdbook,$(MDBOOK_VERSION),--no-default-features --features search)

# Installs the tool $1 in its version $2; $3 is what else cargo is to be told.
define install-tool
@echo "installing $1 $2 into $(TOOLS)"
@env -u CARGO_TARGET_DIR CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 $(CARGO) install --quiet --locked $1 --version $2 $3 --root $(TOOLS)/$1-$2
endef

ceph-plugin: install-deps ## Build the object class for Ceph's OSDs, target/release/libcls_nacre.so
	@scripts/install-packages $(CEPH_HEADERS)
	$(CARGO) rustc --profile plugin --locked -p nacre-osd-class --features plugin --lib --crate-type cdylib
	@mkdir -p $(OPTIMISED)
	strip --strip-debug -o $(OPTIMISED)/libcls_nacre.so $(TARGET)/plugin/libnacre_osd_class.so

test: check install-test-deps ceph-plugin ## Everything: check, then every suite; the demo is one of them
	@rm -f $(FAILED_SUITES) $(SUITE_SECONDS)
	NACRE_FAILED_SUITES=$(FAILED_SUITES) NACRE_SUITE_SECONDS=$(SUITE_SECONDS) \
	    $(CARGO) test --workspace --locked $(TRY_ALL) || { cat $(FAILED_SUITES) >&2; exit 1; }

timings: install-deps ## Where the time goes: the last `make test` by suite, and a build of everything by crate
	@CARGO=$(CARGO) scripts/timings $(abspath $(TARGET)) $(SUITE_SECONDS)

test-ceph: install-ceph-test-deps ceph-plugin ## The suites that need Ceph, against the Ceph of this machine
	$(CARGO) test --locked $(CEPH_SUITES) $(TRY_ALL)

test-ceph-on: ## The same against the Ceph of another Debian, RELEASE=trixie, in a folder of its own; as root
	@scripts/install-packages debootstrap:debootstrap /usr/bin/python3:python3
	scripts/test-ceph-on $(RELEASE)

soak-engine: install-test-deps ## The engine's long forms: power cuts, kills, flipped bits
	NACRE_SEEDS=60 $(CARGO) test --locked -p nacre-embedded --test power_loss -- --nocapture
	NACRE_SEEDS=100 $(CARGO) test --locked -p nacre-embedded --test kill -- --nocapture
	NACRE_SEEDS=30 $(CARGO) test --locked -p nacre-embedded --test bit_flips

fuzz: install-deps ## Throw mutated bytes at every parser, FUZZ_SECONDS (3600) each
	NACRE_FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --workspace --locked fuzz_ -- --nocapture

fmt: ## Format the source
	$(CARGO) fmt --all

install-deps: ## A C and C++ compiler, for the Luau VM
	@scripts/install-packages c++:g++ cc:gcc

install-test-deps: install-deps ## Python with grpcio, xxhash and Prometheus' parser, Lua 5.3, Redis, etcd, iproute2 and Ceph, for the tests
	@scripts/install-packages /usr/bin/python3:python3 \
	    /usr/lib/python3/dist-packages/grpc:python3-grpcio \
	    /usr/lib/python3/dist-packages/google/protobuf:python3-protobuf \
	    /usr/lib/python3/dist-packages/xxhash:python3-xxhash \
	    /usr/lib/python3/dist-packages/prometheus_client:python3-prometheus-client \
	    lua5.3:lua5.3 redis-server:redis-server etcd:etcd-server ip:iproute2 \
	    protoc:protobuf-compiler grpc_python_plugin:protobuf-compiler-grpc \
	    $(CEPH_DAEMONS)

install-ceph-test-deps: install-deps ## Ceph, its headers and Python, for the suites that need Ceph
	@scripts/install-packages /usr/bin/python3:python3 ip:iproute2 $(CEPH_DAEMONS) $(CEPH_HEADERS)

# Thin front for meson and the scripts; see CONTRIBUTING.md. `make help` lists the targets: the comments that begin with two signs.
#   build/       gcc, optimised: what is installed and measured
#   build-asan/  clang, AddressSanitizer + UBSan, fuzzers: what is tested
#   build-tsan/  clang, ThreadSanitizer: what `make tsan` runs
PROGRAMS = src/daemon/holdfastd src/ctl/holdfastctl
SHELL = /bin/bash
.DEFAULT_GOAL = build
.PHONY: help hooks build all run demo check test tsan takeovers mutants history-mutants lab soak bench bench-hostile scale tails deb deb-clean boot oci matrix databases calls coverage tidy format format-check install clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

# Git then runs scripts/hooks before each commit of this clone: the format, and the form of the message.
hooks: ## Check format and message at each commit (git config core.hooksPath)
	@git config core.hooksPath scripts/hooks

# Neither tests nor benchmarks are compiled.
build: | build/build.ninja ## The daemon and holdfastctl
	@ninja -C build $(PROGRAMS)

# Everything in build/, the tests included, so that gcc sees them too.
all: | build/build.ninja ## Everything in build/, with gcc, the tests included
	@scripts/bootstrap test
	@meson configure build -Dtests=enabled
	@ninja -C build

run: build ## Install what is missing, build, run the daemon on its embedded store
	@scripts/run

# The daemon with played clients that lock, wait, crash and come back, for a first look.
demo: build ## The daemon with played clients that lock, wait, crash and come back
	@demo/run

# What a developer runs at each change.
check: format-check | build-asan/build.ninja ## Format, unit and RPC tests: below a minute from a built tree
	@scripts/run-tests build-asan --build --suite unit --suite rpc

test: all format-check | build-asan/build.ninja ## Everything that can be tested; as root
	@ninja -C build-asan all meson-test-prereq
	@scripts/run-tests build-asan

# What two threads share: the journal, the committer, loading. Under ThreadSanitizer; as root, minutes.
TSAN_TESTS = commit unflushed lmdb parts backup-lmdb backup-postgres contract-lmdb contract-postgres crash-lmdb crash-process \
	crash-postgres postgres pg-lease pg-journal nlm_process nlm_restart_process standby
tsan: | build-tsan/build.ninja ## What two threads share, under ThreadSanitizer; as root, minutes
	@ninja -C build-tsan
	@scripts/run-tests build-tsan $(or $(ONLY),$(TSAN_TESTS))

# Small faults, one at a time, that the tests must catch; as root, about an hour. ONLY: those that contain a word. A run that was
# stopped goes on where it was, survivors are judged again; remove build-asan/mutants.jsonl to judge all of them again.
mutants: | build-asan/build.ninja ## Small faults that the tests must catch; as root, about an hour
	@scripts/bootstrap test
	@ninja -C build-asan all meson-test-prereq
	@tests/mutants/run.py build-asan --results build-asan/mutants.jsonl --again $(if $(ONLY),--only $(ONLY))

# TIMES (200) takeovers of each kind under load; as root, an hour. Prints times; fails if the goal of HA-05 is missed. LOCKS=1000000:
# so many locks are held all the time.
takeovers: all ## How long a takeover takes, TIMES (200) of each kind; as root, an hour
	@scripts/takeovers build $(or $(TIMES),200) $(LOCKS)

# Real Linux clients in virtual machines, all stories; as root, half an hour. KERNEL=5.10, 6.1, 6.12 or newest, GANESHA=4.3, 6.5
# or newest: of another Debian release. UDP=yes: with an NFS client that can mount by UDP. TESTS: the names of some of its tests. RESTARTS=50: how often
# tests continue and failover-continue restart or move the service (12).
lab: | build/build.ninja ## Linux clients in virtual machines; as root, half an hour
	@scripts/bootstrap lab
	@ninja -C build
	@HOLDFAST_LAB=all HOLDFAST_LAB_KERNEL=$(KERNEL) HOLDFAST_LAB_GANESHA=$(GANESHA) HOLDFAST_LAB_UDP=$(UDP) HOLDFAST_LAB_RESTARTS=$(RESTARTS) scripts/run-tests build $(or $(TESTS),--suite lab)

# Bugs in the daemon (tests/mutants/sim.txt), which the histories must find; as root, about ten minutes.
history-mutants: all ## Bugs in the daemon that the histories must find; as root, ten minutes
	@ninja -C build bench/libslow_sync.so tests/histories/libclock_jump.so
	@scripts/history-mutants build

# Histories under faults, SECONDS (600) with each configuration, or with those of CONFIG, checked; then the simulators, with
# new seeds, as long each; a report in build/soak.txt; as root.
soak: all ## Random requests under faults, SECONDS (600) with each configuration; as root
	@ninja -C build bench/libslow_sync.so tests/histories/libclock_jump.so
	@scripts/soak build $(or $(SECONDS),600) $(CONFIG)

# Beside Ganesha, rpc.statd and a server that does nothing; as root, a few minutes, a quiet machine.
bench: build ## Measure beside Ganesha, rpc.statd and a server that does nothing; as root
	@scripts/bootstrap test
	@ninja -C build bench/holdfast-bench bench/nothing bench/libslow_sync.so
	@bench/run build --json build/bench.json

# What one hostile host can do to another client; as root. BESIDE: another holdfastd to compare with.
bench-hostile: build ## What one hostile host can do to another client; as root
	@scripts/bootstrap test
	@ninja -C build bench/hostile
	@bench/hostile build $(if $(BESIDE),--beside $(BESIDE)) --json build/hostile.json

# Curves: 10 to 100,000 clients, 1,000 to 10,000,000 locks; as root, minutes, a quiet machine with 12 GiB free.
scale: build ## Curves: 10 to 100,000 clients, 1,000 to 10,000,000 locks; as root
	@scripts/bootstrap test
	@ninja -C build bench/holdfast-bench bench/holdfast-clients
	@bench/scale build --json build/scale.json

# Where the slowest answers at half load come from; as root, with perf.
tails: build ## Where the slowest answers at half load come from; as root
	@scripts/bootstrap test
	@ninja -C build bench/holdfast-bench bench/nothing
	@bench/tails build --json build/tails.json

# The Debian packages, from the tracked files, into build/deb/.
deb: ## Debian packages, into build/deb/
	@scripts/bootstrap deb
	@packaging/build-deb build/deb
	@lintian --pedantic --display-info --allow-root --fail-on error,warning build/deb/*.changes

# The same, in a root of their own with nothing but their build dependencies: minutes, as root or as a user with subuids.
deb-clean: ## Debian packages, built in a new root with their build dependencies only
	@scripts/bootstrap deb
	@packaging/build-deb --clean build/deb-clean

# A container image from the package, as an OCI layout: build/oci.
oci: deb ## A container image from the package, into build/oci
	@scripts/bootstrap boot
	@packaging/build-oci build/deb/holdfast_*.deb build/oci

# The packages in machines that boot systemd: the whole boot matrix, upgrades, removal; as root, minutes. RELEASE=trixie: with machines
# of that release of Debian, and packages built there; else of this host's.
boot: | build/build.ninja ## The packages in machines that boot systemd; as root, minutes
	@scripts/bootstrap boot
	@ninja -C build build.ninja >/dev/null
	@HOLDFAST_BOOT=all HOLDFAST_BOOT_RELEASE=$(RELEASE) scripts/run-tests build --suite boot

# One table at the end; as root. ONLY=trixie-amd64: one of them.
matrix: ## Builds and suites in roots of Debian 12, 13 and sid, and for arm64 and s390x
	@scripts/bootstrap deb
	@scripts/matrix $(ONLY)

# As root. ONLY=trixie: one of them.
databases: | build-asan/build.ninja ## Tests with PostgreSQL 13, 15, 17 and 18, of other Debian releases; as root
	@scripts/bootstrap databases
	@ninja -C build-asan
	@scripts/databases $(ONLY)

# TESTS: the names of some tests.
calls: | build-asan/build.ninja ## System calls outside the daemon's filter that the suites provoke: none; as root, minutes
	@scripts/bootstrap test
	@ninja -C build-asan
	@scripts/calls $(TESTS)

coverage: ## Branch coverage of the core
	@scripts/bootstrap test
	@scripts/coverage

tidy: | build-asan/build.ninja ## clang-tidy over src/
	@ninja -C build-asan
	@clang-tidy --quiet -p build-asan $$(git ls-files 'src/*.c')

format: ## clang-format, in place
	@clang-format -i $$(git ls-files '*.c' '*.h')

# Version 14 decides: later ones lay out some lines differently.
format-check: ## clang-format, without changing anything
	@if clang-format --version | grep -q 'version 14\.'; then clang-format --dry-run --Werror $$(git ls-files '*.c' '*.h'); \
	else echo "format-check: skipped, needs clang-format 14 (Debian 12)"; fi

install: build ## Install without a package
	@meson install -C build --no-rebuild

clean: ## Remove all build trees
	@rm -rf build build-asan build-tsan build-cov run

build/build.ninja:
	@scripts/bootstrap build
	@meson setup build >/dev/null

build-asan/build.ninja:
	@scripts/bootstrap test
	@CC=clang meson setup build-asan -Doptimization=2 -Db_sanitize=address,undefined -Db_lundef=false -Db_lto=false \
		-Dtests=enabled -Dfuzz=true -Dc_args=-fno-sanitize-recover=all >/dev/null

build-tsan/build.ninja:
	@scripts/bootstrap test
	@CC=clang meson setup build-tsan -Doptimization=2 -Db_sanitize=thread -Db_lundef=false -Db_lto=false -Dtests=enabled >/dev/null

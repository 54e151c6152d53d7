# Thin front for meson and the scripts; see CONTRIBUTING.md.
#   build/       gcc, optimised: what is installed and measured
#   build-asan/  clang, AddressSanitizer + UBSan, fuzzers: what is tested
PROGRAMS = src/daemon/holdfastd src/ctl/holdfastctl
.PHONY: build all run demo check test takeovers mutants lab soak bench bench-hostile deb deb-clean boot oci coverage tidy format format-check install clean

# The daemon and holdfastctl; neither tests nor benchmarks are compiled.
build: | build/build.ninja
	@ninja -C build $(PROGRAMS)

# Everything in build/, the tests included, so that gcc sees them too.
all: | build/build.ninja
	@scripts/bootstrap test
	@meson configure build -Dtests=enabled
	@ninja -C build

run: build
	@scripts/run

# The daemon with played clients that lock, wait, crash and come back, for a first look.
demo: build
	@demo/run

# What a developer runs at each change: well under a minute.
check: format-check | build-asan/build.ninja
	@ninja -C build-asan
	@scripts/run-tests build-asan --suite unit --suite rpc

test: all format-check | build-asan/build.ninja
	@ninja -C build-asan
	@scripts/run-tests build-asan

# Small faults, one at a time, that the tests must catch; as root, about an hour. ONLY: those that contain a word.
mutants:
	@scripts/bootstrap test
	@tests/mutants/run.py $(if $(ONLY),--only $(ONLY))

# TIMES (200) takeovers of each kind under load; as root, an hour. Prints times; fails if the goal of HA-05 is missed.
takeovers: all
	@scripts/takeovers build $(or $(TIMES),200)

# Real Linux clients in virtual machines, all stories; as root, half an hour.
lab: | build/build.ninja
	@scripts/bootstrap lab
	@ninja -C build
	@HOLDFAST_LAB=all scripts/run-tests build --suite lab

# Histories under faults, SECONDS (600) with each configuration, checked; a report in build/soak.txt; as root.
soak: all
	@scripts/soak build $(or $(SECONDS),600)

# Beside Ganesha, rpc.statd and a server that does nothing; as root, a few minutes, a quiet machine.
bench: build
	@scripts/bootstrap test
	@ninja -C build bench/holdfast-bench bench/nothing bench/libslow_sync.so
	@bench/run build --json build/bench.json

# What one hostile host can do to another client; as root. BESIDE: another holdfastd to compare with.
bench-hostile: build
	@scripts/bootstrap test
	@ninja -C build bench/hostile
	@bench/hostile build $(if $(BESIDE),--beside $(BESIDE)) --json build/hostile.json

# The Debian packages, from the tracked files, into build/deb/.
deb:
	@scripts/bootstrap deb
	@packaging/build-deb build/deb
	@lintian --pedantic --display-info --allow-root --fail-on error,warning build/deb/*.changes

# The same, in a root of their own with nothing but their build dependencies: minutes, as root or as a user with subuids.
deb-clean:
	@scripts/bootstrap deb
	@packaging/build-deb --clean build/deb-clean

# A container image from the package, as an OCI layout: build/oci.
oci: deb
	@scripts/bootstrap boot
	@packaging/build-oci build/deb/holdfast_*.deb build/oci

# The packages in machines that boot systemd: the whole boot matrix, upgrades, removal; as root, two minutes.
boot: | build/build.ninja
	@scripts/bootstrap boot
	@ninja -C build build.ninja >/dev/null
	@HOLDFAST_BOOT=all scripts/run-tests build --suite boot

coverage:
	@scripts/bootstrap test
	@scripts/coverage

tidy: | build-asan/build.ninja
	@ninja -C build-asan
	@clang-tidy --quiet -p build-asan $$(git ls-files 'src/*.c')

format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

format-check:
	@clang-format --dry-run --Werror $$(git ls-files '*.c' '*.h')

install: build
	@meson install -C build --no-rebuild

clean:
	@rm -rf build build-asan build-cov run

build/build.ninja:
	@scripts/bootstrap build
	@meson setup build >/dev/null

build-asan/build.ninja:
	@scripts/bootstrap test
	@CC=clang meson setup build-asan -Doptimization=2 -Db_sanitize=address,undefined -Db_lundef=false -Db_lto=false \
		-Dtests=enabled -Dfuzz=true -Dc_args=-fno-sanitize-recover=all >/dev/null

# Thin front for meson and the scripts; see CONTRIBUTING.md.
#   build/       gcc, optimised: what is installed and measured
#   build-asan/  clang, AddressSanitizer + UBSan, fuzzers: what is tested
.PHONY: build run check test lab bench coverage tidy format format-check install clean

build: | build/build.ninja
	@ninja -C build

run: build
	@scripts/run

# What a developer runs at each change: well under a minute.
check: format-check | build-asan/build.ninja
	@ninja -C build-asan
	@scripts/run-tests build-asan --suite unit --suite rpc

test: build format-check | build-asan/build.ninja
	@scripts/bootstrap test
	@ninja -C build-asan
	@scripts/run-tests build-asan

# Real Linux clients in virtual machines; as root.
lab: | build/build.ninja
	@scripts/bootstrap lab
	@ninja -C build
	@scripts/run-tests build --suite lab

# Beside Ganesha, rpc.statd and a server that does nothing; as root, a few minutes, a quiet machine.
bench: build
	@scripts/bootstrap test
	@bench/run build --json build/bench.json

coverage: build
	@scripts/coverage

tidy: | build-asan/build.ninja
	@ninja -C build-asan
	@clang-tidy --quiet -p build-asan $$(git ls-files 'src/*.c')

format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

format-check:
	@clang-format --dry-run --Werror $$(git ls-files '*.c' '*.h')

install: build
	@meson install -C build

clean:
	@rm -rf build build-asan build-cov run

build/build.ninja:
	@scripts/bootstrap build
	@meson setup build >/dev/null

build-asan/build.ninja:
	@scripts/bootstrap test
	@CC=clang meson setup build-asan -Doptimization=2 -Db_sanitize=address,undefined -Db_lundef=false -Db_lto=false \
		-Dfuzz=true -Dc_args=-fno-sanitize-recover=all >/dev/null

#!/usr/bin/env python3
"""Attacks on memory, and what the installed programs have against them; and what systemd keeps from the service (SEC-12).

Looks at the release build: by hand, or beside a build with sanitizers, that of build/.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))
from holdfast_test import tap  # noqa: E402

ROOT = Path(__file__).parents[2]
EXPOSURE_MAX = 1.6
ENDBR64 = b"\xf3\x0f\x1e\xfa"


def build():
    if os.environ.get("HOLDFAST_INSTRUMENTED") == "no":
        return Path(os.environ["HOLDFAST_BUILD"])
    if not (ROOT / "build/src/daemon/holdfastd").exists():
        raise tap.Skip("there is no release build: make build")
    return ROOT / "build"


def installed():
    """The programs as `meson install` puts them; without it, as they were built."""
    return [build() / "src/daemon/holdfastd", build() / "src/ctl/holdfastctl", build() / "src/namesd/holdfast-namesd"]


def readelf(program, *options):
    return subprocess.run(["readelf", "-W", *options, program], check=True, stdout=subprocess.PIPE).stdout.decode()


@tap.test
def to_overwrite_a_table_of_functions():
    """SEC-12: Full RELRO: what the linker resolves is resolved at the start, and read-only from then on."""
    for program in installed():
        assert "GNU_RELRO" in readelf(program, "-l"), program
        dynamic = readelf(program, "-d")
        assert re.search(r"\(FLAGS\).*BIND_NOW", dynamic) and re.search(r"\(FLAGS_1\).*NOW", dynamic), program


@tap.test
def to_know_where_the_code_is():
    """PIE: the program is loaded at another address each time."""
    for program in installed():
        assert re.search(r"Type:\s+DYN", readelf(program, "-h")), program
        assert re.search(r"\(FLAGS_1\).*PIE", readelf(program, "-d")), program


@tap.test
def to_run_code_on_the_stack():
    """No segment is writable and executable, the stack is not executable."""
    for program in installed():
        segments = re.findall(r"^\s+(\w+)\s+0x\S+\s+0x\S+\s+0x\S+\s+0x\S+\s+0x\S+\s+([RWE ]{3})\s", readelf(program, "-l"),
                              re.M)
        assert ("GNU_STACK", "RW ") in segments, segments
        assert not [name for name, flags in segments if "W" in flags and "E" in flags], segments


@tap.test
def to_jump_into_the_middle_of_a_function():
    """CET: our functions begin with endbr64. (The program as a whole is marked so only where the C library's own
    start-up objects are, which Debian's are not.)"""
    for program in installed():  # only functions that are called through a pointer need it; the namer has few
        least = 5 if program.name == "holdfast-namesd" else 10
        assert program.read_bytes().count(ENDBR64) >= least, program


@tap.test
def to_overflow_a_buffer():
    """FORTIFY: copies and formats go by the checking functions; canaries on the stack."""
    for program in installed():
        symbols = readelf(program, "--dyn-syms")
        assert "__stack_chk_fail" in symbols, program
        assert len(set(re.findall(r"__\w+_chk\b", symbols)) - {"__stack_chk_fail"}) >= 3, program


@tap.test
def to_jump_over_the_guard_page():
    """Stack clash protection: each object says that it was compiled with it."""
    commands = (build() / "compile_commands.json").read_text()
    for part in ("daemon", "core", "rpc", "nlm", "nsm", "store", "admin", "base", "confine", "namesd"):
        lines = re.findall(rf'"command": "([^\n]*src/{part}/\w+\.c)"', commands)
        assert lines, part
        for flag in ("-fstack-clash-protection", "-fcf-protection=full", "-D_FORTIFY_SOURCE=3"):
            assert all(flag in line for line in lines), (part, flag)


@tap.test
def to_use_what_the_service_never_needs():
    """systemd-analyze rates the unit's exposure at 1.6 of 10 at most."""
    if not shutil.which("systemd-analyze"):
        raise tap.Skip("systemd-analyze is not installed")
    for name in ("holdfastd.service", "holdfast-namesd.service"):
        with tempfile.TemporaryDirectory() as folder:
            unit = Path(folder, name)
            unit.write_text((build() / "packaging" / name).read_text())
            done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager",
                                   f"--threshold={int(EXPOSURE_MAX * 10)}", unit], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        said = done.stdout.decode()
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
        assert found, said
        tap.note(f"systemd-analyze security: exposure level of {name}: {found[1]}")
        assert float(found[1]) <= EXPOSURE_MAX, said


if __name__ == "__main__":
    tap.main()

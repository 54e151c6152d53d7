#!/usr/bin/env python3
"""Mutation testing: small changes of the sources, one at a time, each of which some test must catch.

    tests/mutants/run.py                     all of mutants.txt; prints each result and the score
    tests/mutants/run.py --only WORD         those whose file or text contains the word
    tests/mutants/run.py --short             those marked short, for make test: TAP
    tests/mutants/run.py --check             only that each pattern still matches, once: TAP

A mutant is a file, the lines to replace and their replacement, as data (mutants.txt says how). If the code has moved or
changed so that the lines are no longer there exactly once, that is an error: the mutant has to be adapted. The sources
are copied and built in a scratch tree, so nothing here is touched. The tests that reach a room are run one after the other,
quick ones first, until one fails; a test that runs into its time limit counts as failed, and is marked so. A survivor that
is explained (why: in mutants.txt) is listed with its explanation and does not count.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).with_name("mutants.txt")
PROGRAM_LIMIT_S, SCRIPT_LIMIT_S = 90, 300  # each takes a fraction of that, also on a busy machine
GOAL = 95


def unit(*names):
    return [(f"tests/unit/test-{name}", [f"tests/unit/test-{name}"]) for name in names]


def store(*names):
    return [(f"tests/store/test-{name.split()[0]}", [f"tests/store/test-{name.split()[0]}", *name.split()[1:]]) for name in names]


def daemon(script, *words):
    return [("src/daemon/holdfastd src/ctl/holdfastctl", ["python3", f"../tests/{script}", *words])]


def netns(name):
    program = f"tests/unit/test-{name}"
    return [(program, ["python3", "../tests/interop/holdfast_test/netns.py", program])]


CORE = unit("core_locks", "core_durable", "core_recovery", "core_status", "core_verify", "core_release", "core_corners",
            "core_bounded", "record")
SIM = [("tests/sim/hf-sim", ["tests/sim/hf-sim", "--seeds", "600"]), ("tests/sim/hf-sim", ["tests/sim/hf-sim", "--faults"])]
# What reaches a room, in the order in which it is run.
SUITES = {
    "base": unit("base", "trees", "dupcache") + CORE,
    "core": CORE + SIM,
    "service": unit("service") + SIM,
    "config": unit("config"),
    "rpc": unit("message", "marking", "dupcache") + netns("rpc_server") + netns("rpc_client")
           + daemon("interop/test_wire.py") + daemon("interop/test_bad_input.py") + daemon("hostile/test_hostile_rpc.py"),
    "rpcbind": daemon("interop/test_rpcbind.py") + daemon("hostile/test_hostile_rpcbind.py"),
    "nlm": SIM + daemon("interop/test_nlm_bad.py") + daemon("interop/test_nlm_wire.py"),
    "nsm": SIM + daemon("interop/test_nsm_requests.py") + daemon("interop/test_nsm_notices.py"),
    "store": store("contract lmdb", "contract memory", "commit", "lmdb", "parts", "fault", "backup lmdb", "disk"),
    "postgres": store("contract postgres", "postgres", "backup postgres"),
    "admin": unit("admin") + daemon("admin/test_rest.py") + daemon("admin/test_access.py")
             + daemon("hostile/test_hostile_admin.py") + daemon("admin/test_sorting.py"),
}


@dataclass
class Mutant:
    number: int
    file: str
    suites: list
    old: str = ""
    new: str = ""
    short: bool = False
    why: str = ""
    result: str = field(default="", compare=False)

    def __str__(self):
        change = self.old.strip().split("\n")[0]
        return f"{self.number} {self.file}: {change}"


def read():
    """Blocks, separated by empty lines: FILE SUITE..., then lines of the old text with -, of the new with +."""
    mutants = []
    for block in re.split(r"\n\s*\n", DATA.read_text()):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        name, *suites = lines[0].split()
        mutant = Mutant(len(mutants) + 1, name, [s for s in suites if s != "short"], short="short" in suites)
        for line in lines[1:]:
            if line.startswith("why:"):
                mutant.why = line[4:].strip()
            elif line[0] in "-+":
                attribute = "old" if line[0] == "-" else "new"
                setattr(mutant, attribute, getattr(mutant, attribute) + line[1:] + "\n")
            else:
                sys.exit(f"{DATA.name}: not understood: {line}")
        unknown = [s for s in mutant.suites if s not in SUITES]
        if unknown or not mutant.suites or not mutant.old:
            sys.exit(f"{DATA.name}: {mutant}: unknown suites {unknown}, or none, or no old text")
        mutants.append(mutant)
    return mutants


def matches(mutant, root=ROOT):
    path = root / mutant.file
    return path.read_text().count(mutant.old) if path.exists() else 0


class Scratch:
    """A copy of the tracked files, configured for quick builds."""

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="holdfast-mutants-"))
        self.path.chmod(0o755)  # PostgreSQL runs as another user
        files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                               check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
        for name in filter(None, files):
            if (ROOT / name).is_file():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.path / name)
        self.build = self.path / "build"
        self.env = {**os.environ, "CCACHE_NOHASHDIR": "1", "HOLDFASTD": str(self.build / "src/daemon/holdfastd"),
                    "HOLDFASTCTL": str(self.build / "src/ctl/holdfastctl")}
        subprocess.run(["meson", "setup", self.build, self.path, "-Dtests=enabled", "-Db_lto=false", "-Doptimization=1",
                        "-Dwerror=false"], check=True, stdout=subprocess.DEVNULL, env=self.env)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def make(self, targets):
        return subprocess.run(["ninja", "-C", self.build, *targets.split()], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=self.env)

    def run(self, command):
        """None: it passed; else what went wrong."""
        limit = SCRIPT_LIMIT_S if command[0] == "python3" else PROGRAM_LIMIT_S
        if command[0] != "python3":
            command = [str(self.build / command[0]), *command[1:]]
        try:
            done = subprocess.run(command, cwd=self.build, env=self.env, timeout=limit, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        except subprocess.TimeoutExpired:
            return "time limit"
        if b"1..0" in done.stdout:
            return "ERROR: skipped, so nothing was tested"
        return f"status {done.returncode}" if done.returncode != 0 else None

    def judge(self, mutant):
        """Which test caught it; '' if none did."""
        path = self.path / mutant.file
        original = path.read_text()
        path.write_text(original.replace(mutant.old, mutant.new))
        try:
            for suite in mutant.suites:
                for targets, command in SUITES[suite]:
                    built = self.make(targets)
                    if built.returncode != 0:
                        return "does not build"
                    failure = self.run(command)
                    if failure and failure.startswith("ERROR"):
                        return f"{failure}: {' '.join(command)}"
                    if failure:
                        return f"{Path(command[1] if command[0] == 'python3' else command[0]).name}, {failure}"
            return ""
        finally:
            path.write_text(original)


def check():
    mutants = read()
    lost = [m for m in mutants if matches(m) != 1]
    print("1..1")
    for mutant in lost:
        print(f"# {mutant}: its text is there {matches(mutant)} times")
    print(f"{'not ' if lost else ''}ok 1 - the text of each of {len(mutants)} mutants is found once")
    return 1 if lost else 0


def short():
    mutants = [m for m in read() if m.short]
    print(f"1..{len(mutants)}")
    failed = 0
    with Scratch() as scratch:
        for i, mutant in enumerate(mutants, 1):
            caught = matches(mutant) == 1 and scratch.judge(mutant)
            failed += not caught
            print(f"{'ok' if caught else 'not ok'} {i} - {mutant} is caught" + (f" by {caught}" if caught else ""), flush=True)
    return 1 if failed else 0


def run_all(mutants):
    with Scratch() as scratch:
        for mutant in mutants:
            began = time.monotonic()
            count = matches(mutant, scratch.path)
            mutant.result = scratch.judge(mutant) if count == 1 else f"ERROR: its text is there {count} times"
            if mutant.result == "does not build":
                mutant.result = "ERROR: does not build"
            verdict = mutant.result if mutant.result.startswith("ERROR") else f"caught by {mutant.result}" if mutant.result \
                else f"SURVIVES ({mutant.why})" if mutant.why else "SURVIVES"
            print(f"{mutant}: {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
    return summary(mutants)


def summary(mutants):
    errors = [m for m in mutants if m.result.startswith("ERROR")]
    survivors = [m for m in mutants if not m.result and not m.why]
    explained = [m for m in mutants if not m.result and m.why]
    caught = [m for m in mutants if m.result and m not in errors]
    judged = len(caught) + len(survivors)
    score = 100 * len(caught) / judged if judged else 100
    rooms = sorted({m.file.split("/")[1] for m in mutants})
    print("\nroom        caught  of")
    for room in rooms:
        of_room = [m for m in caught + survivors if m.file.split("/")[1] == room]
        print(f"{room:10} {sum(bool(m.result) for m in of_room):7} {len(of_room):3}")
    for title, group in (("not caught", survivors), ("not caught, explained", explained), ("errors", errors)):
        if group:
            print(f"\n{title}:")
        for mutant in group:
            print(f"  {mutant}" + (f": {mutant.why}" if group is explained else f": {mutant.result}" if group is errors else ""))
    print(f"\n{len(caught)} of {judged} mutants caught: {score:.1f} % (goal {GOAL} %); "
          f"{len(explained)} explained, {len(errors)} errors")
    return 0 if score >= GOAL and not errors else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check()
    if options.short:
        return short()
    mutants = read()
    if options.only:
        mutants = [m for m in mutants if options.only in m.file or options.only in m.old]
    return run_all(mutants)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Mutation testing: small changes of the sources, one at a time, each of which some test must catch.

    tests/mutants/run.py                     all of mutants.txt; prints each result and the score
    tests/mutants/run.py --results FILE      the same, kept in the file: a run that was stopped goes on
    tests/mutants/run.py --jobs N            so many at a time (most tests wait more than they work)
    tests/mutants/run.py --only WORD         those whose file or text contains the word
    tests/mutants/run.py --short             those marked short, for make test: TAP
    tests/mutants/run.py --check             only that each pattern still matches, once: TAP

A mutant is a file, the lines to replace and their replacement, as data (mutants.txt says how). If the code has moved or
changed so that the lines are no longer there exactly once, that is an error: the mutant has to be adapted. The sources
are copied and built in a scratch tree, so nothing here is touched. The tests that reach a room are run one after the other,
quick ones first, until one fails. First, each test is run with the sources as they are: it must pass, and its time tells its
order and its limit. What survives is tried once more with sanitizers, as make test does, for leaks and the like.

A test that runs into its limit counts as failed, and is marked so; that, and a script that fails, is run again and counts
only if it fails again. A survivor that is explained (why: in mutants.txt) is listed with its explanation and does not count.
Of the kept results, one that says "caught" holds until the mutant is changed; a survivor is judged again.
"""
import argparse
import hashlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).with_name("mutants.txt")
FIRST_LIMIT_S = 600                        # for a test with the sources as they are
LEAST_LIMIT_S, TIMES_SLOWER = 60, 10       # then, compared with that; also on a busy machine
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

    def key(self):
        return hashlib.sha256("\0".join((self.file, *self.suites, self.old, self.new)).encode()).hexdigest()[:16]

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


def name_of(command):
    return " ".join(Path(word).name for word in command if word != "python3")


class Kept:
    """What is known already: how long each test takes, and what caught a mutant. In a file, line by line, if there is one."""

    def __init__(self, path=None):
        self.path, self.caught, self.seconds, self.guard = path, {}, {}, threading.Lock()
        for line in open(path) if path and os.path.exists(path) else ():
            row = json.loads(line)
            (self.caught if "caught" in row else self.seconds)[row["of"]] = row.get("caught", row.get("seconds"))

    def keep(self, of, **what):
        with self.guard:
            (self.caught if "caught" in what else self.seconds)[of] = next(iter(what.values()))
            if self.path:
                with open(self.path, "a") as file:
                    file.write(json.dumps({"of": of, **what}) + "\n")

    def limit_s(self, command):
        if name_of(command) not in self.seconds:
            return FIRST_LIMIT_S
        return max(LEAST_LIMIT_S, TIMES_SLOWER * self.seconds[name_of(command)])

    def in_order(self, suites):
        commands = [(targets, command) for suite in suites for targets, command in SUITES[suite]]
        return sorted(commands, key=lambda c: self.seconds.get(name_of(c[1]), 0))


class Scratch:
    """A copy of the tracked files, configured for quick builds, or with sanitizers."""

    def __init__(self, kept, via=(), sanitize=False):
        self.kept, self.via, self.sanitize = kept, via, sanitize

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
        self.env = {**os.environ, "CCACHE_NOHASHDIR": "1", "MALLOC_PERTURB_": "165",  # as meson does
                    "HOLDFASTD": str(self.build / "src/daemon/holdfastd"),
                    "HOLDFASTCTL": str(self.build / "src/ctl/holdfastctl")}
        if self.sanitize:
            self.env |= {"CC": "clang", "ASAN_OPTIONS": "detect_stack_use_after_return=1"}
        options = ("-Doptimization=2", "-Db_sanitize=address,undefined", "-Db_lundef=false",
                   "-Dc_args=-fno-sanitize-recover=all") if self.sanitize else ("-Doptimization=1",)
        subprocess.run(["meson", "setup", self.build, self.path, "-Dtests=enabled", "-Db_lto=false", "-Dwerror=false", *options],
                       check=True, stdout=subprocess.DEVNULL, env=self.env)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def make(self, targets):
        return subprocess.run([*self.via, "ninja", "-C", self.build, *targets.split()], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=self.env)

    def run(self, command):
        """None: it passed; else what went wrong."""
        limit = self.kept.limit_s(command)
        if command[0] != "python3":
            command = [str(self.build / command[0]), *command[1:]]
        process = subprocess.Popen([*self.via, *command], cwd=self.build, env=self.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "time limit"
        if b"1..0" in said:
            return "ERROR: skipped, so nothing was tested"
        return f"status {process.returncode}" if process.returncode != 0 else None

    def measure(self, targets, command):
        """Must pass with the sources as they are."""
        if self.make(targets).returncode != 0:
            sys.exit(f"{targets}: does not build")
        began = time.monotonic()
        failure = self.run(command)
        if failure:
            sys.exit(f"{name_of(command)}, with the sources as they are: {failure}")
        self.kept.keep(name_of(command), seconds=round(time.monotonic() - began, 1))

    def is_caught_by(self, command):
        """'', or how it failed."""
        failure = self.run(command)
        if failure and (command[0] == "python3" or failure == "time limit"):
            failure = self.run(command)
        return f"{name_of(command)}, {failure}" if failure else ""

    def judge(self, mutant):
        """Which test caught it; '' if none did."""
        path = self.path / mutant.file
        original = path.read_text()
        if original.count(mutant.old) != 1:
            return f"ERROR: its text is there {original.count(mutant.old)} times"
        path.write_text(original.replace(mutant.old, mutant.new))
        try:
            for targets, command in self.kept.in_order(mutant.suites):
                if self.make(targets).returncode != 0:
                    return "ERROR: does not build"
                caught = self.is_caught_by(command)
                if caught:
                    return f"ERROR: {caught}" if "ERROR" in caught else caught
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
    with Scratch(Kept()) as scratch:
        for i, mutant in enumerate(mutants, 1):
            caught = scratch.judge(mutant)
            if caught.startswith("ERROR"):
                print(f"# {caught}")
                caught = ""
            failed += not caught
            print(f"{'ok' if caught else 'not ok'} {i} - {mutant} is caught" + (f" by {caught}" if caught else ""), flush=True)
    return 1 if failed else 0


def measure_all(mutants, kept, via):
    wanted = {name_of(test[1]): test for m in mutants for suite in m.suites for test in SUITES[suite]}
    missing = [test for name, test in wanted.items() if name not in kept.seconds]
    if missing:
        with Scratch(kept, via) as scratch:
            for test in missing:
                scratch.measure(*test)


def judge_from(todo, kept, scratch, leave_out=None):
    """Judges what is in the queue; leave_out: where survivors go instead of being reported."""
    while True:
        try:
            mutant = todo.get_nowait()
        except queue.Empty:
            return
        began = time.monotonic()
        mutant.result = scratch.judge(mutant)
        if not mutant.result and leave_out is not None:
            leave_out.put(mutant)
            continue
        if mutant.result and not mutant.result.startswith("ERROR"):
            mutant.result += ", with sanitizers" if scratch.sanitize else ""
            kept.keep(mutant.key(), caught=mutant.result)
        verdict = mutant.result if mutant.result.startswith("ERROR") else f"caught by {mutant.result}" if mutant.result \
            else f"SURVIVES ({mutant.why})" if mutant.why else "SURVIVES"
        print(f"{mutant}: {verdict} ({time.monotonic() - began:.0f} s)", flush=True)


def judge_all(todo, jobs, judge, kept, via, sanitize):
    def work():
        with Scratch(kept, via, sanitize) as scratch:
            judge(scratch)
    threads = [threading.Thread(target=work) for _ in range(min(jobs, todo.qsize()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_all(mutants, kept, jobs, via):
    measure_all(mutants, kept, via)
    todo, survivors = queue.Queue(), queue.Queue()
    for mutant in mutants:
        mutant.result = kept.caught.get(mutant.key(), "")
        if mutant.result and matches(mutant) != 1:
            mutant.result = f"ERROR: its text is there {matches(mutant)} times"
        elif not mutant.result:
            todo.put(mutant)
    judge_all(todo, jobs, lambda scratch: judge_from(todo, kept, scratch, survivors), kept, via, False)
    judge_all(survivors, jobs, lambda scratch: judge_from(survivors, kept, scratch), kept, via, True)
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
    parser.add_argument("--results")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--via", default="", help="a command, such as nice, through which builds and tests are started")
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
    return run_all(mutants, Kept(options.results), options.jobs, options.via.split())


if __name__ == "__main__":
    sys.exit(main())

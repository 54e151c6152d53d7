#!/usr/bin/env python3
"""Mutation testing: small changes of the sources, one at a time, each of which some test must catch.

    tests/mutants/run.py                     all of mutants.txt; prints each result and the score
    tests/mutants/run.py --results FILE      the same, kept in the file: a run that was stopped goes on
    tests/mutants/run.py --again             with --results: what survived in an earlier run is judged again
    tests/mutants/run.py --jobs N            so many at a time (most tests wait more than they work)
    tests/mutants/run.py --seconds N         begins no other mutant after that time; with --results, a piece of the work
    tests/mutants/run.py --scratch FOLDER    builds there and keeps it, for the next piece
    tests/mutants/run.py --only WORD         those whose file or text contains the word
    tests/mutants/run.py --short             those marked short, for make test: TAP
    tests/mutants/run.py --check             only that each pattern still matches, once: TAP

A mutant is a file, the lines to replace and their replacement, as data (mutants.txt says how). If the code has moved or
changed so that the lines are no longer there exactly once, that is an error: the mutant has to be adapted. The sources
are copied and built in a scratch tree, so nothing here is touched. The tests that reach a room are run one after the other,
quick ones first, until one fails. Before it is used, each test is run with the sources as they are: it must pass, and its
time tells its order and its limit. What survives is tried once more with sanitizers, as make test does, for leaks and the like.

A test that runs into its limit counts as failed, and is marked so; that, and a script that fails, is run again and counts
only if it fails again. A survivor that is explained (why: in mutants.txt) is listed with its explanation and does not count.
A kept result holds until the mutant is changed.
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
    return [("src/daemon/holdfastd src/ctl/holdfastctl src/namesd/holdfast-namesd tests/interop/tirpc-client "
             "tests/interop/nsm-peers tests/interop/libnfs-client", ["python3", f"../tests/{script}", *words])]


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
    "addresses": netns("addresses"),
    "rpc": unit("message", "marking", "dupcache") + netns("rpc_server") + netns("rpc_client")
           + daemon("interop/test_wire.py") + daemon("interop/test_bad_input.py") + daemon("hostile/test_hostile_rpc.py"),
    "rpcbind": daemon("interop/test_rpcbind.py") + daemon("hostile/test_hostile_rpcbind.py"),
    "nlm": SIM + daemon("interop/test_nlm_bad.py") + daemon("interop/test_nlm_wire.py"),
    "nsm": SIM + daemon("interop/test_nsm_requests.py") + daemon("interop/test_nsm_notices.py") + daemon("admin/test_metrics.py")
           + daemon("hostile/test_hostile_notices.py"),
    "store": store("contract lmdb", "contract memory", "commit", "lmdb", "parts", "fault", "backup lmdb", "disk"),
    "postgres": store("contract postgres", "pg-journal", "postgres", "backup postgres"),
    "confine": daemon("hostile/test_hostile_confined.py"),
    "standby": store("pg-lease", "pg-takeover", "pg-standby"),
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
    judged: bool = field(default=False, compare=False)

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
    """What is known already: how long each test takes, what caught a mutant, and what it survived (plain, or sanitized as
    well). In a file, line by line, if there is one. trusting: the tests pass with the sources as they are."""

    def __init__(self, path=None, trusting=False):
        self.path, self.trusting, self.guard = path, trusting, threading.Lock()
        self.facts = {"seconds": {}, "caught": {}, "survived": {}}
        for line in open(path) if path and os.path.exists(path) else ():
            self.take(**json.loads(line))
        self.seconds, self.caught, self.survived = self.facts.values()

    def take(self, of, **what):
        for kind, value in what.items():
            self.facts[kind][of] = value

    def keep(self, of, **what):
        with self.guard:
            self.take(of, **what)
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

    def effort_s(self, mutant):
        return sum(self.seconds.get(name_of(command), LEAST_LIMIT_S) for _, command in self.in_order(mutant.suites))


class Scratch:
    """A copy of the tracked files, configured for quick builds, or with sanitizers."""

    def __init__(self, kept, sanitize=False, path=None):
        self.kept, self.sanitize, self.own = kept, sanitize, path is None
        self.path = path

    def __enter__(self):
        if self.own:
            self.path = Path(tempfile.mkdtemp(prefix="holdfast-mutants-"))
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o755)  # PostgreSQL runs as another user
        files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                               check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
        for name in filter(None, files):
            if (ROOT / name).is_file():
                self.bring(name)
        self.build = self.path / "build"
        self.env = {**os.environ, "CCACHE_NOHASHDIR": "1", "MALLOC_PERTURB_": "165",  # as meson does
                    "HOLDFASTD": str(self.build / "src/daemon/holdfastd"),
                    "HOLDFASTCTL": str(self.build / "src/ctl/holdfastctl")}
        if self.sanitize:
            self.env |= {"CC": "clang", "ASAN_OPTIONS": "detect_stack_use_after_return=1"}
        options = ("-Doptimization=2", "-Db_sanitize=address,undefined", "-Db_lundef=false",
                   "-Dc_args=-fno-sanitize-recover=all") if self.sanitize else ("-Doptimization=1",)
        if not (self.build / "build.ninja").exists():
            self.set_up(options)
        self.read_tests()
        return self

    def set_up(self, options):
        subprocess.run(["meson", "setup", self.build, self.path, "-Dtests=enabled", "-Db_lto=false", "-Dwerror=false", *options],
                       check=True, stdout=subprocess.DEVNULL, env=self.env)

    def introspect(self, what):
        return json.loads(subprocess.run(["meson", "introspect", what, self.build], check=True, stdout=subprocess.PIPE).stdout)

    def read_tests(self):
        """Of each script: what it needs built, and its environment, as in make test."""
        files = {target["id"]: target["filename"] for target in self.introspect("--targets")}
        self.scripts = {}
        for test in self.introspect("--tests"):
            for word in test["cmd"]:
                if Path(word).match("test_*.py"):
                    needed = [file for target in test["depends"] for file in files[target]]
                    self.scripts[Path(word).name] = (needed, test["env"])

    def needs(self, command):
        """(files to build, environment)."""
        return self.scripts.get(Path(command[1]).name, ([], {})) if command[0] == "python3" else ([], {})

    def bring(self, name):
        """A copy; one that is the same already is left alone, so that it is not built again."""
        source, target = ROOT / name, self.path / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def __exit__(self, *_):
        if self.own:
            shutil.rmtree(self.path, ignore_errors=True)

    def make(self, targets, command):
        files = [os.path.relpath(file, self.build) for file in self.needs(command)[0]]
        return subprocess.run(["ninja", "-C", self.build, *targets.split(), *files], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=self.env)

    def run(self, command):
        """None: it passed; else what went wrong."""
        limit, env = self.kept.limit_s(command), {**self.env, **self.needs(command)[1]}
        if command[0] != "python3":
            command = [str(self.build / command[0]), *command[1:]]
        process = subprocess.Popen(command, cwd=self.build, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
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
        """True: it passes with the sources as they are."""
        if self.make(targets, command).returncode != 0:
            return False
        began = time.monotonic()
        if self.run(command):
            return False
        self.kept.keep(name_of(command), seconds=round(time.monotonic() - began, 1))
        return True

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
        for targets, command in self.kept.in_order(mutant.suites):
            is_known = self.kept.trusting or name_of(command) in self.kept.seconds
            if not is_known and not self.measure(targets, command):
                return f"ERROR: with the sources as they are, {name_of(command)} fails"
        path.write_text(original.replace(mutant.old, mutant.new))
        try:
            for targets, command in self.kept.in_order(mutant.suites):
                if self.make(targets, command).returncode != 0:
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
    with Scratch(Kept(trusting=True)) as scratch:  # make test runs them all
        for i, mutant in enumerate(mutants, 1):
            caught = scratch.judge(mutant)
            if caught.startswith("ERROR"):
                print(f"# {caught}")
                caught = ""
            failed += not caught
            print(f"{'ok' if caught else 'not ok'} {i} - {mutant} is caught" + (f" by {caught}" if caught else ""), flush=True)
    return 1 if failed else 0


class Session:
    """How long, how many at a time, and where."""

    def __init__(self, options):
        self.kept, self.jobs, self.again = Kept(options.results), options.jobs, options.again
        self.folder = Path(options.scratch).resolve() if options.scratch else None
        self.end = time.monotonic() + options.seconds if options.seconds else None

    def is_over(self):
        return self.end is not None and time.monotonic() > self.end

    def scratch(self, number, sanitize=False):
        return Scratch(self.kept, sanitize, self.folder / f"{'sanitized' if sanitize else 'plain'}-{number}" if self.folder else None)

    def judge_all(self, todo, sanitize, survivors=None):
        def work(number):
            with self.scratch(number, sanitize) as scratch:
                judge_from(todo, self, scratch, survivors)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(min(self.jobs, todo.qsize()))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def judge_from(todo, session, scratch, leave_out=None):
    """Judges what is in the queue; leave_out: where survivors go instead of being reported."""
    while not session.is_over():
        try:
            mutant = todo.get_nowait()
        except queue.Empty:
            return
        began = time.monotonic()
        mutant.result = scratch.judge(mutant)
        if not mutant.result and leave_out is not None:
            leave_out.put(mutant)
            session.kept.keep(mutant.key(), survived="plain")
            continue
        if mutant.result and not mutant.result.startswith("ERROR"):
            mutant.result += ", with sanitizers" if scratch.sanitize else ""
            session.kept.keep(mutant.key(), caught=mutant.result)
        elif not mutant.result:
            session.kept.keep(mutant.key(), survived="sanitized")
        mutant.judged = True
        verdict = mutant.result if mutant.result.startswith("ERROR") else f"caught by {mutant.result}" if mutant.result \
            else f"SURVIVES ({mutant.why})" if mutant.why else "SURVIVES"
        print(f"{mutant}: {verdict} ({time.monotonic() - began:.0f} s)", flush=True)


def run_all(mutants, session):
    todo, survivors = queue.Queue(), queue.Queue()
    for mutant in sorted(mutants, key=session.kept.effort_s):
        mutant.result = session.kept.caught.get(mutant.key(), "")
        survived = session.kept.survived.get(mutant.key()) if not session.again else None
        mutant.judged = bool(mutant.result) or survived == "sanitized"
        if matches(mutant) != 1:
            mutant.result, mutant.judged = f"ERROR: its text is there {matches(mutant)} times", True
        elif not mutant.judged:
            (survivors if survived else todo).put(mutant)
    session.judge_all(todo, False, survivors)
    session.judge_all(survivors, True)
    return summary([m for m in mutants if m.judged], len(mutants))


def summary(mutants, in_all):
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
          f"{len(explained)} explained, {len(errors)} errors, {in_all - len(mutants)} not judged yet")
    return 0 if score >= GOAL and not errors and in_all == len(mutants) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only")
    parser.add_argument("--results")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--scratch")
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
    return run_all(mutants, Session(options))


if __name__ == "__main__":
    sys.exit(main())

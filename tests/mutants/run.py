#!/usr/bin/env python3
"""Mutation testing: small changes of the sources, one at a time, each of which some test must catch.

    run.py BUILD                     all mutants; prints each result and the score
    run.py BUILD --results FILE      the same, kept in the file: a run that was stopped goes on
    run.py BUILD --again             with --results: what survived in an earlier run is judged again
    run.py BUILD --jobs N            so many at a time (most tests wait more than they work)
    run.py BUILD --seconds N         begins no other mutant after that time; with --results, a piece of the work
    run.py BUILD --only WORD         those whose name, file or text contains the word
    run.py BUILD --short             those marked short, for make test: TAP
    run.py BUILD --hunt SUITE        those of a simulator, for make test: TAP
    run.py BUILD --hunt SUITE --write    the same; writes into the list which seed finds each
    run.py BUILD --program NAME P    links program P of the tree with the mutant of that name, to look at it
    run.py BUILD --check             only that each text still matches, once: TAP

A mutant is a file, the lines to replace and their replacement, as data (mutants.txt says how). If the code has moved or
changed so that the lines are no longer there exactly once, that is an error: the mutant has to be adapted. The changed file
is compiled and linked beside the build tree (relink.py), with the sanitizers of that tree. The tests that reach a room are run
one after the other, quick ones first, until one fails. Before it is used, each test is run with copies of the programs as they
are: it must pass, and its time tells its order and its limit.

A program of ours counts as failed if a case of it failed or a check ended it (an assertion, a sanitizer); a death without words
proves nothing and is an error. A test that runs into its limit counts as failed, and is marked so; that, and a script that fails,
is run again and counts only if it fails again. A survivor that is explained (why: in mutants.txt) is listed with its explanation
and does not count. A kept result holds until the mutant is changed.
"""
import argparse
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
import blocks
from relink import DoesNotBuild, Tree

FIRST_LIMIT_S = 600                        # for a test with the sources as they are
LEAST_LIMIT_S, TIMES_SLOWER = 60, 10       # then, compared with that; also on a busy machine
GOAL = 95
# What a program of ours says when it failed: a case, hf_panic(), UBSan, AddressSanitizer.
FAILED = re.compile(rb"^not ok|invariant broken at |runtime error: |AddressSanitizer: |LeakSanitizer: ", re.M)

CORE = ["core_locks", "core_durable", "core_recovery", "core_start", "core_status", "core_verify", "core_release", "core_corners",
        "core_bounded", "core_beliefs", "core_setbacks", "core_lives", "record"]
SEEDS = ["sim-seeds --seeds 600", "sim-faults"]
# The tests that reach a room: names of meson's tests (suite/name where two have one name), with other arguments behind them.
SUITES = {
    "sim": ["sim-seeds --hunt 2000"],
    "cluster": ["cluster-seeds --hunt 3000"],
    "base": ["base", "trees", "memory", "dupcache", "unit/namesd", *CORE],
    "core": [*CORE, *SEEDS],
    "lease": ["core_lease", "cluster-seeds --hunt 600"],
    "service": ["service", *SEEDS],
    "config": ["config"],
    "addresses": ["addresses"],
    "rpc": ["message", "marking", "dupcache", "rpc_server", "rpc_client", "wire", "bad_input", "hostile_rpc"],
    "udp": ["hostile_udp"],
    "reload": ["hostile_rpc"],
    "rpcbind": ["rpcbind", "hostile_rpcbind"],
    "nlm": [*SEEDS, "nlm_bad", "nlm_wire"],
    "nsm": [*SEEDS, "nsm_requests", "nsm_notices", "metrics", "hostile_notices"],
    "store": ["contract-lmdb", "contract-memory", "commit", "lmdb", "parts", "fault", "backup-lmdb", "disk"],
    "postgres": ["contract-postgres", "pg-journal", "postgres", "backup-postgres"],
    "term": ["start"],
    "confine": ["hostile_confined"],
    "standby": ["pg-lease", "pg-takeover", "pg-standby"],
    "admin": ["admin", "rest", "access", "hostile_admin", "sorting"],
    "ctl": ["ctl", "keep"],
    "keeper": ["keeper_ranges", "keeper_protocol", "keeper_confine", "keeper", "hostile_keeper"],
    "namesd": ["unit/namesd", "interop/namesd"],
    "daemon": ["config", "process", "metrics", "troubles"],
    "identity": ["core_identity"],
    "handles": ["keeper_protocol"],
    "claims": ["claims", "coherence-seeds --seeds 400"],
}


class Kept:
    """What is known already: how long each test takes, what caught a mutant, and what survived. In a file, line by line, if
    there is one. trusting: the tests pass with the sources as they are."""

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

    def limit_s(self, test):
        return max(LEAST_LIMIT_S, TIMES_SLOWER * self.seconds[test]) if test in self.seconds else FIRST_LIMIT_S

    def in_order(self, suites):
        tests = dict.fromkeys(test for suite in suites for test in SUITES.get(suite, [suite]))
        return sorted(tests, key=lambda test: self.seconds.get(test, 0))

    def effort_s(self, mutant):
        return sum(self.seconds.get(test, LEAST_LIMIT_S) for test in self.in_order(mutant.suites))


def tests_of(tree):
    """Meson's tests by name, and by suite/name."""
    tests = {}
    for test in tree.introspect("--tests"):
        tests[test["name"]] = tests[test["suite"][0].split(":")[-1] + "/" + test["name"]] = test
    return tests


class Judge:
    """Runs tests of a build tree with programs that contain a mutant."""

    def __init__(self, tree, kept, folder):
        self.tree, self.kept, self.folder = tree, kept, Path(folder)
        self.tests = tests_of(tree)

    def test(self, words):
        """(command, environment) of a test; other arguments replace its own."""
        name, *arguments = words.split()
        test = self.tests[name]
        return [test["cmd"][0], *arguments] if arguments else test["cmd"], test["env"]

    def run(self, test, replaced):
        """None: it passed; else what went wrong. replaced: {program: the one to be run in its place}."""
        command, env = self.test(test)
        names = {str(old): str(new) for old, new in replaced.items()}
        command = [names.get(word, word) for word in command]
        env = {key: ":".join(names.get(part, part) for part in value.split(":")) for key, value in env.items()}
        process = subprocess.Popen(command, cwd=self.tree.build, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            said, _ = process.communicate(timeout=self.kept.limit_s(test))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "time limit"
        if b"1..0" in said:
            return "ERROR: skipped, so nothing was tested"
        if process.returncode == 0:
            return None
        if not FAILED.search(said):
            return f"ERROR: status {process.returncode} without a word: {said[-300:].decode(errors='replace')}"
        return self.words(said)

    @staticmethod
    def words(said):
        return next(line for line in said.split(b"\n") if FAILED.search(line)).decode(errors="replace")[:160]

    def programs(self, test):
        command, env = self.test(test)
        named = {part for value in (*command, *env.values()) for part in value.split(":")}
        return [program for program in self.tree.programs if str(program) in named]

    def measure(self, test):
        """True: it passes with the programs as they are, also at another place."""
        began = time.monotonic()
        if self.run(test, {program: self.tree.copy(program, self.folder / "as-they-are") for program in self.programs(test)}):
            return False
        self.kept.keep(test, seconds=round(time.monotonic() - began, 1))
        return True

    def is_caught_by(self, test, replaced):
        """'', or how it failed."""
        failure = self.run(test, replaced)
        is_script = self.test(test)[0][0].endswith("python3")
        if failure and (is_script or failure == "time limit"):
            failure = self.run(test, replaced)
        if not failure or failure.startswith("ERROR"):
            return failure or ""
        return f"{test}: {failure}"

    def judge(self, mutant):
        """What caught it; '' if nothing did."""
        if mutant.lost():
            return f"ERROR: {mutant.lost()}"
        made, reached = {}, False
        for test in self.kept.in_order(mutant.suites):
            if not self.kept.trusting and test not in self.kept.seconds and not self.measure(test):
                return f"ERROR: with the sources as they are, {test} fails"
        for test in self.kept.in_order(mutant.suites):
            try:
                for program in self.programs(test):
                    if program not in made and self.tree.contains(mutant, program):
                        made[program] = self.tree.program(mutant, program, self.folder)
            except DoesNotBuild as why:
                return f"ERROR: does not build: {why}"
            if not any(program in made for program in self.programs(test)):
                continue
            reached = True
            caught = self.is_caught_by(test, made)
            if caught:
                return caught
        return "" if reached else "ERROR: no program of its tests contains it"


def check(tree):
    mutants, tests = blocks.read(), tests_of(tree)
    wrong = [(m, m.lost()) for m in mutants if m.lost()]
    wrong += [(m, f"there is no suite or test {name}") for m in mutants for name in m.suites if name not in SUITES | tests]
    print("1..1")
    for mutant, why in wrong:
        print(f"# {mutant}: {why}")
    print(f"{'not ' if wrong else ''}ok 1 - the text of each of {len(mutants)} mutants is found once")
    return 1 if wrong else 0


def tap(mutants, judge, before=()):
    """before: cases that were decided already, (good, text)."""
    print(f"1..{len(before) + len(mutants)}")
    failed = 0
    for i, (good, text) in enumerate(before, 1):
        failed += not good
        print(f"{'ok' if good else 'not ok'} {i} - {text}", flush=True)
    for i, mutant in enumerate(mutants, len(before) + 1):
        caught = mutant.result = judge.judge(mutant)
        good = caught and not caught.startswith("ERROR")
        failed += not good
        if not good:
            print("# " + (caught or "no test fails").replace("\n", "\n# "))
        print(f"{'ok' if good else 'not ok'} {i} - {mutant} is caught" + (f" by {caught}" if good else ""), flush=True)
    return 1 if failed else 0


def short(tree):
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as folder:  # make test runs the tests as they are
        return tap([m for m in blocks.read() if m.short], Judge(tree, Kept(trusting=True), folder))


def hunt(tree, suite, write):
    """Without a mutant the same worlds are quiet; else the others prove nothing. The world that found a mutant last comes first."""
    test = SUITES[suite][0]
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as folder:
        judge = Judge(tree, Kept(trusting=True), folder)
        quiet = judge.run(f"{test.split()[0]} --hunt 100", {})
        mutants = [m for m in blocks.read() if suite in m.suites]
        for mutant in mutants:
            mutant.suites = [f"{test} --from {mutant.seed}"]
        status = tap(mutants, judge, [(not quiet, "without a mutant nothing is found")])
    for mutant in mutants if write else ():
        found = re.search(r"seed (\d+)", mutant.result)
        if found:
            blocks.set_seed(mutant.name, int(found[1]))
    return status


class Session:
    """How long, how many at a time, and where."""

    def __init__(self, options):
        self.tree = Tree(options.build)
        if not self.tree.is_up_to_date():
            sys.exit(f"{options.build} is older than the sources: ninja -C {options.build} all meson-test-prereq")
        self.kept, self.jobs, self.again = Kept(options.results), options.jobs, options.again
        self.end = time.monotonic() + options.seconds if options.seconds else None

    def is_over(self):
        return self.end is not None and time.monotonic() > self.end

    def judge_all(self, todo):
        def work():
            with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as folder:
                os.chmod(folder, 0o755)  # some tests run programs as another user
                judge_from(todo, self, Judge(self.tree, self.kept, folder))
        threads = [threading.Thread(target=work) for _ in range(min(self.jobs, todo.qsize()))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def judge_from(todo, session, judge):
    while not session.is_over():
        try:
            mutant = todo.get_nowait()
        except queue.Empty:
            return
        began = time.monotonic()
        mutant.result, mutant.judged = judge.judge(mutant), True
        if mutant.result and not mutant.result.startswith("ERROR"):
            session.kept.keep(mutant.key(), caught=mutant.result)
        elif not mutant.result:
            session.kept.keep(mutant.key(), survived=True)
        verdict = mutant.result if mutant.result.startswith("ERROR") else f"caught by {mutant.result}" if mutant.result \
            else f"SURVIVES ({mutant.why})" if mutant.why else "SURVIVES"
        print(f"{mutant}: {verdict} ({time.monotonic() - began:.0f} s)", flush=True)


def run_all(mutants, session):
    todo = queue.Queue()
    for mutant in sorted(mutants, key=session.kept.effort_s):
        mutant.result = session.kept.caught.get(mutant.key(), "")
        mutant.judged = bool(mutant.result) or (not session.again and mutant.key() in session.kept.survived)
        if not mutant.judged:
            todo.put(mutant)
    session.judge_all(todo)
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


def link_one(tree, name, program):
    folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{name}-"))
    print(tree.program(blocks.named(name), tree.build / program, folder))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only")
    parser.add_argument("--results")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--hunt", choices=("sim", "cluster"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--program", nargs=2, metavar=("NAME", "PROGRAM"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check(Tree(options.build))
    if options.short:
        return short(Tree(options.build))
    if options.hunt:
        return hunt(Tree(options.build), options.hunt, options.write)
    if options.program:
        return link_one(Tree(options.build), *options.program)
    mutants = blocks.read()
    if options.only:
        mutants = [m for m in mutants if options.only in m.name or any(options.only in c.file + c.old for c in m.changes)]
    return run_all(mutants, Session(options))


if __name__ == "__main__":
    sys.exit(main())

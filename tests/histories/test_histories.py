#!/usr/bin/env python3
"""NLM-02, NLM-03, NLM-04, NLM-08, GRC-02, STO-03, CRS-01: whatever is killed, paused or cut, there is an order of all
requests that explains every answer.

    test_histories.py                    the short version
    test_histories.py --soak SECONDS     for so long with each configuration, and a report
    test_histories.py --mutants [NAME...]  which of the daemon's mutants the histories find
"""
import os
import sys
import time

from holdfast_test import netns, tap

import mutants
from world import Run

KEPT = os.environ.get("HOLDFAST_HISTORIES", "")  # where the picture of a violation is kept
UNDECIDED = 3  # exit status of the checker
TRIES = 5
CONFIGURATIONS = {
    "durable, strict": ("locks.durable=yes", "grace.mode=strict"),
    "durable, conflict": ("locks.durable=yes", "grace.mode=conflict"),
    "clients only": ("locks.durable=no",),
}


def play(name, sets, seconds, seed, **options):
    """One run, checked. A history with too much at a time to decide is played again with another seed."""
    for attempt in range(TRIES):
        result = play_once(name, sets, seconds, f"{seed}-{attempt}" if attempt else seed, **options)
        if result:
            return result
    raise AssertionError(f"{name}: none of {TRIES} histories could be decided")


def play_once(name, sets, seconds, seed, **options):
    """How many operations and faults; None: undecided."""
    if "locks.durable=no" not in sets:  # else a reclaim is checked client by client
        options.setdefault("options", ("--false-reclaims",))
    run = Run(seed, *sets, **options)
    try:
        count = run.play(seconds)
        picture = f"{KEPT}/{seed.replace('/', '-')}.svg" if KEPT else None
        status, said = run.check(picture)
        faults = ", ".join(f"{n} x {fault}" for fault, n in sorted(run.counts.items())) or "no faults"
        tap.note(f"{name}, seed {seed}: {count} operations, {faults}; {said.splitlines()[-1][2:]}")
        if status == UNDECIDED:
            return None
        assert status == 0, said
        assert count > 100, "hardly anything happened"
        return count, sum(run.counts.values())
    finally:
        run.close()


@tap.test
def without_faults():
    """Clients that also change modes, while nothing goes wrong."""
    play("no faults", CONFIGURATIONS["durable, strict"], 3, "quiet", pause_s=0, options=("--change-modes",))


@tap.test
def durable_locks_with_faults():
    """Locks are durable; with strict grace."""
    play("durable, strict", CONFIGURATIONS["durable, strict"], 8, "short-1")


@tap.test
def durable_locks_with_faults_and_conflict_grace():
    """Locks are durable; new locks are granted in grace unless they conflict with an unclaimed one."""
    play("durable, conflict", CONFIGURATIONS["durable, conflict"], 8, "short-2")


@tap.test
def reclaimed_locks_with_faults():
    """Only clients are durable: what was held comes back by reclaims alone."""
    play("clients only", CONFIGURATIONS["clients only"], 8, "short-3")


@tap.test
def mutants_are_found():
    """The checker is not blind: a few bugs that can be switched on in the daemon are found at once."""
    with mutants.mutants_daemon():
        for name in mutants.QUICK:
            how, runs = mutants.is_found(name, mutants.recipes()[name])
            assert how, name
            tap.note(f"{name} in run {runs}: {how}")


def soak(seconds):
    failed = 0
    for name, sets in CONFIGURATIONS.items():
        end, operations, faults, rounds = time.monotonic() + seconds, 0, 0, 0
        while time.monotonic() < end:
            rounds += 1
            try:
                done = play(name, sets, min(60, max(5, end - time.monotonic())), f"soak-{int(time.time())}-{rounds}")
                operations, faults = operations + done[0], faults + done[1]
            except AssertionError as violation:
                failed += 1
                print(violation, flush=True)
        print(f"{name}: {operations} operations, {faults} faults, {rounds} rounds, {failed} violations so far", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    netns.enter()
    if sys.argv[1:2] == ["--mutants"]:
        sys.exit(mutants.find(sys.argv[2:]))
    if sys.argv[1:2] == ["--soak"]:
        sys.exit(soak(float(sys.argv[2])))
    tap.main()

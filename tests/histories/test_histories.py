#!/usr/bin/env python3
"""NLM-02, NLM-03, NLM-04, NLM-08, GRC-02, STO-03, CRS-01: whatever is killed, paused or cut, there is an order of all
requests that explains every answer.

    test_histories.py [WORD]...                           the short version: tests whose names contain a word
    test_histories.py --soak SECONDS [--config NAME]...   for so long with each configuration, and a report (soak.py)
    test_histories.py --mutants [NAME]...                 which mutants of the daemon the histories find
"""
import argparse
import os
import sys

from holdfast_test import netns, tap

import mutants
import soak
from judge import LINEARIZABLE, UNDECIDED, VIOLATION
from nemesis import Nemesis
from services import CONFIGURATIONS, Kept
from world import World

TRIES = 5
FEWEST = 1000  # operations of a round; a quiet machine makes ten times as many
SHORT = {"longest_s": 1.0, "pause_s": 0.2}  # of faults, so that a short run has many


def play(config, seconds, seed, **options):
    """One round, checked. A history with too much at a time to decide is played again with another seed, and one in which
    hardly anything happened, because the machine is busy, for twice as long."""
    for attempt in range(TRIES):
        with World(config, f"{seed}-{attempt}", **options) as world:
            verdict = world.play(seconds).judge()
        faults = ", ".join(f"{n} x {kind}" for kind, n in sorted(verdict.faults.items())) or "no faults"
        tap.note(f"{config}, seed {seed}-{attempt}: {verdict.operations} operations, {faults}; {verdict.said.splitlines()[-1][2:]}")
        assert verdict.status in (LINEARIZABLE, UNDECIDED), verdict.said
        if verdict.operations < FEWEST:
            seconds *= 2
        elif verdict.status == LINEARIZABLE:
            assert not options.get("pause_s") or set(verdict.faults) & {"kill_node", "kill_owner"}, "the daemon was never killed"
            return
    raise AssertionError(f"{config}: none of {TRIES} histories had {FEWEST} operations and could be decided")


@tap.test
def without_faults():
    """Clients that also change modes, while nothing goes wrong."""
    play("lmdb", 3, "quiet", pause_s=0, options=("--change-modes",))


@tap.test
def callbacks_that_come_late():
    """A GRANTED that CANCEL, UNLOCK and the next LOCK of the same range would overtake is not taken for the grant of the
    second wait."""
    play("lmdb", 4, "late", pause_s=0, files=2, options=("--slow-callbacks",))


@tap.test
def durable_locks_with_faults():
    """Locks are durable; with strict grace."""
    play("lmdb", 6, "short-1", **SHORT)


@tap.test
def durable_locks_with_faults_and_conflict_grace():
    """Locks are durable; new locks are granted in grace unless they conflict with an unclaimed one."""
    play("lmdb-conflict", 6, "short-2", **SHORT)


@tap.test
def locks_that_survive_the_process():
    """Locks are written before the answer and flushed soon after: a daemon that is killed loses nothing."""
    play("lmdb-process", 6, "short-3", **SHORT)


@tap.test
def reclaimed_locks_with_faults():
    """Only clients are durable: what was held comes back by reclaims alone."""
    play("lmdb-no", 6, "short-4", **SHORT)


@tap.test
def programs_of_the_server():
    """Programs of the server lock the same files with fcntl, and daemon and keeper are killed: none of them gets what a client has, and no
    client what one of them has."""
    play("keeper", 6, "short-10", kinds=[Nemesis.kill_node, Nemesis.kill_keeper], **Kept.world, **SHORT)


@tap.test
def programs_that_the_daemon_does_not_see():
    """The checker is not blind: without the keeper there is no order."""
    with World("keeper", "blind", sets=("keeper.socket=",), pause_s=0, **Kept.world) as world:
        assert world.play(2).judge().status == VIOLATION


@tap.test
def locks_in_postgres():
    """The daemon and its database are killed, paused and parted."""
    play("postgres", 6, "short-5", **SHORT)


@tap.test
def locks_of_a_service_that_moves():
    """Two nodes over PostgreSQL with a synchronous standby: the service moves, and its database fails over."""
    play("pair", 10, "short-6", **SHORT)


@tap.test
def restarts_with_another_configuration():
    """Each start may change how durable locks are and what grace grants, and may come before the host's address."""
    play("lmdb-process", 5, "short-7", kinds=[Nemesis.kill_node, Nemesis.restart_changed, Nemesis.pause_machine, Nemesis.fill_stderr], **SHORT)


@tap.test
def a_database_that_others_use():
    """Tables are locked, sessions ended and snapshots held open by other programs."""
    play("postgres", 6, "short-8", kinds=[Nemesis.kill_node, Nemesis.lock_table, Nemesis.end_sessions, Nemesis.hold_snapshot], **SHORT)


@tap.test
def takeovers_that_are_cut():
    """The connection of the node that takes over is cut at the n-th packet; machines are paused with their clocks; a full standard
    error keeps no address."""
    play("pair", 10, "short-9", kinds=[Nemesis.kill_owner, Nemesis.cut_takeover, Nemesis.pause_machine, Nemesis.kill_owner_unheard],
         **SHORT)


@tap.test
def restarts_that_no_client_notices():
    """recovery.notify=needed: the queue goes on over restarts in its order, and GRANTED callbacks are made again; some restarts are told
    to clients again."""
    play("lmdb-needed", 6, "short-11", **SHORT)


@tap.test
def takeovers_that_no_client_notices():
    """REC-01a, REC-03, HA-05: the same for a service that moves, and whose database fails over: each takeover keeps the state number."""
    play("pair-needed", 6, "short-12", kinds=[Nemesis.kill_owner, Nemesis.stop_owner, Nemesis.move_service, Nemesis.unplug_owner,
                                              Nemesis.fail_over_database], **SHORT)


@tap.test
def mutants_are_found():
    """The checker is not blind: a few bugs in the daemon are found at once."""
    for name in mutants.QUICK:
        how, runs = mutants.is_found(name, mutants.recipes()[name])
        assert how, name
        tap.note(f"{name} in run {runs}: {how}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--soak", type=float, metavar="SECONDS")
    parser.add_argument("--config", action="append", choices=list(CONFIGURATIONS))
    parser.add_argument("--seed", default="")
    parser.add_argument("--mutants", action="store_true")
    arguments = parser.parse_args()
    netns.enter(addresses=())
    if arguments.mutants:
        sys.exit(mutants.find(arguments.words))
    if arguments.soak:
        sys.exit(soak.run(arguments.config or list(CONFIGURATIONS), arguments.soak, arguments.seed))
    tap.main(arguments.words)


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    main()

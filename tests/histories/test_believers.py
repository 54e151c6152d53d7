#!/usr/bin/env python3
"""NLM-02, NLM-07, CRS-01, CRS-02, GRC-02, REC-01: machines with a kernel's habits lock over real sockets (believers.py), are killed, and the server is;
at no moment do two processes believe to hold what excludes each other, and in the end nothing is left.

    test_believers.py [--seconds N] [--seed WORD] [WORD]...
"""
import argparse
import os
import random
import sys
import tempfile
import time

from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon
from holdfast_test.nlm import TEST
from holdfast_test.peer import SERVERS, Network, add_addresses

import believers

FILES = (b"a file", b"another file")
FEWEST = 150  # grants that were believed in
MOST_EXCUSED = 0.02  # of these, in bytes: 0.001 was seen
BUSY_S = 60  # so much longer, on a busy machine
OPTIONS = argparse.Namespace(seconds=8.0, seed=None)


class Server:
    """The daemon on a store of its own, which is killed and started again."""

    def __init__(self, *more):
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-")
        self.settings = ("store.backend=lmdb", f"store.path={self.folder.name}", "grace.seconds=5", "notify.timeout=1", *more)
        self.start()

    def start(self):
        self.daemon = Daemon(*self.settings).start()

    def kill(self):
        self.daemon.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.daemon.kill()
        self.folder.cleanup()


def nothing_is_left(network, machines):
    """A LOCK that came after the UNLOCK which it precedes, and a grant of which no answer arrived, stay until they are unlocked."""
    stranger = network.host("10.2.9.9", "stranger")
    until = time.monotonic() + 30
    for fh in FILES:
        while stranger.stat(TEST, stranger.lock(fh=fh)) != "GRANTED":
            assert time.monotonic() < until, f"{fh} is still locked: {stranger.ask(TEST, stranger.lock(fh=fh))}"
            for machine in machines:
                machine.unlock_all()
            time.sleep(0.2)


def play(seed, mounts, kills, crashes, *settings):
    """Four machines, each with all of the mounts; for so long, the server is killed and machines are."""
    seed = OPTIONS.seed or seed
    dice = random.Random(seed)
    beliefs = believers.Beliefs()
    with Network() as network, Server(*settings) as server:
        machines = [believers.Machine(network, f"10.2.0.{i}", f"machine{i}", beliefs, mounts, 2, FILES, f"{seed} {i}")
                    for i in range(1, 5)]
        for machine in machines:
            machine.boot()
        until, n_kills, n_crashes = time.monotonic() + OPTIONS.seconds, 0, 0
        while not beliefs.violations and (time.monotonic() < until or
                                          (beliefs.gained < FEWEST and time.monotonic() < until + BUSY_S)):
            time.sleep(0.3 + dice.random())
            if crashes and dice.random() < 0.6:
                machine = dice.choice(machines)
                machine.kill()
                time.sleep(dice.random() * 0.3)
                machine.boot()
                machine.start(machine.tell_of_boot)
                n_crashes += 1
            if kills and dice.random() < 0.3:
                server.kill()
                time.sleep(dice.random() * 0.3)
                server.start()
                n_kills += 1
        for machine in machines:
            machine.stop()
        tap.note(f"seed {seed}: {beliefs.gained} grants believed in, {n_kills} kills of the server, {n_crashes} of machines, "
                 f"{beliefs.excused} bytes weakened by late requests")
        assert not beliefs.violations, "\n".join(beliefs.violations[:5])
        assert not (still := beliefs.runs(lambda owner: True)), still
        assert beliefs.excused <= MOST_EXCUSED * beliefs.gained, "late requests weaken too much: what is excused proves nothing"
        nothing_is_left(network, machines)
        assert beliefs.gained >= FEWEST, "hardly anything was locked"


@tap.test
def no_two_believe_in_one_byte():
    """NLM-02: kernels that poll, cancel and are overtaken, while nothing dies."""
    play("quiet", [(SERVERS[0], "tcp")], False, False)


@tap.test
def nor_when_machines_are_booted():
    """CRS-02: svids begin at 0 again, and machines lock before their notice has come."""
    play("boots", [(SERVERS[0], "udp")], False, True)


@tap.test
def nor_when_the_server_is_killed():
    """GRC-02: kernels reclaim what they believe in, with state 0."""
    play("kills", [(SERVERS[0], "tcp")], True, True)


@tap.test
def nor_when_the_server_continues():
    """REC-01a, REC-03: the server is killed and goes on where it ended: no kernel is told, and none reclaims."""
    play("continues", [(SERVERS[0], "tcp")], True, True, "recovery.notify=needed")


@tap.test
def nor_by_several_mounts():
    """NLM-07: one machine by two transports and two of our addresses: the same svid is another process in each."""
    play("mounts", [(SERVERS[0], "tcp"), (SERVERS[0], "udp"), (SERVERS[1], "tcp")], True, True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed")
    arguments = parser.parse_args()
    netns.enter()
    add_addresses()
    OPTIONS.seed, OPTIONS.seconds = arguments.seed, arguments.seconds or OPTIONS.seconds
    tap.main(arguments.words)


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    main()

#!/usr/bin/env python3
"""kill -9 at any moment of MON/UNMON load (NSM-02, NSM-06, STO-02): nothing acknowledged is lost,
nothing taken back returns, and the state number grows."""
import os
import random
import threading
import time

from holdfast_test import netns, nsm, tap
from holdfast_test.host import Host
from holdfast_test.store import Server

US = "server.example"
SERVER, CLIENT = "192.0.2.1", "192.0.2.2"
WRITERS = 4
SLOTS = 12  # registrations of each writer
ROUNDS = int(os.environ.get("CRASH_ROUNDS", "25"))


class Writer:
    """Registers, changes and removes at random, and knows for each slot what may be true: a set of marks
    (None: not registered), with one element if the last answer was received."""

    def __init__(self, who, seed):
        self.who, self.rng = who, random.Random(seed)
        self.slots = [{None} for _ in range(SLOTS)]
        self.answers = 0
        self.next_mark = who * 1000000 + 1

    def begin(self):
        self.thread = threading.Thread(target=self._load, daemon=True)
        self.thread.start()

    def end(self):
        self.thread.join()

    def _load(self):
        try:
            with nsm.connect(SERVER, CLIENT, timeout=5) as monitor:
                while True:
                    self._one(monitor)
        except (OSError, EOFError):
            pass  # killed: the answer to the last request is not known

    def _one(self, monitor):
        slot = self.rng.randrange(SLOTS)
        me = {"my_name": f"writer{self.who}", "proc": slot + 1}
        if self.rng.random() < 0.1:
            self.slots = [before | {None} for before in self.slots]
            for one in range(1, SLOTS + 1):  # UNMON_ALL is per procedure number
                monitor.unmon_all(my_name=me["my_name"], proc=one)
                self.slots[one - 1] = {None}
            self.answers += SLOTS
            return
        wanted = None
        if self.rng.random() < 0.6:
            wanted = self.next_mark
            self.next_mark += 1
        self.slots[slot] = self.slots[slot] | {wanted}
        if wanted is None:
            monitor.unmon(US, **me)
        else:
            assert monitor.mon(US, wanted.to_bytes(16, "big"), **me).ok
        self.slots[slot] = {wanted}
        self.answers += 1

    def check(self, told):
        """told: {slot: mark} of this writer. What is seen becomes what is true."""
        for slot, possible in enumerate(self.slots):
            seen = told.get(slot)
            assert seen in possible, (f"writer {self.who}, slot {slot}: {seen} is registered, "
                                      f"one of {possible} was promised")
            self.slots[slot] = {seen}


def told_by(host):
    """The registrations that the callbacks of the restart reveal: {writer: {slot: mark}}."""
    told = {}
    for call in host.calls_now():
        status = nsm.Status.decode(call.decode())
        mark = int.from_bytes(status.priv, "big")
        if mark:
            slots = told.setdefault(mark // 1000000, {})
            assert call.proc - 1 not in slots, "a registration twice"
            slots[call.proc - 1] = mark
    return told, {nsm.Status.decode(call.decode()).state for call in host.calls_now()}


@tap.test
def nothing_acknowledged_is_lost_and_nothing_returns():
    """Given writers under load, killed at random moments again and again: each start calls back exactly the
    acknowledged registrations, except for one request in flight, with a state number that is odd and
    greater."""
    rng = random.Random(5)
    with Server("notify.timeout=2") as server, Host(CLIENT) as host:
        with nsm.connect(SERVER, CLIENT) as monitor:
            assert monitor.mon(US, bytes(16), my_name="the last one").ok
            state = monitor.stat().state
        writers = [Writer(who, who) for who in range(1, WRITERS + 1)]
        for _ in range(ROUNDS):
            for writer in writers:
                writer.begin()
            time.sleep(rng.uniform(0.005, 0.3))
            server.kill()
            for writer in writers:
                writer.end()
            host.forget()
            daemon = server.start()
            daemon.wait_for_log("clients told of our restart")
            told, states = told_by(host)
            assert len(states) == 1 and states.pop() == state + 2
            state += 2
            for writer in writers:
                writer.check(told.get(writer.who, {}))
        tap.note(f"{ROUNDS} times killed, {sum(w.answers for w in writers)} answers kept, state {state}")


@tap.test
def killed_while_it_starts():
    """Killed at random moments of its start: the state number is odd and greater, the registration
    is there."""
    rng = random.Random(6)
    with Server("notify.timeout=2") as server, Host(CLIENT) as host:
        with nsm.connect(SERVER, CLIENT) as monitor:
            assert monitor.mon(US, b"x" * 16).ok
            state = monitor.stat().state
        for _ in range(10):
            server.kill()
            server.start(wait=False)
            time.sleep(rng.uniform(0, 0.15))
        server.kill()
        host.forget()
        server.start()
        status = nsm.Status.decode(host.wait_for().decode())
        assert status.priv == b"x" * 16 and status.state % 2 == 1
        assert state < status.state <= state + 24


if __name__ == "__main__":
    netns.enter()
    tap.main()

#!/usr/bin/env python3
"""A service with standbys whose locks the kernel holds (COH-06): two nodes with PostgreSQL, a keeper on each, one file system. Because
both keepers are of one kernel here, a keeper that held on too long would be in the new owner's way."""
import contextlib
import os
import signal
import tempfile
from pathlib import Path

from holdfast_test import keeper as k
from holdfast_test import netns, tap
from holdfast_test.cluster import Cluster, Node
from holdfast_test.daemon import wait_until
from holdfast_test.keeper import Keeper, Outside
from holdfast_test.names import ganesha
from holdfast_test.nlm import LOCK, TEST, UNLOCK, Lock

PLAIN = ("cluster.require_sync=no", "notify.timeout=1", "notify.attempts=1", "notify.on_failure=keep")
READY = "the kernel holds what clients hold"
LOSS = "a program of this host has a client's lock"
ROUNDS = 4


class Service:
    """with Service() as s: s.owner serves, s.standby stands by; s.path is a file of the export that both have."""

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            where = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-mixed-")))
            export = where / "export"
            export.mkdir()
            self.path = export / "file"
            self.path.write_text("0")
            self.fh = ganesha(str(self.path))
            self.cluster = stack.enter_context(Cluster(*PLAIN))
            self.database = self.cluster.postgres()
            self.keepers = {}
            for name in ("left", "right"):
                self.keepers[name] = stack.enter_context(Keeper(export, path=str(where / f"keeper-{name}")))
                self.cluster.node(name, self.database.dsn, f"keeper.socket={where}/keeper-{name}")
            self.follow()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *rest):
        try:
            if not rest[0]:
                for node in filter(Node.is_running, self.cluster.nodes):
                    node.stop()
        finally:
            self.stack.__exit__(*rest)

    def follow(self):
        """Who is owner now."""
        self.owner = self.cluster.wait_for_owner()
        self.standby = next(node for node in self.cluster.nodes if node is not self.owner)

    def lock(self, offset=0, length=10):
        return Lock(caller=b"client", fh=self.fh, oh=b"owner", offset=offset, length=length)

    def insist(self, proc, stat, lock, **how):
        wait_until(lambda: self.owner.nlm(proc, lock, timeout=1, **how) == stat, f"{stat}\n{self.owner.daemon.log()}")

    def expect_held(self):
        """Another client is refused. The nodes have addresses of their own here, so the first client cannot reclaim at the other."""
        stat = self.owner.nlm(LOCK, self.lock().but(caller=b"stranger", oh=b"other"), timeout=2)
        assert stat in ("DENIED", "DENIED_GRACE_PERIOD"), stat

    def held(self, node):
        """What the keeper of the node holds in the kernel, (offset, length) of each range."""
        found = []
        pid = self.keepers[node.name].process.pid
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == str(self.path):
                    info = Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines()
                    found += [tuple(line.split()[-2:]) for line in info if line.startswith("lock:")]
        return sorted(found)

    def expect_moved(self, taken_times):
        """The other node serves now, its keeper holds the lock, and the one of before holds nothing."""
        before = self.owner
        self.owner, self.standby = self.standby, before
        self.owner.daemon.wait_for_log(READY, taken_times)
        wait_until(lambda: self.owner.role() == "active", "the other node serves")
        assert self.held(self.owner) == [("0", "9")] and self.held(before) == [], (self.held(self.owner), self.held(before))
        assert LOSS not in self.owner.daemon.log(), "the keeper of before held on too long"


@tap.test
def a_killed_owner_is_replaced():
    """COH-06: its keeper lets go when the lease ends, the new owner claims, time after time; no lock is lost."""
    with Service() as s:
        s.insist(LOCK, "GRANTED", s.lock())
        assert s.held(s.owner) == [("0", "9")]
        for _ in range(ROUNDS):
            killed = s.owner
            killed.kill()
            s.expect_moved(1)
            with Outside(s.path) as outside:
                assert not outside.lock(k.SHARED, 5, 1)
            s.expect_held()
            killed.start()


@tap.test
def a_planned_move_lets_go_before_the_other_claims():
    """COH-06: the row of the lease is released when the keeper has let go, so the other node's claims find nothing in their way."""
    with Service() as s:
        s.insist(LOCK, "GRANTED", s.lock())
        times = {s.owner.name: 1, s.standby.name: 0}
        for _ in range(ROUNDS):
            wait_until(lambda: s.owner.move("move")[0] == 202, "the move begins")
            times[s.standby.name] += 1
            s.expect_moved(times[s.standby.name])
            wait_until(lambda: s.standby.role() == "standby", "the node of before stands by")
            s.expect_held()
        status, told = s.owner.ctl("--yes", "release", "--client", "client")
        assert status == 0, told
        with Outside(s.path) as outside:
            wait_until(lambda: outside.lock(k.EXCLUSIVE), "free")


@tap.test
def a_paused_owner_holds_nothing():
    """COH-06: its process is stopped, so nothing tells the keeper to let go but the end of the lease. When it goes on it claims nothing."""
    with Service() as s:
        s.insist(LOCK, "GRANTED", s.lock())
        paused = s.owner
        paused.pause()
        s.expect_moved(1)
        paused.resume()
        paused.daemon.wait_for_log("lost the service")
        wait_until(lambda: paused.role() == "standby", "it stands by")
        assert s.held(paused) == [] and s.held(s.owner) == [("0", "9")]


@tap.test
def what_a_program_took_while_the_database_stood_still_is_lost():
    """COH-06, COH-13: the lease runs out and the keeper lets go; when it is renewed, what is free is claimed again, and what a program
    of the host took is a loss with reason outside."""
    with Service() as s:
        s.insist(LOCK, "GRANTED", s.lock(0, 10))
        s.insist(LOCK, "GRANTED", s.lock(20, 10).but(oh=b"second"))
        s.database.processes(signal.SIGSTOP)
        with Outside(s.path) as outside:
            wait_until(lambda: s.held(s.owner) == [], "the keeper has let go")
            assert outside.lock(k.EXCLUSIVE, 25, 1)
            s.database.processes(signal.SIGCONT)
            s.follow()
            s.owner.daemon.wait_for_log(LOSS)
            wait_until(lambda: s.held(s.owner) == [("0", "9")], "what is free is held again")
            s.insist(TEST, "DENIED", s.lock(20, 10).but(oh=b"third"))
        s.insist(UNLOCK, "GRANTED", s.lock(0, 10))
        with Outside(s.path) as outside:
            wait_until(lambda: outside.lock(k.EXCLUSIVE, 0, 10), "free")


@tap.test
def nothing_is_granted_before_the_keeper_holds_it():
    """COH-06: a node whose keeper is away does not serve at once, and grants nothing when it does."""
    with Service() as s:
        s.insist(LOCK, "GRANTED", s.lock())
        away = s.keepers[s.standby.name]
        away.process.kill()
        away.process.wait()
        s.owner.kill()
        s.follow()
        s.insist(LOCK, "DENIED_GRACE_PERIOD", s.lock(50, 1))
        os.unlink(away.path)
        away.__enter__()
        s.owner.daemon.wait_for_log(READY)
        s.expect_held()
        assert s.held(s.owner) == [("0", "9")]


if __name__ == "__main__":
    netns.enter()
    tap.main()

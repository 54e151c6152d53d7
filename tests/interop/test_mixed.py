#!/usr/bin/env python3
"""NFSv3 clients and programs of the server lock the same files (COH-10 to COH-14): the real daemon, the real keeper, the kernel's
locks, and real processes with fcntl. The daemon and the keeper are killed meanwhile."""
import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

from holdfast_test import keeper as k
from holdfast_test import netns, nlm, tap
from holdfast_test.daemon import Daemon, wait_until
from holdfast_test.keeper import EXCLUSIVE, Keeper, Outside
from holdfast_test.names import ganesha, nfsd
from holdfast_test.nlm import CANCEL, GRANTED, LOCK, TEST, UNLOCK
from holdfast_test.peer import Network, add_addresses

READY = "the kernel holds what clients hold"
THREADS = 32  # of the keeper, for waits
KILLS = int(os.environ.get("HOLDFAST_KILLS", "60"))
INCREMENTS = 150


class Mixed:
    """An export with one file, a keeper, a daemon that uses it, and NLM clients. Daemon and keeper can be killed and started."""

    def __init__(self, *sets):
        self.sets = sets

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        where = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-mixed-")))
        self.socket = str(where / "keeper")
        self.export = where / "export"
        self.export.mkdir()
        self.path = self.export / "file"
        self.path.write_text("0")
        self.fh = ganesha(str(self.path))
        self.store = str(where / "store")
        self.network = self.stack.enter_context(Network())
        self.keeper = None
        self.start_keeper()
        self.start()
        self.hosts = [self.network.host(f"10.2.0.{i}", name) for i, name in enumerate(("alice", "bob"), 1)]
        return self

    def __exit__(self, failure, *rest):
        self.daemon.__exit__(failure)
        self.keeper.__exit__(None, None, None)
        self.stack.__exit__(failure, *rest)

    def start_keeper(self):
        self.keeper = Keeper(self.export, path=self.socket)
        self.keeper.__enter__()

    def kill_keeper(self):
        self.keeper.kill()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)

    def start(self):
        self.daemon = Daemon("store.backend=lmdb", f"store.path={self.store}", f"keeper.socket={self.socket}", "grace.seconds=40",
                             "notify.timeout=1", *self.sets).start()
        self.daemon.wait_for_log(READY)

    def restart(self):
        self.daemon.kill()
        for host in self.hosts:
            host.close_clients()
        self.start()

    def lock(self, host, **fields):
        return host.lock(fh=self.fh, **fields)

    def ask_again(self, host, procedure, **fields):
        """Asks until there is an answer, as clients do."""
        while True:
            try:
                return host.stat(procedure, self.lock(host, **fields))
            except TimeoutError:
                host.close_clients()


def expect(got, wanted):
    assert got == wanted, f"{got}, not {wanted}"


@tap.test
def each_world_meets_the_other():
    """COH-10, COH-11: exclusive and shared, in both directions; disjoint ranges do not meet; what is unlocked is free at once."""
    with Mixed() as m, Outside(m.path) as outside:
        a, b = m.hosts
        expect(a.stat(LOCK, m.lock(a, offset=0, length=10)), "GRANTED")
        assert not outside.lock(k.EXCLUSIVE, 0, 1) and not outside.lock(k.SHARED, 9, 1)
        assert outside.lock(k.EXCLUSIVE, 10, 10)
        expect(b.stat(LOCK, m.lock(b, offset=5, length=10)), "DENIED")
        expect(b.stat(LOCK, m.lock(b, offset=15, length=1), exclusive=False), "DENIED")
        expect(b.stat(LOCK, m.lock(b, offset=20, length=1), exclusive=False), "GRANTED")
        assert outside.lock(k.SHARED, 20, 1) and not outside.lock(k.EXCLUSIVE, 20, 1)
        expect(a.stat(UNLOCK, m.lock(a, offset=3, length=4)), "GRANTED")
        assert outside.lock(k.EXCLUSIVE, 3, 4) and not outside.lock(k.EXCLUSIVE, 2, 1) and not outside.lock(k.EXCLUSIVE, 7, 1)
        expect(a.stat(UNLOCK, m.lock(a)), "GRANTED")
        expect(b.stat(UNLOCK, m.lock(b)), "GRANTED")
        assert outside.lock(k.EXCLUSIVE), "no claim stays after its last owner"


@tap.test
def test_names_a_holder_outside():
    """COH-12: range, mode and process."""
    with Mixed() as m, Outside(m.path) as outside:
        a, _ = m.hosts
        expect(a.stat(TEST, m.lock(a)), "GRANTED")
        assert outside.lock(k.EXCLUSIVE, 100, 50)
        result = a.ask(TEST, m.lock(a, offset=90, length=20))
        expect((result.stat, result.holder), ("DENIED", nlm.Holder(True, outside.process.pid, b"", 100, 50)))


@tap.test
def a_waiter_behind_a_holder_outside_is_called_back():
    """COH-11: by the usual GRANTED callback, as soon as the program outside unlocks, or dies; a wait that is cancelled leaves
    nothing behind."""
    with Mixed() as m:
        a, b = m.hosts
        for end in (lambda outside: outside.unlock(), lambda outside: outside.process.kill()):
            with Outside(m.path) as outside:
                assert outside.lock(k.EXCLUSIVE, 0, 10)
                times = len(a.received(GRANTED)) + 1
                expect(a.stat(LOCK, m.lock(a, offset=0, length=5), block=True), "BLOCKED")
                expect(b.stat(LOCK, m.lock(b, offset=5, length=5), block=True), "BLOCKED")
                expect(b.stat(CANCEL, m.lock(b, offset=5, length=5), block=True), "GRANTED")
                end(outside)
                a.wait_for(GRANTED, times)
                with Outside(m.path) as other:
                    assert not other.lock(k.SHARED, 0, 5)
                    assert other.lock(k.EXCLUSIVE, 5, 5, wait=True)
                expect(a.stat(UNLOCK, m.lock(a)), "GRANTED")


def try_for_ever(path, got, stop):
    """A program outside that tries for the lock again and again."""
    with Outside(path) as outside:
        while not stop.is_set():
            if outside.lock(k.SHARED, 3, 1):
                got.set()
                return


@tap.test
def a_program_outside_never_gets_in_while_the_daemon_is_killed():
    """COH-13: the keeper holds on while the daemon is killed and started again, time after time."""
    with Mixed() as m:
        a, _ = m.hosts
        lock = m.lock(a, offset=0, length=10)
        expect(a.stat(LOCK, lock), "GRANTED")
        got, stop = threading.Event(), threading.Event()
        tries = [threading.Thread(target=try_for_ever, args=(m.path, got, stop)) for _ in range(2)]
        for thread in tries:
            thread.start()
        try:
            for _ in range(KILLS):
                m.restart()
                expect(a.stat(LOCK, lock, reclaim=True), "GRANTED")
                assert not got.is_set(), "a program outside has the lock of a client"
        finally:
            stop.set()
            for thread in tries:
                thread.join()
        assert not got.is_set()
        expect(a.stat(UNLOCK, lock), "GRANTED")
        with Outside(m.path) as outside:
            assert outside.lock(k.EXCLUSIVE)


@tap.test
def a_keeper_that_dies_costs_what_others_took_meanwhile():
    """COH-13: without it no lock is granted and UNLOCK works; what is still free is held again; what a program outside took is a
    loss that is reported."""
    with Mixed() as m:
        a, b = m.hosts
        expect(a.stat(LOCK, m.lock(a, offset=0, length=10)), "GRANTED")
        expect(b.stat(LOCK, m.lock(b, offset=10, length=10)), "GRANTED")
        m.kill_keeper()
        m.daemon.wait_for_log("the keeper is gone")
        expect(a.stat(LOCK, m.lock(a, offset=30, length=1)), "DENIED_GRACE_PERIOD")
        with Outside(m.path) as outside:
            assert outside.lock(k.EXCLUSIVE, 15, 1)
            m.start_keeper()
            m.daemon.wait_for_log(READY, 2)
            m.daemon.wait_for_log("a program of this host has a client's lock client=bob")
            assert not outside.lock(k.EXCLUSIVE, 0, 1), "held again"
            expect(a.stat(LOCK, m.lock(a, offset=30, length=1)), "GRANTED")
            expect(b.stat(TEST, m.lock(b, offset=10, length=1)), "GRANTED")
        expect(b.stat(UNLOCK, m.lock(b)), "GRANTED")


@tap.test
def a_keeper_that_does_not_answer_holds_up_no_unlock():
    """COH-13: the keeper is frozen (a cgroup, a debugger, a disk that hangs) and stays connected. After a while it counts as gone: UNLOCK is
    answered, new locks are told to come again. The kernel goes on holding what clients hold, and when the keeper is back all is as before."""
    with Mixed() as m, Outside(m.path) as program:
        alice, bob = m.hosts
        expect(alice.stat(LOCK, m.lock(alice, offset=0, length=10)), "GRANTED")
        expect(bob.stat(LOCK, m.lock(bob, offset=10, length=10)), "GRANTED")
        os.kill(m.keeper.worker(), signal.SIGSTOP)
        try:
            answers = []
            unlock = threading.Thread(target=lambda: answers.append(m.ask_again(bob, UNLOCK, offset=10, length=10)))
            unlock.start()
            m.daemon.wait_for_log("it does not answer")
            unlock.join()
            expect(answers, ["GRANTED"])
            expect(alice.stat(LOCK, m.lock(alice, offset=20, length=10)), "DENIED_GRACE_PERIOD")
            assert not program.lock(EXCLUSIVE, 0, 10)
        finally:
            os.kill(m.keeper.worker(), signal.SIGCONT)
        m.daemon.wait_for_log(READY, 2)
        assert not program.lock(EXCLUSIVE, 0, 10)
        assert program.lock(EXCLUSIVE, 10, 10), "what was unlocked meanwhile"
        wait_until(lambda: alice.stat(LOCK, m.lock(alice, offset=20, length=10)) == "GRANTED", "new locks are granted")


@tap.test
def two_handles_of_one_file_are_one_file():
    """COH-10: by Ganesha's and by nfsd's handle, the second client is refused, waits, and gets the lock."""
    with Mixed() as m:
        a, b = m.hosts
        other = nfsd(str(m.path))
        expect(a.stat(LOCK, m.lock(a)), "GRANTED")
        expect(b.stat(LOCK, b.lock(fh=other)), "DENIED")
        expect(b.stat(LOCK, b.lock(fh=other), block=True), "BLOCKED")
        expect(a.stat(UNLOCK, m.lock(a)), "GRANTED")
        b.wait_for(GRANTED)
        expect(a.stat(LOCK, m.lock(a)), "DENIED")


def waits_in_the_kernel(pid):
    """How many threads of a process are in fcntl(F_OFD_SETLKW)."""
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        words = (task / "syscall").read_text().split()
        count += len(words) > 2 and int(words[2], 16) == 38
    return count


@tap.test
def waiters_are_told_at_once_and_cost_few_threads():
    """COH-03, COH-11: nothing polls for a release: a thread of the keeper waits in the kernel, and its client is called back when the holder
    outside lets go. 200 waiters need no more threads than the keeper has for all, and no processor time to speak of."""
    def used(pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    with Mixed() as m, Outside(m.path) as outside:
        a, _ = m.hosts
        times = []
        for turn in range(20):
            assert outside.lock(k.EXCLUSIVE, 0, 10)
            expect(a.stat(LOCK, m.lock(a, offset=0, length=10), block=True), "BLOCKED")
            wait_until(lambda: waits_in_the_kernel(m.keeper.worker()) == 1, "it waits in the kernel")
            began = time.monotonic()
            outside.unlock()
            a.wait_for(GRANTED, turn + 1)
            times.append(time.monotonic() - began)
            expect(a.stat(UNLOCK, m.lock(a)), "GRANTED")
        times.sort()
        tap.note(f"called back after a local release: median {times[10] * 1000:.1f} ms, longest {times[-1] * 1000:.1f} ms")
        assert outside.lock(k.EXCLUSIVE)
        for n in range(200):
            expect(a.stat(LOCK, m.lock(a, offset=n, length=1), block=True), "BLOCKED")
        wait_until(lambda: waits_in_the_kernel(m.keeper.worker()) >= 1, "they wait in the kernel")
        before = [used(pid) for pid in (m.keeper.worker(), m.daemon.process.pid)]
        time.sleep(1)
        ticks = sum(used(pid) for pid in (m.keeper.worker(), m.daemon.process.pid)) - sum(before)
        threads = waits_in_the_kernel(m.keeper.worker())
        tap.note(f"200 waiters: {threads} threads, {ticks * 10} ms of processor time in a second")
        assert ticks < 50 and threads <= THREADS
        outside.unlock()
        a.wait_for(GRANTED, 220)


@tap.test
def what_cannot_be_mirrored_is_refused_or_granted():
    """COH-14: a handle that no decoder knows."""
    with Mixed() as m:
        a, _ = m.hosts
        expect(a.stat(LOCK, a.lock(fh=b"no known handle")), "DENIED_NOLOCKS")
    with Mixed("coherence.unmirrored=grant") as m:
        a, b = m.hosts
        expect(a.stat(LOCK, a.lock(fh=b"no known handle")), "GRANTED")
        expect(b.stat(LOCK, b.lock(fh=b"no known handle")), "DENIED")


# ---- counting under locks ----

def increment(path):
    path.write_text(str(int(path.read_text()) + 1))


def count_outside(path, times, done):
    with Outside(path) as outside:
        for _ in range(times):
            assert outside.lock(k.EXCLUSIVE, 0, 1, wait=True)
            increment(path)
            outside.unlock(0, 1)
            done.value += 1


def count_by_nfs(m, host, times):
    """Each turn takes the lock however often it must be asked for, and waits for its callback."""
    lock = m.lock(host, offset=0, length=1)
    for _ in range(times):
        while True:
            try:
                calls = len(host.received(GRANTED))
                stat = host.stat(LOCK, lock, block=True)
                if stat == "BLOCKED":
                    host.wait_for(GRANTED, calls + 1, seconds=5)
                    stat = "GRANTED"
                if stat == "GRANTED":
                    break
                time.sleep(0.02)
            except (OSError, EOFError, AssertionError):
                host.close_clients()
        increment(m.path)
        while True:
            try:
                expect(host.stat(UNLOCK, lock), "GRANTED")
                break
            except (OSError, EOFError, AssertionError):
                host.close_clients()


@tap.test
def no_increment_is_lost():
    """COH-10: two NFSv3 clients and two programs of the server increment a number under a lock."""
    with Mixed() as m:
        done = [multiprocessing.Value("i", 0) for _ in range(2)]
        others = [multiprocessing.Process(target=count_outside, args=(m.path, INCREMENTS, value)) for value in done]
        threads = [threading.Thread(target=count_by_nfs, args=(m, host, INCREMENTS)) for host in m.hosts]
        for worker in others + threads:
            worker.start()
        for worker in others + threads:
            worker.join()
        expect(sum(value.value for value in done), 2 * INCREMENTS)
        expect(int(m.path.read_text()), 4 * INCREMENTS)


if __name__ == "__main__":
    netns.enter()
    add_addresses()
    tap.main()

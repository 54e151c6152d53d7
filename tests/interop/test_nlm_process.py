#!/usr/bin/env python3
"""locks.durable=process (DUR-02): the daemon is killed again and again under load, and loses nothing; the host crashes, and
clients may reclaim what was not on the disk. (nlm_restart has the same stories for all modes.)"""
import contextlib
import itertools
import os
import signal
import statistics
import sys
import tempfile
import threading
import time

from holdfast_test import netns, nlm, rpc, tap
from holdfast_test.daemon import Daemon, run, wait_until
from holdfast_test.nlm import LOCK, TEST, UNLOCK
from holdfast_test.peer import Network, add_addresses

KILLS = int(os.environ.get("HOLDFAST_KILLS", "15"))  # 200 for the record; `make test` has little time
HOSTS, KEPT, BURST = 4, 5, 200
SIDE = 4 << 20
BOOT_ID = "/proc/sys/kernel/random/boot_id"
OTHER_BOOT = "11111111-2222-3333-4444-555555555555\n"


def settings(folder, *more):
    return ("store.backend=lmdb", f"store.path={folder}", "notify.timeout=1", "grace.seconds=8", "locks.durable=process", *more)


def expect(got, wanted):
    assert got == wanted, f"{got}, not {wanted}"


# ---- killed under load ----

class Locker(threading.Thread):
    """Locks and unlocks without pause until the server is gone. held: granted and not given back; free: given back; open: the
    one request whose answer did not come, which may have been executed or not."""

    def __init__(self, host, fh):
        super().__init__(daemon=True)
        self.host, self.fh = host, fh
        self.held, self.free, self.open, self.fault = set(), set(), None, None

    def ask(self, proc, number, **fields):
        return self.host.stat(proc, self.host.lock(fh=self.fh, offset=10 * number, length=5), **fields)

    def turn(self, proc, number):
        self.open = number
        expect(self.ask(proc, number), "GRANTED")
        self.open = None

    def run(self):
        try:
            for number in itertools.count(1):
                self.turn(LOCK, number)
                self.held.add(number)
                if len(self.held) > KEPT:
                    oldest = min(self.held)
                    self.held.discard(oldest)
                    self.turn(UNLOCK, oldest)
                    self.free.add(oldest)
        except (OSError, EOFError):
            self.host.close_clients()
        except Exception as error:
            self.fault = error

    def check(self):
        """What was granted is held, what was given back is not; then all of it goes."""
        if self.fault:
            raise self.fault
        for number in sorted(self.free)[-10:]:
            expect((number, self.ask(LOCK, number, reclaim=True)), (number, "DENIED"))
        for number in sorted(self.held):
            expect((number, self.ask(LOCK, number, reclaim=True)), (number, "GRANTED"))
        for number in self.held | ({self.open} if self.open else set()):
            expect(self.ask(UNLOCK, number), "GRANTED")
        return len(self.held) + len(self.free)



@tap.test
def a_flush_that_hangs_stops_no_other_client():
    """STO-04: given a client that asks alone, as fast as flushes allow, when a flush hangs, another client's TEST, which needs no
    disk, is answered; and the lock is granted when the disk is back."""
    preload = os.environ["HOLDFAST_SLOW_SYNC"]
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with Network() as network, tempfile.TemporaryDirectory(prefix="holdfast-", dir=fast) as folder:
        dial = f"{folder}/flush"
        turn_dial(dial, 0)
        alone, other = network.host("10.2.0.1", "alone"), network.host("10.2.0.2", "other")
        how = ("store.backend=lmdb", f"store.path={folder}/store", "notify.timeout=1", "locks.durable=yes")
        with Daemon(*how, env={"LD_PRELOAD": preload, "HOLDFAST_FLUSH_FILE": dial}):
            expect(other.stat(TEST, other.lock(fh=b"free")), "GRANTED")
            for number in range(40):
                expect(alone.stat(LOCK, alone.lock(fh=b"lone", offset=10 * number, length=5)), "GRANTED")
            turn_dial(dial, 4_000_000)
            answers = []
            asker = threading.Thread(target=lambda: answers.append(alone.stat(LOCK, alone.lock(fh=b"lone", offset=1000, length=5))))
            asker.start()
            time.sleep(0.3)  # the flush has begun
            expect(other.stat(TEST, other.lock(fh=b"free")), "GRANTED")
            expect(answers, [])
            turn_dial(dial, 0)
            asker.join()
            expect(answers, ["GRANTED"])


def turn_dial(path, microseconds):
    with open(path, "r+b" if os.path.exists(path) else "wb") as dial:
        dial.write(microseconds.to_bytes(8, sys.byteorder, signed=True))

@tap.test
def killed_again_and_again_nothing_is_lost():
    """DUR-02b: given clients that lock and unlock without pause, when the daemon is killed (kill -9) and started again many
    times, each lock that was granted is held and can be reclaimed, and none that was given back returns."""
    total = 0
    with Network() as network, tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        hosts = [network.host(f"10.2.0.{i + 1}", f"host{i}") for i in range(HOSTS)]
        daemon = Daemon(*settings(folder)).start()
        for kill in range(KILLS):
            lockers = [Locker(host, b"file %d in life %d" % (n, kill)) for n, host in enumerate(hosts)]
            for locker in lockers:
                locker.start()
            wait_until(lambda: all(len(locker.free) > kill % 20 or locker.fault for locker in lockers),
                       "each client is at work")
            daemon.kill()
            for locker in lockers:
                locker.join()
            daemon = Daemon(*settings(folder)).start()
            total += sum(locker.check() for locker in lockers)
            daemon.wait_for_log("grace period is over")
            assert "the host has crashed" not in daemon.log()
        expect(daemon.stop(), 0)
    tap.note(f"killed {KILLS} times under load: {total} locks were granted or given back, and all are as they were")


# ---- no answer waits for the next event ----

def time_a_burst(host, first):
    """Seconds from sending so many LOCKs at once until all are answered."""
    client = host.client()
    calls = b"".join(rpc.record(rpc.call_message(rpc.new_xid(), nlm.PROG, 4, LOCK, nlm.lock_args(
        4, b"%d" % n, host.lock(offset=10 * n, length=5)))) for n in range(first, first + BURST))
    began = time.monotonic()
    client.send_raw(calls)
    for _ in range(BURST):
        expect(nlm.decode_result(LOCK, 4, client.reply().results).stat, "GRANTED")
    return time.monotonic() - began


@tap.test
def a_burst_is_answered_at_once():
    """DUR-02a: given more requests at once than one connection may make in a turn of the loop, those of the last turn are
    written and answered in it, and do not wait for something else to happen."""
    with Network() as network, tempfile.TemporaryDirectory(prefix="holdfast-") as folder, Daemon(*settings(folder)):
        host = network.host("10.2.0.1", "alice")
        expect(host.stat(LOCK, host.lock(fh=b"another")), "GRANTED")  # its client is registered, which takes a flush
        took = statistics.median(time_a_burst(host, 1 + n * BURST) for n in range(9))
        assert took < 0.5, f"{took:.3f} s"  # the loop wakes once a second by itself


# ---- a crash of the host ----

class Host:
    """A host with a daemon that crash: what was written to the journal since it was last looked at is lost."""

    def __init__(self, stack):
        self.stack, self.boots = stack, 0
        self.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-"))
        self.daemon = Daemon(*settings(self.folder)).start()

    def journal(self):
        with open(os.path.join(self.folder, "journal"), "rb") as file:
            return file.read(2 * SIDE)

    def crash(self, disk):
        """With this much of the journal on the disk."""
        self.daemon.kill()
        with open(os.path.join(self.folder, "journal"), "r+b") as file:
            file.write(disk)
        self.boots += 1
        self.stack.enter_context(netns.file(BOOT_ID, OTHER_BOOT.replace("1", str(self.boots + 1))))

    def start(self):
        self.daemon = Daemon(*settings(self.folder)).start()
        return self.daemon

    def kill_and_start(self):
        self.daemon.stop(signal.SIGKILL)
        return self.start()


@contextlib.contextmanager
def crashing_host():
    with Network() as network, contextlib.ExitStack() as stack:
        host = Host(stack)
        stack.push(lambda *failure: host.daemon.__exit__(*failure))  # the daemon that runs then
        yield host, [network.host(f"10.2.0.{i}", name) for i, name in enumerate(("alice", "bob", "carol"), 1)]


@tap.test
def what_a_crash_of_the_host_took_is_reclaimed():
    """DUR-02c: given a host that crashed before the newest locks were on its disk, clients that were known before may reclaim
    them, if nothing conflicts; what the store knows is checked as ever; a restart in grace does not change that; and when
    grace is over it is forgotten."""
    with crashing_host() as (host, (a, b, c)):
        expect(a.stat(LOCK, a.lock(length=10)), "GRANTED")  # with the record of its client: flushed
        expect(b.stat(LOCK, b.lock(offset=20, length=10)), "GRANTED")
        disk = host.journal()
        expect(a.stat(LOCK, a.lock(offset=40, length=10)), "GRANTED")
        expect(b.stat(UNLOCK, b.lock(offset=20, length=10)), "GRANTED")
        expect(a.stat(LOCK, a.lock(offset=20, length=10)), "GRANTED")
        host.crash(disk)
        for log in (host.start().log(), host.kill_and_start().log()):
            assert "locks may be unknown" in log, log
            for client in (a, b, c):
                client.close_clients()
            expect(c.stat(LOCK, c.lock(offset=90)), "DENIED_GRACE_PERIOD")
            expect(c.stat(TEST, c.lock(offset=90)), "DENIED_GRACE_PERIOD")
            expect(c.stat(TEST, c.lock(offset=5)), "DENIED")
            expect(c.stat(LOCK, c.lock(offset=40, length=10), reclaim=True), "DENIED")  # not known before
            expect(b.stat(LOCK, b.lock(offset=5, length=10), reclaim=True), "DENIED")  # held by a
            expect(a.stat(LOCK, a.lock(offset=20, length=10), reclaim=True), "DENIED")  # the UNLOCK was lost
            expect(a.stat(LOCK, a.lock(offset=40, length=10), reclaim=True), "GRANTED")
            expect(a.stat(LOCK, a.lock(length=10), reclaim=True), "GRANTED")
            expect(b.stat(LOCK, b.lock(offset=40, length=10), reclaim=True), "DENIED")
        host.daemon.wait_for_log("grace period is over")
        expect(c.stat(LOCK, c.lock(fh=b"another")), "GRANTED")  # written after the end of grace was
        log = host.kill_and_start().log()
        assert "the host has crashed" not in log, log
        for client in (a, b, c):
            client.close_clients()
        expect(a.stat(LOCK, a.lock(offset=60, length=10), reclaim=True), "DENIED")
        expect(a.stat(LOCK, a.lock(offset=40, length=10), reclaim=True), "GRANTED")


@tap.test
def a_clean_stop_before_the_crash_loses_nothing():
    """DUR-02: given a daemon that was stopped, and then a crash of the host, nothing is thought lost."""
    with crashing_host() as (host, (a, _, _)):
        expect(a.stat(LOCK), "GRANTED")
        expect(a.stat(LOCK, a.lock(fh=b"another")), "GRANTED")
        expect(host.daemon.stop(), 0)
        host.stack.enter_context(netns.file(BOOT_ID, OTHER_BOOT))
        a.close_clients()
        log = host.start().log()
        assert "the host has crashed" not in log, log
        expect(a.stat(LOCK, a.lock(fh=b"another"), reclaim=True), "GRANTED")
        expect(a.stat(LOCK, a.lock(fh=b"a third"), reclaim=True), "DENIED")


@tap.test
def it_says_what_it_needs():
    """DUR-02e: PostgreSQL is refused with a reason, and so is a host whose boot id is unknown."""
    status, _, error = run("--check-config", "--set", "store.backend=postgres", "--set", "locks.durable=process")
    assert status != 0 and "locks.durable=process needs store.backend=lmdb" in error, error
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, netns.file(BOOT_ID, ""):
        daemon = Daemon(*settings(folder)).start(wait=False)
        assert daemon.wait() != 0
        assert "cannot use locks.durable=process" in daemon.log(), daemon.log()
        with Daemon(*settings(folder), env={"HOLDFAST_BOOT_ID": "0123456789abcdef0123456789abcdef"}):
            pass


if __name__ == "__main__":
    netns.enter()
    add_addresses()
    tap.main()

#!/usr/bin/env python3
"""Restarts that no client notices (REC-01 to REC-04): the daemon is killed again and again with recovery.notify=needed, while
clients hold locks and shares and wait for others. With HOLDFAST_DURABLE=process the same stories are told to a daemon whose
locks survive its own crash and not that of the host."""
import os
import subprocess
import tempfile
import time

from holdfast_test import netns, nlm, tap
from holdfast_test.daemon import Daemon
from holdfast_test.nlm import GRANTED, LOCK, NM_LOCK, SHARE, TEST, UNLOCK, UNSHARE
from holdfast_test.peer import NSM, SILENCE, SM_NOTIFY, Network, add_addresses

CTL = os.environ.get("HOLDFASTCTL", "holdfastctl")
DURABLE = os.environ.get("HOLDFAST_DURABLE", "yes")
KILLS = 50 if DURABLE == "yes" else 15
CONTINUED = "continuing where the last run ended"


def expect(got, wanted):
    assert got == wanted, f"{got}, not {wanted}"


class Server:
    """A daemon on a store of its own that can be killed hard, or stopped, and started again."""

    def __init__(self, *more):
        self.more = more

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-")
        self.start()
        return self

    def start(self, *more):
        self.daemon = Daemon("store.backend=lmdb", f"store.path={self.folder.name}", "notify.timeout=1",
                             f"locks.durable={DURABLE}", "recovery.notify=needed", *self.more, *more).start()

    def restart(self, hosts, *more, kill=True):
        if kill:
            self.daemon.kill()
        else:
            self.daemon.stop()
        for host in hosts:
            host.close_clients()
        self.start(*more)
        return self.daemon

    def __exit__(self, failure, *_):
        self.daemon.__exit__(failure)
        self.folder.cleanup()


def hosts_of(network, *names):
    return [network.host(f"10.2.0.{i}", name) for i, name in enumerate(names, 1)]


def told(hosts):
    return [(host.name, call.args) for host in hosts for call in host.received(SM_NOTIFY, NSM)]


@tap.test
def killed_again_and_again():
    """REC-01a, REC-02, REC-03a: given clients that hold locks and shares and wait, by each transport and form, the daemon is killed
    again and again: no notice, no DENIED_GRACE_PERIOD, no reclaim; each answer is at once what it was, and new locks are granted at
    once. Then the waiters are served in their order."""
    with Network() as network, Server() as server:
        holder, nm, sharer, other, *waiters = hosts_of(network, "holder", "nm", "sharer", "other", "w0", "w1", "w2", "w3")
        everybody = (holder, nm, sharer, other, *waiters)
        ways = [{"transport": "tcp" if i % 2 else "udp", "msg": i // 2 == 1} for i in range(len(waiters))]
        expect(holder.stat(LOCK), "GRANTED")
        expect(nm.stat(NM_LOCK, nm.lock(fh=b"nm")), "GRANTED")
        expect(sharer.stat(SHARE, sharer.lock(fh=b"shared"), mode=2, access=1), "GRANTED")
        for host, way in zip(waiters, ways):
            expect(host.stat(LOCK, block=True, **way), "BLOCKED")
        for i in range(KILLS):
            daemon = server.restart(everybody, kill=i % 5 > 0)
            daemon.wait_for_log(CONTINUED)
            expect(other.stat(LOCK, other.lock(fh=b"new %d" % i)), "GRANTED")
            expect(other.stat(LOCK), "DENIED")
            expect(other.stat(LOCK, other.lock(fh=b"nm")), "DENIED")
            expect(other.stat(SHARE, other.lock(fh=b"shared"), mode=0, access=2), "DENIED")
            expect(other.ask(TEST).holder.oh, holder.lock().oh)
            # Repeats of requests from before, whose answers were lost:
            expect(holder.stat(LOCK), "GRANTED")
            expect(nm.stat(NM_LOCK, nm.lock(fh=b"nm")), "GRANTED")
            expect(sharer.stat(SHARE, sharer.lock(fh=b"shared"), mode=2, access=1), "GRANTED")
            expect(waiters[i % 4].stat(LOCK, block=True, **ways[i % 4]), "BLOCKED")
            expect(other.stat(UNLOCK, other.lock(fh=b"new %d" % i)), "GRANTED")
            expect(other.stat(UNLOCK, other.lock(fh=b"new %d" % i)), "GRANTED")
            assert "grace period begins" not in daemon.log()
        before, by = holder, "tcp"
        for host, way in zip(waiters, ways):
            expect(before.stat(UNLOCK, transport=by), "GRANTED")
            host.wait_for(GRANTED + nlm.MSG * way["msg"])
            expect(len(other.received(GRANTED)), 0)
            before, by = host, way["transport"]
        expect(sharer.stat(UNSHARE, sharer.lock(fh=b"shared")), "GRANTED")
        expect(nm.stat(UNLOCK, nm.lock(fh=b"nm")), "GRANTED")
        server.restart(everybody).wait_for_log(CONTINUED)
        expect(other.stat(SHARE, other.lock(fh=b"shared"), mode=3, access=3), "GRANTED")
        expect(other.stat(LOCK, other.lock(fh=b"nm")), "GRANTED")
        expect(other.ask(TEST).holder.oh, waiters[-1].lock().oh)
        expect(told(everybody), [])
        tap.note(f"{KILLS} kills and stops: no notice, no grace")


@tap.test
def a_grant_in_flight():
    """REC-03c: given a waiter that was granted its lock, and has not answered its callback, by UDP and by TCP: after kill -9 it
    is called again; its DENIED is not believed then, because it may have taken the lock at the first call."""
    for transport in ("tcp", "udp"):
        with Network() as network, Server() as server:
            a, b, c = hosts_of(network, "a", "b", "c")
            b.answers = SILENCE
            expect(a.stat(LOCK), "GRANTED")
            expect(b.stat(LOCK, block=True, transport=transport), "BLOCKED")
            expect(c.stat(LOCK, block=True), "BLOCKED")
            expect(a.stat(UNLOCK), "GRANTED")
            b.wait_for(GRANTED)
            calls = len(b.received(GRANTED))
            b.answers = "DENIED"
            server.restart((a, b, c)).wait_for_log(CONTINUED)
            b.wait_for(GRANTED, calls + 1)
            expect(a.ask(TEST).holder.oh, b.lock().oh)
            expect(c.received(GRANTED), [])
            expect(b.stat(UNLOCK, transport=transport), "GRANTED")
            c.wait_for(GRANTED)
            expect(told((a, b, c)), [])


@tap.test
def a_client_that_is_cut_off():
    """REC-04: given a client that is cut off while the daemon starts again: it keeps its lock, because it is not asked. With
    always, and notify.on_failure=release, the same client is given up, and loses it."""
    for mode in ("needed", "always"):
        with Network() as network, Server(f"recovery.notify={mode}") as server:
            a, b = hosts_of(network, "a", "b")
            expect(a.stat(LOCK), "GRANTED")
            a.mute = True
            daemon = server.restart((a, b))
            if mode == "needed":
                daemon.wait_for_log(CONTINUED)
                time.sleep(4)  # longer than three attempts of a second
                expect(b.stat(LOCK), "DENIED")
            else:
                daemon.wait_for_log("given up as crashed")
                daemon.wait_for_log("grace period is over")
                expect(b.stat(LOCK), "GRANTED")
            a.mute = False
            expect(a.stat(LOCK), "GRANTED" if mode == "needed" else "DENIED")


@tap.test
def a_client_that_crashed_meanwhile():
    """REC-04a: given a client that crashes while the daemon is down, its own notice, which it repeats until it is answered, frees
    what it had, and a waiter gets it."""
    with Network() as network, Server() as server:
        a, b = hosts_of(network, "a", "b")
        expect(a.stat(LOCK, state=1), "GRANTED")
        expect(b.stat(LOCK, block=True), "BLOCKED")
        server.daemon.kill()
        for host in (a, b):
            host.close_clients()
        server.start()
        server.daemon.wait_for_log(CONTINUED)
        expect(b.received(GRANTED), [])
        a.sm_notify(3)
        b.wait_for(GRANTED)


def patiently(host, proc, **fields):
    """Asks as a Linux client does: again while the answer is DENIED_GRACE_PERIOD."""
    end = time.monotonic() + 20
    while (stat := host.stat(proc, **fields)) == "DENIED_GRACE_PERIOD":
        assert time.monotonic() < end, "no decision"
        time.sleep(0.1)
    return stat


@tap.test
def clients_with_another_address():
    """REC-01a, REC-03a, TRK-02: given a holder and a waiter that are vouched for, when both have another address after kill -9 (a new lease
    of DHCP, a virtual machine that went on elsewhere), then the holder has its lock, and the waiter its place in the queue."""
    with Network() as network, Server("client holder.addresses=10.2.0.0/16", "client waiter.addresses=10.2.0.0/16") as server:
        holder, waiter, last = hosts_of(network, "holder", "waiter", "last")
        expect(holder.stat(LOCK, state=3), "GRANTED")
        expect(waiter.stat(LOCK, block=True, state=3), "BLOCKED")
        expect(last.stat(LOCK, block=True), "BLOCKED")
        for host in (holder, waiter):
            host.vanish()
        server.restart((last,)).wait_for_log(CONTINUED)
        holder, waiter = network.host("10.2.1.1", "holder"), network.host("10.2.1.2", "waiter")
        expect(patiently(waiter, LOCK, block=True, state=3), "BLOCKED")
        expect(patiently(holder, LOCK, state=3), "GRANTED")
        expect(holder.stat(UNLOCK), "GRANTED")
        waiter.wait_for(GRANTED)
        expect(last.received(GRANTED), [])
        expect(waiter.stat(UNLOCK), "GRANTED")
        last.wait_for(GRANTED)
        expect(told((holder, waiter, last)), [])


@tap.test
def a_client_that_stood_still():
    """REC-03c, REC-04: given a waiter whose machine is suspended over kill -9, and whose lock is free meanwhile: it is called as often as
    without a restart, and given up; when it goes on and asks again, it waits, and has the lock after the one that came before it."""
    with Network() as network, Server() as server:
        holder, waiter, last = hosts_of(network, "holder", "waiter", "last")
        expect(holder.stat(LOCK), "GRANTED")
        expect(waiter.stat(LOCK, block=True), "BLOCKED")
        expect(last.stat(LOCK, block=True), "BLOCKED")
        waiter.answers = SILENCE
        server.restart((holder, waiter, last)).wait_for_log(CONTINUED)
        expect(holder.stat(UNLOCK), "GRANTED")
        last.wait_for(GRANTED)
        called = len(waiter.received(GRANTED))
        waiter.answers = "GRANTED"
        expect(waiter.stat(LOCK, block=True), "BLOCKED")
        expect(last.stat(UNLOCK), "GRANTED")
        waiter.wait_for(GRANTED, called + 1)
        expect(holder.ask(TEST).holder.oh, waiter.lock().oh)
        expect(told((holder, waiter, last)), [])


@tap.test
def an_operator_sends_notices():
    """REC-04c: given a daemon that continued, `holdfastctl notify` sends the notice of its state number to all clients all the same.
    They reclaim what they hold, which works without a grace period, and other clients are not refused meanwhile."""
    with Network() as network, Server() as server:
        a, b = hosts_of(network, "a", "b")
        expect(a.stat(LOCK), "GRANTED")
        daemon = server.restart((a, b))
        daemon.wait_for_log(CONTINUED)
        expect(told((a, b)), [])
        said = subprocess.run([CTL, "notify"], stdout=subprocess.PIPE, check=True).stdout.decode()
        assert "1 delivered" in said, said
        a.wait_for(SM_NOTIFY, prog=NSM)
        expect(a.stat(LOCK, reclaim=True), "GRANTED")
        expect(b.stat(LOCK, b.lock(fh=b"another")), "GRANTED")
        expect(b.stat(LOCK), "DENIED")


@tap.test
def what_was_lost():
    """REC-01b, REC-01g: given a first start with needed, a backup that was restored, or always: clients are told, and the status
    says why."""
    with Network() as network, Server() as server:
        a, b = hosts_of(network, "a", "b")
        expect(a.stat(LOCK), "GRANTED")
        expect(b.stat(LOCK, block=True), "BLOCKED")
        daemon = server.restart((a, b), "recovery.notify=always")
        a.wait_for(SM_NOTIFY, prog=NSM)
        assert CONTINUED not in daemon.log()
        expect(a.stat(LOCK, reclaim=True), "GRANTED")
        daemon.wait_for_log("grace period is over")
        daemon = server.restart((a, b))
        assert "did not record all that clients rely on" in daemon.wait_for_log("not continuing")
        a.wait_for(SM_NOTIFY, 2, prog=NSM)
        expect(a.stat(LOCK, reclaim=True), "GRANTED")
        daemon.wait_for_log("grace period is over")
        expect(a.stat(LOCK, a.lock(fh=b"another")), "GRANTED")  # its answer waits for the record that grace is over
        daemon.wait_for_log("clients told of our restart")
        before = told((a, b))
        server.restart((a, b)).wait_for_log(CONTINUED)
        expect(a.stat(LOCK), "GRANTED")
        expect(told((a, b)), before)


if __name__ == "__main__":
    netns.enter()
    add_addresses()
    tap.main()

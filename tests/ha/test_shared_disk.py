#!/usr/bin/env python3
"""A store on a shared disk (HA-12): a cluster manager, played by the test, starts holdfastd on the surviving host. What
docs/operating/HIGH-AVAILABILITY.md describes as the first way."""
import contextlib
import os
import signal
import tempfile

from holdfast_test import netns, nsm, rpc, tap
from holdfast_test.daemon import PORT, Daemon
from wires import CLIENT, Node, Switch, address4
from world import NSM, Host, Locker

HOOK = os.environ["HOLDFAST_HOOK"]
SERVICE = address4(100)


class Manager:
    """What keepalived or Pacemaker do: on one host, the address and then the daemon."""

    def __init__(self, disk):
        self.disk = disk

    def start(self, node, wait=True):
        node.run(HOOK, "take", "files", SERVICE)
        return Daemon("store.backend=lmdb", f"store.path={self.disk}", "cluster.service=files", f"cluster.addresses={SERVICE}",
                      "server.name=files.example", "grace.mode=conflict", under=node.inside).start(wait)

    def stop(self, node, daemon):
        status = daemon.stop()
        daemon.check_sanitizers()
        node.run(HOOK, "drop", "files", SERVICE)
        assert status == 0, daemon.log()


@contextlib.contextmanager
def cluster():
    with tempfile.TemporaryDirectory(prefix="holdfast-") as disk, Switch() as switch, \
            Node(switch, "alpha", 11) as alpha, Node(switch, "beta", 12) as beta:
        yield Manager(disk), alpha, beta


def state():
    with nsm.Monitor(rpc.Tcp(SERVICE, PORT)) as monitor:
        return monitor.stat("files.example").state


def lock(name, fh, **options):
    """The answer to a LOCK of a client, over a connection of its own: the one before may have gone to another host."""
    with Locker(name, CLIENT, SERVICE) as locker:
        return locker.lock(fh, **options)


def check_moved(client, before):
    """After a move: the lock is still held, the state number has grown, the client was told and reclaims."""
    now = state()
    assert now > before
    wanted = nsm.Notice(b"files.example", now)  # a notice of the state before may still be on its way
    notice = client.wait_for(lambda call: (call.prog, call.proc) == (NSM, nsm.NOTIFY)
                             and nsm.Notice.decode(call.decode()) == wanted)
    assert notice.source[0] == SERVICE, "a client believes a notice only from the address that it knows"
    client.forget()
    assert lock("other", b"file") in ("denied", "denied_grace_period")
    assert lock("client", b"file", reclaim=True) == "granted"
    assert lock("other", b"file") in ("denied", "denied_grace_period")


@tap.test
def a_crashed_host_is_replaced_as_by_a_restart():
    """HA-12: Given a lock at alpha, when alpha is lost and the manager starts beta, the lock is held there; and back again."""
    with cluster() as (manager, alpha, beta), Host(CLIENT) as client:
        daemon = manager.start(alpha)
        assert lock("client", b"file") == "granted"
        for node, new in ((alpha, beta), (beta, alpha), (alpha, beta)):
            before = state()
            daemon.stop(signal.SIGKILL)
            daemon.check_sanitizers()
            node.unplug()                                  # fenced
            node.run(HOOK, "drop", "files", SERVICE)       # it comes back without the address
            node.plug()
            daemon = manager.start(new)
            check_moved(client, before)
        manager.stop(beta, daemon)


@tap.test
def a_planned_move_keeps_every_lock():
    """Given a lock at alpha, when the manager stops alpha and starts beta, the lock is held there."""
    with cluster() as (manager, alpha, beta), Host(CLIENT) as client:
        daemon = manager.start(alpha)
        assert lock("client", b"file") == "granted"
        before = state()
        manager.stop(alpha, daemon)
        daemon = manager.start(beta)
        check_moved(client, before)
        manager.stop(beta, daemon)


@tap.test
def two_hosts_cannot_use_the_disk_at_once():
    """Given a daemon that runs at alpha, a second one at beta does not start: the directory is locked, as far as the shared
    file system carries locks. The first one goes on."""
    with cluster() as (manager, alpha, beta):
        daemon = manager.start(alpha)
        assert lock("client", b"file") == "granted"
        second = Daemon("store.backend=lmdb", f"store.path={manager.disk}", f"cluster.addresses={SERVICE}",
                        under=beta.inside).start(wait=False)
        assert second.wait() == 1 and "in use by another process" in second.log(), second.log()
        assert lock("other", b"file") == "denied"
        manager.stop(alpha, daemon)


if __name__ == "__main__":
    netns.enter(addresses=())
    tap.main()

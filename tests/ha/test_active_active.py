#!/usr/bin/env python3
"""Active/active (HA-09, HA-10): two services over one database, each active on one host and standby on the other; the third way of
docs/operating/HIGH-AVAILABILITY.md."""
import contextlib
import signal

from holdfast_test import netns, nsm, rpc, tap
from holdfast_test.daemon import PORT, wait_until
from cluster import HOOK, Member
from postgres import Pair
from wires import CLIENT, Node, Switch, address4
from world import Locker

SERVICES = {"left": address4(101), "right": address4(102)}


class Service:
    """One service on both hosts, in the form that Member expects of a cluster."""

    def __init__(self, name, pair, nodes, admin_port):
        self.service, self.pair, self.addresses, self.sets, self.hook = name, pair, [SERVICES[name]], (), HOOK
        self.envs = {}
        self.members = [Member(self, node, admin_port) for node in nodes]

    def owner(self):
        return next((member for member in self.members if member.role() == "active"), None)


@contextlib.contextmanager
def both():
    with Switch() as switch, contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node(switch, name, number))
                 for name, number in (("alpha", 11), ("beta", 12), ("db1", 21), ("db2", 22))]
        pair = stack.enter_context(Pair(*nodes[2:]))
        left, right = (Service(name, pair, nodes[:2], port) for name, port in (("left", 8049), ("right", 8050)))
        for service in (left, right):
            service.members[0].migrate()
        members = [*left.members, *reversed(right.members)]  # left starts on alpha, right on beta
        stack.callback(lambda: [m.daemon.stop(signal.SIGKILL) for m in members if m.daemon and m.daemon.process.poll() is None])
        for member in (left.members[0], right.members[1]):
            member.start()
            wait_until(lambda member=member: member.role() == "active", "active")
        for member in (left.members[1], right.members[0]):
            member.start()
            wait_until(lambda member=member: member.role() == "standby", "standby")
        yield left, right, nodes
        for member in members:
            member.stop()


def lock(service, name, fh, **options):
    with Locker(name, CLIENT, SERVICES[service]) as locker:
        return locker.lock(fh, **options)


def state(service):
    try:
        with nsm.Monitor(rpc.Tcp(SERVICES[service], PORT, timeout=1)) as monitor:
            return monitor.stat("files.example").state
    except (OSError, EOFError):
        return 0


@tap.test
def a_lost_host_leaves_both_services_on_the_other():
    """Given two services on two hosts, each host serves one. When alpha's daemon of the left one is killed, beta serves both, on
    one port; the right one does not notice. When it is back, the left one is moved home again by hand."""
    with both() as (left, right, _):
        assert left.owner().name == "alpha" and right.owner().name == "beta"
        assert lock("left", "client", b"file") == "granted"
        assert lock("right", "other", b"another file") == "granted"
        before, untouched = state("left"), state("right")

        left.members[0].kill()
        wait_until(lambda: state("left") > before, "left on beta")
        assert left.owner().name == right.owner().name == "beta"
        assert state("right") == untouched, "the other service has not moved"
        assert lock("left", "other", b"file") in ("denied", "denied_grace_period")
        assert lock("right", "client", b"another file") == "denied"

        left.members[0].start()
        wait_until(lambda: left.members[0].role() == "standby", "alpha stands by")
        wait_until(lambda: left.members[1].sees(left.members[0]), "beta knows of alpha")
        left.members[1].ctl("cluster", "move")
        wait_until(lambda: left.members[0].role() == "active", "left is home")
        wait_until(lambda: left.members[1].role() == "standby", "beta stands by")
        assert lock("left", "other", b"file") in ("denied", "denied_grace_period")
        assert state("right") == untouched


if __name__ == "__main__":
    netns.enter(addresses=())
    tap.main()

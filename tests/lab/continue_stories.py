"""Takeovers that no client notices (recovery.notify=needed): the service goes to and fro between two nodes under Linux clients.
HOLDFAST_LAB_RESTARTS=N: so often (12).
"""
import contextlib
import signal

from application_stories import Worker, killed, moved
import failover_stories
from failover_stories import guests
from holdfast_lab.unnoticed import TIMES, Applications
from holdfast_test import tap


@contextlib.contextmanager
def locks_paused(pair):
    """SIGSTOP of the node's holdfastd alone. A file server that is stopped with it executes, when it goes on, the WRITEs that were in its
    sockets, although clients have repeated them at the other node and written newer data since: that no lock manager can prevent."""
    owner = pair.owner()
    owner.tell("SIGSTOP of holdfastd")
    owner.daemon.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        owner.tell("SIGCONT of holdfastd")
        owner.daemon.send_signal(signal.SIGCONT)


FAULTS = (killed, moved, locks_paused)


def state(member):
    status, said = member.get("/api/v1/status")
    assert status == 200, said
    return said


@tap.test
def takeovers_that_no_application_notices():
    """REC-01a, REC-02, REC-03a, HA-05: given a holder, a waiter, applications that take turns at a lock and SQLite in two guests, when the
    node that serves is killed, its holdfastd paused beyond its lease, and the service moved, again and again, then the state number stays, none
    sees an error, nothing is counted twice or lost, the waiter is still served in its turn; and the bridge carries no notice, no
    reclaim and no DENIED_GRACE_PERIOD."""
    lab = failover_stories.lab
    number = state(lab.pair.ready())["state"]
    apps = Applications(lab, *guests("alpha", "beta"), "unnoticed", worker=Worker)
    for n in range(TIMES):
        owner = lab.pair.ready()
        apps.fault_begins()
        with FAULTS[n % len(FAULTS)](lab.pair):
            apps.fault_ends()
        serves = lab.pair.ready()
        assert serves is not owner, "the service has not moved"
        said = state(serves)
        assert said["continued"] and said["state"] == number and not said["grace"]["active"], said
    apps.end("takeovers")

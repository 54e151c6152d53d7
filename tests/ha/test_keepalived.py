#!/usr/bin/env python3
"""keepalived moves the address (HA-07, HA-12): Debian's keepalived on two hosts, with the files of packaging/keepalived as they
are; only interface, addresses and places are the test's."""
import contextlib
import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import netns, nsm, rpc, tap
from holdfast_test.daemon import PORT, wait_until
from cluster import SERVICE, Cluster
from keepalived import PACKAGING, Keepalived, SharedDisk, need_keepalived
from wires import CLIENT, Node, Switch
from world import Locker


@contextlib.contextmanager
def hosts():
    need_keepalived()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as path, Switch() as switch, \
            Node(switch, "alpha", 11) as alpha, Node(switch, "beta", 12) as beta:
        folder = Path(path)
        (folder / "disk").mkdir()
        both = [SharedDisk(node, folder) for node in (alpha, beta)]
        with logs_of(folder):
            yield both


@contextlib.contextmanager
def logs_of(folder):
    """Shows the logs if what it encloses fails."""
    try:
        yield
    except BaseException:
        for log in folder.glob("*.log"):
            tap.comment("\n".join([log.name, *log.read_text().splitlines()[-25:]]))
        raise


def state():
    """The service's state number; None if it does not answer."""
    try:
        with nsm.Monitor(rpc.Tcp(SERVICE, PORT, timeout=1)) as monitor:
            return monitor.stat("files.example").state
    except (OSError, EOFError):
        return None


def lock(name, **options):
    with Locker(name, CLIENT, SERVICE) as locker:
        return locker.lock(b"file", **options)


def wait_for_service(beyond):
    wait_until(lambda: (state() or 0) > beyond, f"the service answers with a state above {beyond}")
    return state()


@tap.test
def a_crash_and_a_planned_stop_move_address_and_service():
    """Given two hosts with keepalived and a shared disk, one has address and daemon. When it crashes, the other takes both,
    with every lock; when that one's keepalived is stopped, they come back."""
    with hosts() as (alpha, beta):
        alpha.keepalived.start()
        first = wait_for_service(0)
        beta.keepalived.start()
        assert lock("client") == "granted"
        assert alpha.node.has(SERVICE) and not beta.node.has(SERVICE)

        alpha.crash()
        second = wait_for_service(first)
        assert beta.node.has(SERVICE)
        assert lock("other") == "denied_grace_period"
        assert lock("client", reclaim=True) == "granted"

        alpha.boot()
        wait_until(lambda: alpha.keepalived.log.read_text().count("Entering BACKUP STATE") == 2, "alpha is the backup")
        assert state() == second, "a host that comes back takes nothing away"
        beta.keepalived.stop()
        wait_for_service(second)
        assert alpha.node.has(SERVICE) and not beta.node.has(SERVICE)
        assert lock("other") in ("denied", "denied_grace_period")
        alpha.keepalived.stop()
        wait_until(lambda: alpha.pid() is None, "the daemon was stopped")
        alpha.check()
        beta.check()


@tap.test
def a_move_waits_for_a_daemon_that_is_slow_to_stop():
    """Given a shared disk, when keepalived moves the address while the daemon is slow to stop, then the other host's daemon does not use
    the store before the first is gone, and then serves with every lock."""
    with hosts() as (alpha, beta):
        alpha.keepalived.start()
        first = wait_for_service(0)
        beta.keepalived.start()
        wait_until(beta.keepalived.has_state, "beta is the backup")
        assert lock("client") == "granted"
        slow = alpha.pid()
        os.kill(slow, signal.SIGSTOP)
        alpha.keepalived.process.terminate()
        wait_until(lambda: "is in use by another holdfastd" in beta.log.read_text(), "beta finds the store in use")
        assert not state() and "ready" not in beta.log.read_text()
        os.kill(slow, signal.SIGCONT)
        wait_for_service(first)
        assert beta.node.has(SERVICE) and not alpha.node.has(SERVICE)
        assert lock("client", reclaim=True) == "granted"
        beta.keepalived.stop()
        wait_until(lambda: beta.pid() is None, "the daemon was stopped")
        alpha.check()
        beta.check()


# ---- over PostgreSQL: holdfastd runs on both hosts, and keepalived says which of them takes the service ----

@tap.test
def keepalived_tells_a_standby_to_take_the_service():
    """HA-07: given holdfastd in standby mode on both hosts, without a hook, the one that keepalived makes the master takes the
    service, and the other is held back. When the master's host is cut off, the other takes address and service; when
    keepalived there is stopped, they move without a loss."""
    need_keepalived()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as path, Cluster(hook="") as cluster, logs_of(Path(path)):
        folder = Path(path)
        alpha, beta = cluster.members
        managers = {}
        for member in cluster.members:
            (folder / member.name).mkdir()
            (folder / member.name / "holdfastctl").symlink_to(os.environ["HOLDFASTCTL"])
            managers[member] = Keepalived(member.node, folder, "standby.conf")
        managers[beta].start()
        wait_until(lambda: beta.node.has(SERVICE) and beta.role() == "active", "beta has address and service")
        managers[alpha].start()
        wait_until(lambda: alpha.role() == "held", "alpha is held back")
        assert lock("client") == "granted"
        before = state()

        beta.kill()  # restarted before keepalived gives up: the service stays where the address is
        beta.start()
        before = wait_for_service(before)
        assert beta.role() == "active" and beta.node.has(SERVICE)

        beta.node.unplug()
        wait_until(lambda: alpha.node.has(SERVICE) and alpha.role() == "active", "alpha has address and service")
        second = wait_for_service(before)
        assert lock("other") in ("denied", "denied_grace_period")
        assert lock("client", reclaim=True) == "granted"
        beta.node.plug()
        wait_until(lambda: beta.role() == "held" and not beta.node.has(SERVICE), "beta is held back")

        managers[alpha].stop()
        wait_until(lambda: beta.node.has(SERVICE) and beta.role() == "active", "beta has address and service again")
        wait_for_service(second)
        assert lock("other") in ("denied", "denied_grace_period")
        managers[beta].stop()


@tap.test
def pacemakers_agent_knows_every_role():
    """Given a daemon in each role, then the monitor says "running" on the node that has the service, also while a stalled
    database suspends it: else Pacemaker would stop and move what goes on by itself."""
    running, not_running = 0, 7
    wanted = {"active": running, "loading": running, "suspended": running, "leaving": running, "standby": not_running,
              "held": not_running, "lost": not_running, "alarm": not_running}
    said = Path(__file__).parents[2].joinpath("src/daemon/cluster.c").read_text()
    assert set(re.findall(r'(?:return|\?|:) "([a-z]+)"', said)) == wanted.keys()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        ctl = Path(folder, "holdfastctl")
        for role, status in wanted.items():
            ctl.write_text(f"#!/bin/sh\necho '{{\"role\": \"{role}\"}}'\n")
            ctl.chmod(0o755)
            done = subprocess.run([str(PACKAGING / "pacemaker/holdfast-standby"), "monitor"], stdin=subprocess.DEVNULL,
                                  env=os.environ | {"OCF_RESKEY_holdfastctl": str(ctl)}, timeout=60)
            assert done.returncode == status, f"{role}: {done.returncode}"
        ctl.write_text("#!/bin/sh\nexit 1\n")
        done = subprocess.run([str(PACKAGING / "pacemaker/holdfast-standby"), "monitor"], stdin=subprocess.DEVNULL,
                              env=os.environ | {"OCF_RESKEY_holdfastctl": str(ctl)}, timeout=60)
        assert done.returncode == not_running, "a daemon that does not answer has no service"


@tap.test
def pacemakers_agent_takes_and_gives_up():
    """The agent of packaging/pacemaker, called as Pacemaker does: its monitor tells which node has the service."""
    running, not_running = 0, 7
    with Cluster(hook="") as cluster:
        alpha, beta = cluster.members

        def agent(member, action):
            done = subprocess.run([*member.node.inside, str(PACKAGING / "pacemaker/holdfast-standby"), action],
                                  env=os.environ | {"OCF_RESKEY_service": "files", "OCF_RESKEY_holdfastctl":
                                                    os.environ["HOLDFASTCTL"]},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
            return done.returncode

        assert agent(alpha, "validate-all") == 0 and agent(alpha, "meta-data") == 0 and agent(alpha, "promote") == 3
        for member in (alpha, beta):
            assert agent(member, "stop") == 0  # Pacemaker begins with resources that run nowhere
            assert agent(member, "monitor") == not_running
        for member, other in ((alpha, beta), (beta, alpha)):
            assert agent(member, "start") == 0
            assert (agent(member, "monitor"), agent(other, "monitor")) == (running, not_running)
            assert agent(member, "start") == 0
            assert agent(member, "stop") == 0
            assert agent(member, "monitor") == not_running


if __name__ == "__main__":
    netns.enter(addresses=())
    tap.main()

#!/usr/bin/env python3
"""What happens to a service's addresses, and to the process that handles them, while the service is served (HA-04, HA-07)."""
import os
import signal
import subprocess
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_test.daemon import WAIT_S, wait_until
from cluster import SERVICE, SERVICE6, Cluster


def runner_of(member):
    """The process beside the daemon."""
    pid = member.daemon.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = [int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "hf-addresses\n"]
    assert len(found) == 1, f"{member.name} has {children}"
    return found[0]


def drop_addresses(member):
    """What systemd runs when the processes of the unit have ended (ExecStopPost= of holdfastd@.service)."""
    done = subprocess.run([*member.daemon.command, "--drop-addresses"], env=member.daemon.env, timeout=60,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


@tap.test
def addresses_that_go_and_processes_that_end():
    """Given an owner, an address that an operator removes comes back, and a second start of the same command line leaves
    both addresses alone. Given the owner's runner is killed, then the owner ends without giving the service up, because the
    address is still there; what systemd calls then removes it, and the other node takes the service when the lease is over."""
    with Cluster(ipv6=True) as cluster:
        owner = cluster.owner()
        other = cluster.other(owner)
        # An owner is active before its hook has added both addresses.
        wait_until(lambda: owner.node.has(SERVICE) and owner.node.has(SERVICE6), "the owner has the addresses")
        second = subprocess.Popen(owner.daemon.command, env=owner.daemon.env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for number, (address, bits) in enumerate(((SERVICE, 32), (SERVICE6, 128)), 2):
            owner.node.run("ip", "address", "del", f"{address}/{bits}", "dev", "eth0")
            owner.daemon.wait_for_log("the service's addresses are up", number)
            assert owner.node.has(address), address
            assert address in owner.daemon.wait_for_log("this host has lost an address of the service", number - 1)
        said, _ = second.communicate(timeout=WAIT_S)
        assert second.returncode == 1 and b"another holdfastd on this host" in said, said
        assert owner.node.has(SERVICE) and owner.node.has(SERVICE6)
        assert owner.role() == "active", "the service has not moved"

        os.kill(runner_of(owner), signal.SIGKILL)
        assert owner.daemon.wait() == 1, owner.daemon.log()
        assert "gave the service up" not in owner.daemon.log()
        assert owner.node.has(SERVICE) and owner.node.has(SERVICE6), "the runner was killed: it has not dropped them"
        status, said = drop_addresses(owner)
        assert status == 0 and not owner.node.has(SERVICE) and not owner.node.has(SERVICE6), said
        assert f"address removed address={SERVICE} prefix=32 interface=eth0" in said, said
        wait_until(lambda: other.role() == "active", "the other node has the service")
        took = other.daemon.wait_for_log("took the service")
        assert " silent_ms=0" not in took, f"the lease was given up: {took}"
        owner.start()


if __name__ == "__main__":
    netns.enter(addresses=())
    tap.main()

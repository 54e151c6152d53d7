#!/usr/bin/env python3
"""nfs-utils as the other side of NSM, for real: rpc.statd and sm-notify on a neighbouring host; and
Holdfast in the place of rpc.statd, with a played lockd."""
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from holdfast_test import netns, nsm, rpcbind, tap
from holdfast_test.daemon import PORT, WAIT_S, wait_until
from holdfast_test.host import Host
from holdfast_test.store import Server

HERE, THERE = "10.9.0.1", "10.9.0.2"
LOCKD = str(Path(__file__).with_name("lockd.py"))


def program(name):
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not path:
        raise tap.Skip(f"{name} is not installed")
    return path


class Lines:
    """What a program prints, line by line, with a bound on the wait."""

    def __init__(self, process):
        self.queue = queue.Queue()
        threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def _read(self, process):
        for line in process.stdout:
            self.queue.put(line.decode().rstrip("\n"))

    def next(self, seconds=WAIT_S):
        try:
            return self.queue.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError("no line in time") from None

    def is_quiet(self, seconds):
        try:
            self.queue.get(timeout=seconds)
            return False
        except queue.Empty:
            return True


class StatdHost(netns.Neighbour):
    """A host with the real rpcbind and rpc.statd, and a lockd that we play."""

    def __init__(self):
        super().__init__(HERE, THERE, "client.example")
        program("rpcbind"), program("rpc.statd"), program("sm-notify")

    def __enter__(self):
        super().__enter__()
        self.start(program("rpcbind"), "-f", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for_program(rpcbind.PROG)
        self.run("sh", "-c", "mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak && echo > /var/lib/nfs/rmtab"
                             " && chown -R statd /var/lib/nfs")
        self.statd = self.start(program("rpc.statd"), "-F", "-L", "-d", "-n", THERE,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.wait_for_program(nsm.PROG)
        return self

    def wait_for_program(self, prog):
        def there():
            done = subprocess.run([*self.inside, "rpcinfo", "-p", "127.0.0.1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            return f" {prog} " in done.stdout.decode()

        wait_until(there, f"program {prog} is registered there")

    def knows(self, text):
        """A line of its /etc/hosts."""
        self.run("sh", "-c", f"(echo 127.0.0.1 localhost; echo {text}) > /run/hosts && "
                             "mount --bind /run/hosts /etc/hosts")

    def lockd(self, *names):
        lines = Lines(self.start(sys.executable, LOCKD, "set", *names, stdout=subprocess.PIPE))
        assert lines.next() == "watching"
        return lines


def lock_from_there(host, fh="file", state=3):
    """A lock of the neighbour's, through the wire."""
    script = (f"from holdfast_test import nsm; c = nsm.connect({HERE!r}); "
              f"print(c.lock('client.example', {fh!r}.encode(), state={state}))")
    answer = host.run("env", f"PYTHONPATH={Path(__file__).parent}", sys.executable, "-c", script)
    assert int(answer) == nsm.GRANTED, answer


def statd_is_told(host, server, mon_name, transport):
    """Restarts Holdfast; rpc.statd must accept the notice and call its lockd."""
    lock_from_there(host)
    lines = host.lockd(mon_name)
    daemon = server.restart()
    with nsm.connect() as monitor:
        state = monitor.stat().state
    began = time.monotonic()
    proc, way, address, port, name, told, number = lines.next().split()
    took = time.monotonic() - began
    assert (int(proc), address, name, int(told), int(number)) == (
        nsm.NLM_SM_NOTIFY, "127.0.0.1", mon_name, state, 1)
    assert int(port) < 1024, "rpc.statd itself calls from a reserved port"
    line = daemon.wait_for_log("notice delivered")
    assert "client=client.example" in line and "attempts=1" in line, line
    tap.note(f"rpc.statd ({transport}) believed our notice and called its lockd (by {way}) "
             f"{took * 1000:.0f} ms after we saw the daemon up")


@tap.test
def rpc_statd_accepts_our_notice_over_tcp():
    """Given rpc.statd that monitors us by address, as Linux does: restarted, it tells its lockd."""
    with StatdHost() as host, Server("log.level=debug") as server:
        statd_is_told(host, server, HERE, "tcp")


@tap.test
def rpc_statd_accepts_our_notice_over_udp():
    """The same where rpc.statd is registered for UDP only."""
    with StatdHost() as host, Server("log.level=debug") as server:
        for netid in ("tcp", "tcp6"):
            host.run("rpcinfo", "-T", netid, "-d", str(nsm.PROG), "1")
        listing = host.run("rpcinfo", "-p", "127.0.0.1")
        assert not [line for line in listing.splitlines()
                    if line.split()[0] == str(nsm.PROG) and line.split()[2] == "tcp"], listing
        statd_is_told(host, server, HERE, "udp only")


@tap.test
def rpc_statd_that_knows_us_by_name():
    """Given rpc.statd that monitors us by name (nsm_use_hostnames): found in the long name we send."""
    with StatdHost() as host, Server("log.level=debug", "server.name=server.example") as server:
        host.knows(f"{HERE} server.example server")
        statd_is_told(host, server, "server.example", "by name")


@tap.test
def sm_notify_is_recognised():
    """Given the real sm-notify on a client that booted again: its locks go, the same notice is no news."""
    with StatdHost() as host, Server("log.level=debug") as server:
        lock_from_there(host)
        host.knows(f"{THERE} client.example client")
        host.lockd(HERE)
        folder = "/run/nsm"  # what its rpc.statd has written, as it is found at the next boot
        host.run("cp", "-a", "/var/lib/nfs", folder)
        with nsm.connect(HERE, HERE) as other:
            assert other.test("other") == nsm.DENIED
            with PlayedRpcbind(HERE):
                output = host.run("timeout", "30", program("sm-notify"), "-f", "-d", "-m", "1",
                                  "-P", folder, "-v", "client.example")
            line = server.daemon.wait_for_log("client has crashed")
            assert "client=client.example" in line and "locks_released=1" in line, line
            assert other.test("other") == nsm.GRANTED, output
            assert server.daemon.log().count("client has crashed") == 1, "its two names are one host"
            assert "stranger" not in server.daemon.log()


class PlayedRpcbind:
    """An rpcbind on this host that names the daemon's port: Holdfast runs with rpcbind.mode=none."""

    def __init__(self, address):
        self.host = Host(address, offers=(), port=PORT)

    def __enter__(self):
        self.host.__enter__()
        self.host.offers = ("udp", "tcp")
        return self

    def __exit__(self, *_):
        self.host.__exit__()


# ---- in the place of rpc.statd ----

def hears(lines, mon_name, state, number):
    """Passes over what our own notices bring about: here all hosts share one rpcbind, and so they
    come back to ourselves."""
    told = None
    while told != str(state):
        proc, way, address, port, name, told, mark = lines.next().split()
    assert (int(proc), address, name, int(told), int(mark)) == (
        nsm.NLM_SM_NOTIFY, "127.0.0.1", mon_name, state, number)
    assert int(port) < 1024, f"a kernel believes a reserved port only, not {port}"
    return way


@tap.test
def holdfast_serves_a_kernel_lockd_as_its_status_monitor():
    """SM_MON over TCP from loopback with priv; the peer's notice ends in procedure 16 of 100021
    version 3, on loopback from a reserved port, also after a restart of Holdfast."""
    with rpcbind.System(), tempfile.TemporaryDirectory() as path:
        with Server("rpcbind.mode=system", "notify.timeout=1", path=path) as server:
            lockd = subprocess.Popen([sys.executable, LOCKD, "take", "192.0.2.3", "192.0.2.2"],
                                     stdout=subprocess.PIPE)
            try:
                lines = Lines(lockd)
                assert lines.next() == "watching"
                with nsm.connect("192.0.2.1", "192.0.2.2", "udp") as peer:
                    peer.notify("peer.example", 7)
                    peer.notify("peer", 7)
                way = hears(lines, "192.0.2.2", 7, 2)
                assert lines.is_quiet(0.3), "once is enough"
                tap.note(f"the callback of a registration by TCP came by {way}")
                # rpcbind still has both of us, where we were.
                server.restart("rpcbind.mode=none").wait_for_log("clients told of our restart")
                with nsm.connect("192.0.2.1", "192.0.2.3", "udp") as peer:
                    peer.notify("other.example", 9)
                hears(lines, "192.0.2.3", 9, 1)
            finally:
                lockd.kill()
                lockd.wait()


@tap.test
def a_host_monitored_from_loopback_is_told_of_our_restart():
    """Given a lockd here that monitors a host elsewhere: the notice leaves by the address that leads
    there, not by 127.0.0.1, where the registration came in."""
    with StatdHost() as host, Server("log.level=debug") as server:
        with nsm.connect(source=nsm.reserved()) as root:
            assert root.mon(THERE, prog=nsm.NLM, vers=3, proc=nsm.NLM_SM_NOTIFY).ok
        lines = host.lockd(HERE)
        line = server.restart().wait_for_log("clients told of our restart")
        assert "delivered=1 failing=0" in line, line
        assert lines.next().split()[4] == HERE, "its rpc.statd believed us by our address"


@tap.test
def a_callback_to_100021_may_reach_ourselves_and_does_no_harm():
    """Given that Holdfast itself is what rpcbind has as 100021 (no kernel lockd on this host): the
    callback comes back to us as procedure 16, is taken for what we know already, and that is all."""
    with rpcbind.System():
        with Server("rpcbind.mode=system", "log.level=debug", "notify.timeout=1") as server:
            with nsm.connect(source=nsm.reserved()) as root:
                assert root.mon("192.0.2.2", prog=nsm.NLM, vers=3, proc=nsm.NLM_SM_NOTIFY).ok
            with nsm.connect("192.0.2.1", "192.0.2.2") as peer:
                assert peer.lock("peer", state=5) == nsm.GRANTED
                peer.notify("peer", 7)
                server.daemon.wait_for_log("notice delivered")
                assert peer.lock("peer", state=7) == nsm.GRANTED
                peer.notify("peer", 7)
                with nsm.connect("192.0.2.1", "192.0.2.3") as other:
                    assert other.test("other") == nsm.DENIED, "the lock of its new life stays"


if __name__ == "__main__":
    netns.enter()
    tap.main()

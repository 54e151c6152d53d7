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
        self.start_statd("-L")
        return self

    def start_statd(self, *options):
        self.statd = self.start(program("rpc.statd"), "-F", "-d", "-n", THERE, *options,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for_program(nsm.PROG)

    def stop_statd(self):
        """As a crash and a boot leave it: its files are there, and rpcbind has forgotten it."""
        self.statd.kill()
        self.statd.wait()
        self.run("rpcinfo", "-d", str(nsm.PROG), "1")

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
    """A lock by the neighbouring host, over the wire."""
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
    """NSM-07: given rpc.statd that monitors us by address, as Linux does: after our restart it calls its
    lockd."""
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
    """Given rpc.statd that monitors us by name (nsm_use_hostnames): it finds us by the long name we send."""
    with StatdHost() as host, Server("log.level=debug", "server.name=server.example") as server:
        host.knows(f"{HERE} server.example server")
        statd_is_told(host, server, "server.example", "by name")


def state_of(host):
    """The state number that its rpc.statd answers SM_STAT with."""
    listing = [line.split() for line in host.run("rpcinfo", "-p", "127.0.0.1").splitlines()]
    port = next(int(line[3]) for line in listing if line[0] == str(nsm.PROG) and line[2] == "udp")
    with nsm.connect(THERE, transport="udp", port=port) as monitor:
        return monitor.stat("127.0.0.1").state


def is_held():
    with nsm.connect(HERE, HERE) as other:
        return other.test("other") == nsm.DENIED


def forge(host, state):
    """A notice from the client's own address, which the client has not sent: by another of its users."""
    script = (f"from holdfast_test import nsm; nsm.connect({HERE!r}, transport='udp')"
              f".notify('client.example', {state})")
    host.run("env", f"PYTHONPATH={Path(__file__).parent}", sys.executable, "-c", script)


@tap.test
def rpc_statd_contradicts_a_forged_notice():
    """SEC-04: given a client whose rpc.statd runs: a notice with another state than rpc.statd names is ignored, and
    one that claims the state the client has had all the time changes nothing. Without rpc.statd it is believed."""
    with StatdHost() as host, Server() as server:
        state = state_of(host)
        assert state > 0 and state % 2 == 1
        lock_from_there(host, state=state)
        forge(host, state + 2)
        line = server.daemon.wait_for_log("crash notice ignored")
        assert f"state={state + 2}" in line and f"monitor_state={state}" in line, line
        forge(host, state)
        assert is_held(), "a forged notice released a lock"
        host.stop_statd()
        began = time.monotonic()
        forge(host, state + 2)
        took = time.monotonic() - began
        server.daemon.wait_for_log("client has crashed")
        assert not is_held()
        tap.note(f"without its rpc.statd the client is believed after {took * 1000:.0f} ms")
        assert took < 3


@tap.test
def rpc_statd_confirms_a_restart():
    """SEC-04, NSM-05: given rpc.statd that starts as after a boot: it counts up the state and has sm-notify tell us;
    the notice, which may come before it serves, is believed, and the locks of the old life are released."""
    with StatdHost() as host, Server("log.level=debug") as server:
        state = state_of(host)
        lock_from_there(host, state=state)
        host.knows(f"{THERE} client.example client")
        host.lockd(HERE)  # has its rpc.statd monitor us
        host.stop_statd()
        with PlayedRpcbind(HERE):
            host.start_statd()  # without -L: runs sm-notify
            line = server.daemon.wait_for_log("client has crashed")
        assert f"state={state + 2}" in line and "locks_released=1" in line, line
        assert state_of(host) == state + 2 and not is_held()
        assert "crash notice ignored" not in server.daemon.log()


@tap.test
def sm_notify_is_recognised():
    """NSM-05: given the real sm-notify on a client that booted again, before its rpc.statd runs: its locks are
    released, and the repeated notice changes nothing."""
    with StatdHost() as host, Server("log.level=debug") as server:
        lock_from_there(host)
        host.knows(f"{THERE} client.example client")
        host.lockd(HERE)
        folder = "/run/nsm"  # what its rpc.statd has written, as it is found at the next boot
        host.run("cp", "-a", "/var/lib/nfs", folder)
        host.stop_statd()
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
    """Skips the calls that our own notices cause: here all hosts share one rpcbind, so the notices come back
    to ourselves."""
    told = None
    while told != str(state):
        proc, way, address, port, name, told, mark = lines.next().split()
    assert (int(proc), address, name, int(told), int(mark)) == (
        nsm.NLM_SM_NOTIFY, "127.0.0.1", mon_name, state, number)
    assert int(port) < 1024, f"a kernel believes a reserved port only, not {port}"
    return way


@tap.test
def holdfast_serves_a_kernel_lockd_as_its_status_monitor():
    """NSM-08, NSM-09: SM_MON over TCP from loopback with priv; the peer's notice ends in procedure 16 of
    100021 version 3, on loopback from a reserved port, also after a restart of Holdfast."""
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
    """NSM-08: given a lockd here that monitors a host elsewhere: the notice leaves from the address that
    routing selects, not from 127.0.0.1, where the registration came in."""
    with StatdHost() as host, Server("log.level=debug") as server:
        with nsm.connect(source=nsm.reserved()) as root:
            assert root.mon(THERE, prog=nsm.NLM, vers=3, proc=nsm.NLM_SM_NOTIFY).ok
        lines = host.lockd(HERE)
        line = server.restart().wait_for_log("clients told of our restart")
        assert "delivered=1 failing=0" in line, line
        assert lines.next().split()[4] == HERE, "its rpc.statd believed us by our address"


@tap.test
def a_callback_to_100021_never_reaches_ourselves():
    """SEC-01: given that rpcbind names Holdfast itself for 100021 (no kernel lockd on this host): the callback is not
    made, and the notice of the client does what it does without a registration."""
    with rpcbind.System():
        with Server("rpcbind.mode=system", "log.level=debug", "notify.timeout=1") as server:
            with nsm.as_kernel() as root:
                assert root.mon("192.0.2.2", prog=nsm.NLM, vers=3, proc=nsm.NLM_SM_NOTIFY).ok
            with nsm.connect("192.0.2.1", "192.0.2.2") as peer:
                assert peer.lock("peer", state=5) == nsm.GRANTED
                peer.notify("peer", 7)
                assert "not permitted" in server.daemon.wait_for_log("notice failed")
                assert peer.lock("peer", state=7) == nsm.GRANTED
                peer.notify("peer", 7)
                with nsm.connect("192.0.2.1", "192.0.2.3") as other:
                    assert other.test("other") == nsm.DENIED, "the lock of its new life stays"


if __name__ == "__main__":
    netns.enter()
    tap.main()

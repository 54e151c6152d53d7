#!/usr/bin/env python3
"""NSM's procedures (NSM-01..04, NSM-06, NSM-08, NSM-09): results, identity, durability, limits, and bad input.

What is registered is seen from outside: at a restart each registration about the server itself gets
its `status` callback, with its own 16 bytes (SPEC section 2, kind 2).
"""
import os
import re
import shutil
import subprocess
import tempfile
import threading

from holdfast_test import netns, nsm, rpc, tap
from holdfast_test.daemon import PORT, Daemon, wait_until
from holdfast_test.host import Host
from holdfast_test.store import Server, fill, small_disk
from holdfast_test.xdr import Encoder

US = "server.example"
CLIENT, OTHER = "192.0.2.2", "192.0.2.3"
FAST = ("notify.timeout=1",)
NM_LOCK = 22


def priv(number):
    return number.to_bytes(16, "big")


def told(server, *hosts):
    """Restarts the server; the callbacks each host got: a sorted list of (my_name's mark, state)."""
    with nsm.connect(source=CLIENT, host="192.0.2.1") as monitor:
        assert monitor.mon(US, priv(0), my_name="the last one").ok
    for host in hosts:
        host.forget()
    server.restart().wait_for_log("clients told of our restart")
    marks = []
    for host in hosts:
        statuses = [nsm.Status.decode(call.decode()) for call in host.calls_now()]
        assert all(status.mon_name.lower() in (b"server.example", b"server") for status in statuses)
        marks.append(sorted(int.from_bytes(s.priv, "big") for s in statuses if s.priv != priv(0)))
    return marks[0] if len(hosts) == 1 else marks


# ---- results ----

@tap.test
def every_procedure_answers_with_its_own_type():
    """NSM-03b: NSM-01a: over UDP and TCP, IPv4 and IPv6, each of the seven answers just what the protocol says."""
    with Daemon():
        for host in ("127.0.0.1", "::1", "192.0.2.1", "2001:db8::1"):
            for transport in ("udp", "tcp"):
                by_loopback = host in ("127.0.0.1", "::1")
                with nsm.connect(host, nsm.reserved(host), transport) as monitor:
                    monitor.call(nsm.NULL).end()
                    state = monitor.stat().state
                    assert state > 0 and state % 2 == 1
                    for name in (US, "peer.example") if by_loopback else (US,):
                        assert monitor.mon(name) == nsm.Answer(True, state)
                        assert monitor.unmon(name) == state
                    assert monitor.unmon("was never there") == state
                    assert monitor.unmon_all() == state
                    monitor.notify("nobody", 3)
                    if by_loopback:
                        monitor.simu_crash()
                        assert monitor.stat().state == state + 2


@tap.test
def sm_stat_registers_nothing():
    """NSM-04b: given SM_STAT for ourselves and for others, a restart notifies no host."""
    with Server(*FAST) as server, Host(CLIENT) as host:
        with nsm.connect(source=CLIENT, host="192.0.2.1") as monitor:
            for name in (US, CLIENT, "anybody"):
                assert monitor.stat(name).ok
        assert told(server, host) == []


@tap.test
def simu_crash_is_for_root_on_this_host_only():
    """NSM-01d: from a port that any user can have, or from another address, it is refused and does nothing."""
    with Daemon() as daemon:
        with nsm.connect() as monitor:
            before = monitor.stat().state
            assert monitor.client.call(nsm.PROG, 1, nsm.SIMU_CRASH).status == rpc.SYSTEM_ERR
        with nsm.connect("192.0.2.1", nsm.reserved(CLIENT)) as monitor:
            assert monitor.client.call(nsm.PROG, 1, nsm.SIMU_CRASH).status == rpc.SYSTEM_ERR
            assert monitor.stat().state == before
        daemon.wait_for_log("refused: SM_SIMU_CRASH")


@tap.test
def simu_crash_does_what_a_restart_does():
    """A new state number (+2), notices to registered hosts, grace for what was held, waiters removed."""
    with Server(*FAST) as server, Host(CLIENT) as host:
        with nsm.connect("192.0.2.1", CLIENT) as client:
            assert client.lock("client") == nsm.GRANTED
            assert client.mon(US, priv(7)).ok
            before = client.stat().state
            with nsm.connect(source=nsm.reserved()) as root:
                root.simu_crash()
            assert client.stat().state == before + 2
            notice = host.wait_for(lambda c: (c.prog, c.proc) == (nsm.PROG, nsm.NOTIFY))
            assert nsm.Notice.decode(notice.decode()) == nsm.Notice(b"server.example", before + 2)
            status = host.wait_for(lambda c: c.prog == nsm.TRANSIENT)
            assert nsm.Status.decode(status.decode()) == nsm.Status(b"server.example", before + 2, priv(7))
            assert client.lock("client", b"another file") == nsm.DENIED_GRACE
            assert client.lock("client", reclaim=True) == nsm.GRANTED
            assert client.lock("client", b"another file") == nsm.GRANTED, "grace is over"
        after = server.restart()
        assert f"state={before + 4}" in after.wait_for_log("ready"), "the new state number was durable"


# ---- identity ----

@tap.test
def each_part_of_the_identity_counts():
    """NSM-02a, NSM-03: a difference in any part makes another registration; the same registration again is an
    update."""
    variants = [{}, {"my_name": "other"}, {"prog": nsm.TRANSIENT + 1}, {"vers": 2}, {"proc": 2}]
    with Server(*FAST) as server, Host(CLIENT) as host, Host(OTHER) as other:
        with nsm.connect("192.0.2.1", CLIENT) as monitor:
            for number, me in enumerate(variants, 1):
                assert monitor.mon(US, priv(number), **me).ok
            assert monitor.mon("SERVER", priv(6)).ok, "the short name is another mon_name"
        with nsm.connect("192.0.2.1", OTHER) as monitor:
            assert monitor.mon(US, priv(1)).ok
        assert told(server, host, other) == [[1, 2, 3, 4, 5, 6], [1]]

        with nsm.connect("192.0.2.1", CLIENT, "udp") as monitor:
            assert monitor.mon("SERVER.Example", priv(10), my_name="LocalHost").ok, "case is no difference"
        assert told(server, host, other) == [[2, 3, 4, 5, 6, 10], [1]]

        with nsm.connect("192.0.2.1", CLIENT) as monitor:
            monitor.unmon(US, my_name="nobody")
            monitor.unmon("server", proc=2)
            monitor.unmon(US, proc=2)
        assert told(server, host, other) == [[2, 3, 4, 6, 10], [1]]

        with nsm.connect("192.0.2.1", CLIENT) as monitor:
            monitor.unmon_all()
        assert told(server, host, other) == [[2, 3, 4], [1]], "all of one my_id, and of no other"


@tap.test
def unmon_touches_no_lock():
    """NSM-03c: given a lock and a registration of one host, UNMON and UNMON_ALL leave the lock."""
    with Server(), nsm.connect("192.0.2.1", CLIENT) as monitor:
        assert monitor.lock("client") == nsm.GRANTED
        assert monitor.mon(US).ok
        monitor.unmon(US)
        monitor.unmon_all()
        with nsm.connect("192.0.2.1", OTHER) as other:
            assert other.test("other") == nsm.DENIED


# ---- durability ----

@tap.test
def what_was_answered_survives_kill_9():
    """NSM-02b: STO-02: killed right after the answer, a registration is there and a removed one is not."""
    with Server(*FAST) as server, Host(CLIENT) as host:
        states = []
        for turn in range(6):
            with nsm.connect("192.0.2.1", CLIENT) as monitor:
                states.append(monitor.mon(US, priv(100 + turn), proc=turn + 10).state)
                if turn >= 3:
                    monitor.unmon(US, proc=turn + 7)
                server.kill()
            host.forget()
            server.start().wait_for_log("clients told of our restart")
            expected = set(range(100, 101 + turn)) - set(range(100, 98 + turn))
            seen = {int.from_bytes(nsm.Status.decode(c.decode()).priv, "big") for c in host.calls_now()}
            assert seen == expected, (turn, seen, expected)
        assert states == list(range(states[0], states[0] + 12, 2)), "odd, and greater each time"


@tap.test
def a_clean_stop_keeps_the_registrations():
    """NSM-06: after SIGTERM as after a crash the state number is greater and every registration is
    notified."""
    with Server(*FAST) as server, Host(CLIENT) as host:
        with nsm.connect("192.0.2.1", CLIENT) as monitor:
            before = monitor.mon(US, priv(1)).state
        server.stop()
        server.start()
        status = nsm.Status.decode(host.wait_for().decode())
        assert status == nsm.Status(b"server.example", before + 2, priv(1))


@tap.test
def a_simulated_crash_forgets_the_answers_too():
    """RPC-01: given an NM_LOCK that was granted, SM_SIMU_CRASH, and the same request again: what it was granted is
    gone with the crash, so the kept answer must be as well."""
    with Server(), nsm.connect("192.0.2.1", CLIENT) as client, rpc.Udp("192.0.2.1", PORT, source=(CLIENT, 0)) as udp:
        assert client.lock("client", b"durable") == nsm.GRANTED  # something to reclaim: there will be grace
        args = Encoder().opaque(b"c").bool(False, True).raw(nsm.nlm_lock("client", b"volatile", 1)).bool(False).int(0)
        message = rpc.call_message(7, nsm.NLM, 4, NM_LOCK, args.bytes())

        def status():
            udp.send(message)
            d = udp.reply_to(7).decode()
            assert d.opaque() == b"c"
            return d.uint()

        assert status() == nsm.GRANTED and status() == nsm.GRANTED
        with nsm.as_kernel() as root:
            root.simu_crash()
        assert status() == nsm.DENIED_GRACE


# ---- limits ----

@tap.test
def the_limit_is_exact_and_leaks_no_slot():
    """NSM-02d: given a limit of 50: 50 fit, one more is STAT_FAIL, an update works, and 300 cycles change
    nothing."""
    with Server("limits.clients=50"), nsm.as_kernel() as monitor:
        for number in range(50):
            assert monitor.mon(f"host{number}").ok
        assert not monitor.mon("one too many").ok
        assert monitor.mon("HOST7", priv(1)).ok, "an update"
        for _ in range(300):
            monitor.unmon("host3")
            monitor.unmon("host3")
            assert monitor.mon("host3").ok
            assert monitor.mon("host3", priv(2)).ok
        assert not monitor.mon("one too many").ok
        monitor.unmon_all()
        for number in range(50):
            assert monitor.mon(f"new{number}").ok
        assert not monitor.mon("one too many").ok


@tap.test
def the_limit_is_exact_under_concurrency():
    """NSM-02: given 8 connections at once, 200 requests in flight each, a limit of 333 lets in just 333."""
    limit, each, connections = 333, 200, 8
    accepted = []

    def storm(who):
        with rpc.Tcp("127.0.0.1", PORT, source=("127.0.0.1", 900 + who)) as client:
            for number in range(each):
                client.send(rpc.call_message(number, nsm.PROG, 1, nsm.MON,
                                             nsm.mon(f"host{number}", my_name=f"{who}")))
            replies = [client.reply() for _ in range(each)]
            accepted.append(sum(reply.decode().int() == nsm.STAT_SUCC for reply in replies))

    with Server(f"limits.clients={limit}"):
        threads = [threading.Thread(target=storm, args=(who,)) for who in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(accepted) == limit, accepted
        with nsm.as_kernel() as monitor:
            assert not monitor.mon("one too many").ok


# ---- a store that refuses ----

@tap.test
def a_full_disk_is_stat_fail():
    """NSM-02, STO-04: given a store on a full disk: STAT_FAIL; SM_STAT answers; it recovers when there is
    room."""
    with small_disk(4) as path, Server(*FAST, path=path) as server, Host(CLIENT) as host:
        with nsm.connect("192.0.2.1", CLIENT) as monitor:
            before = monitor.stat().state
            assert monitor.mon(US, priv(1)).ok
            ballast = os.path.join(path, "ballast")
            fill(ballast)
            refused = 0
            for number in range(2, 40000):  # until what the store kept in hand is used up
                if not monitor.mon(US, priv(number), my_name="h" * 900 + str(number)).ok:
                    refused = number
                    break
            assert refused, "never refused"
            assert monitor.stat() == nsm.Answer(True, before)
            server.daemon.wait_for_log("the store is down")
            os.unlink(ballast)
            wait_until_accepted(monitor, "server")
            server.daemon.wait_for_log("the store is up again")
            for name in range(2, refused):
                monitor.unmon_all(my_name="h" * 900 + str(name))
            monitor.unmon_all()
            assert monitor.mon(US, priv(1)).ok
        assert told(server, host) == [1]


def wait_until_accepted(monitor, name):
    wait_until(lambda: monitor.mon(name).ok, "the store heals")


def postgres_programs():
    base = "/usr/lib/postgresql"
    versions = sorted(os.listdir(base)) if os.path.isdir(base) else []
    if not versions:
        raise tap.Skip("PostgreSQL is not installed")
    return os.path.join(base, versions[-1], "bin")


class Postgres:
    """A server of our own, by its socket only."""

    def __enter__(self):
        self.programs = postgres_programs()
        self.folder = tempfile.mkdtemp(prefix="holdfast-pg-")
        shutil.chown(self.folder, "postgres")
        self.data = os.path.join(self.folder, "data")
        self._as_postgres("initdb", "-D", self.data, "-A", "trust", "-N", "--no-instructions")
        self.start()
        self.dsn = f"host={self.folder} dbname=postgres user=postgres"
        return self

    def _as_postgres(self, program, *arguments):
        netns.run("runuser", "-u", "postgres", "--", os.path.join(self.programs, program), *arguments)

    def start(self):
        self._as_postgres("pg_ctl", "-D", self.data, "-w", "-l", os.path.join(self.folder, "log"),
                          "-o", f"-k {self.folder} -c listen_addresses= -c fsync=off", "start")

    def stop(self):
        self._as_postgres("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")

    def __exit__(self, *_):
        if os.path.exists(os.path.join(self.data, "postmaster.pid")):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@tap.test
def a_stopped_postgresql_is_stat_fail():
    """STO-04: given PostgreSQL, stopped: STAT_FAIL, SM_STAT answers; started again, it recovers and nothing is
    lost."""
    with Postgres() as postgres, Host(CLIENT) as host:
        server = Server("store.backend=postgres", f"store.dsn={postgres.dsn}", *FAST)
        with server:
            with nsm.connect("192.0.2.1", CLIENT, timeout=60) as monitor:
                assert monitor.mon(US, priv(1)).ok
                postgres.stop()
                assert not monitor.mon(US, priv(2), proc=2).ok
                assert monitor.stat().ok
                postgres.start()
                wait_until_accepted(monitor, "server")
                monitor.unmon("server")
                assert monitor.mon(US, priv(3), proc=3).ok
            assert told(server, host) == [1, 3]


# ---- bad input ----

ODD_NAMES = (b"/etc/passwd", b"../../../etc/shadow", b"%n%n%n%n%s", b"a b\tc\n\x01\x02\x7f\x1b[31m",
             b"\xff\xfe\x80", b"." * 100, b"-rf", b"$(reboot)", b"x" * nsm.NAME_MAX, b".", b"1", b"*")


@tap.test
def odd_names_are_data():
    """NSM-09d, CA-96.09, CVE-2000-0666: a name is neither a path nor a format; the longest is 1024 bytes."""
    with Server(*FAST) as server, Host(CLIENT) as host:
        before = set(os.listdir(server.path))
        with nsm.connect("192.0.2.1", CLIENT) as monitor:
            for number, name in enumerate(ODD_NAMES, 1):
                assert monitor.stat(name).ok
                with nsm.as_kernel() as kernel:
                    assert kernel.mon(name).ok, name
                monitor.notify(name, 5)
                assert monitor.mon(US, priv(number), my_name=name).ok, name
            with nsm.as_kernel() as kernel:
                for name in ODD_NAMES:
                    kernel.unmon(name)
        assert set(os.listdir(server.path)) == before, "a file was made from a name"
        assert told(server, host) == list(range(1, len(ODD_NAMES) + 1))
        log = server.daemon.log()
        assert "\x1b" not in log and "\x01" not in log
        assert all("\x20" <= c for c in log.replace("\n", ""))


@tap.test
def names_that_cannot_be():
    """NSM-09d: An empty name or one with a NUL: STAT_FAIL. 1025 bytes, or cut short: GARBAGE_ARGS."""
    with Server(), nsm.as_kernel() as monitor:
        for name in (b"", b"a\0b", b"\0"):
            assert not monitor.mon(name).ok, name
            assert not monitor.mon("host", my_name=name).ok, name
            monitor.unmon(name)
            monitor.unmon_all(my_name=name)
            monitor.notify(name, 3)
        too_long = b"x" * (nsm.NAME_MAX + 1)
        for proc, args in ((nsm.MON, nsm.mon(too_long)), (nsm.MON, nsm.mon("h", my_name=too_long)),
                           (nsm.UNMON, nsm.mon_id(too_long)), (nsm.UNMON_ALL, nsm.my_id(too_long)),
                           (nsm.NOTIFY, nsm.stat_chge(too_long, 1)), (nsm.MON, nsm.mon("host")[:-4]),
                           (nsm.MON, nsm.mon("host") + bytes(4)), (nsm.SIMU_CRASH, bytes(4)),
                           (nsm.MON, Encoder().uint(0xfffffffc).bytes()), (nsm.NOTIFY, b"")):
            assert monitor.client.call(nsm.PROG, 1, proc, args).status == rpc.GARBAGE_ARGS
        assert monitor.stat().ok


@tap.test
def only_some_programs_may_be_called_back():
    """NSM-09c, CVE-1999-0493: lock managers, status monitors, transient numbers; any other program is
    STAT_FAIL."""
    with Server(*FAST) as server, Host(CLIENT) as host:
        allowed = (100021, 100024, 0x40000000, 0x5fffffff)
        forbidden = (0, 100000, 100003, 100005, 0x3fffffff, 0x60000000, 0x7fffffff, 0xffffffff)
        with nsm.connect("192.0.2.1", CLIENT) as monitor:
            for number, prog in enumerate(allowed, 1):
                assert monitor.mon(US, priv(number), prog=prog, vers=9, proc=99).ok, prog
            for prog in forbidden:
                assert not monitor.mon(US, priv(99), prog=prog).ok, prog
        assert told(server, host) == [1, 2, 3, 4]
        with nsm.connect("192.0.2.1", CLIENT) as monitor:
            assert not monitor.mon(US, prog=100003).ok
        server.daemon.wait_for_log("program not allowed")


@tap.test
def a_callback_goes_only_where_the_registration_came_from():
    """NSM-09b, CVE-1999-0493: given my_name of another host, the callback still goes to the sender's
    address."""
    with Server(*FAST) as server, Host(CLIENT) as host, Host(OTHER) as victim:
        with nsm.connect("192.0.2.1", CLIENT) as monitor:
            assert monitor.mon(US, priv(1), my_name=OTHER).ok
        assert told(server, host, victim) == [[1], []]


@tap.test
def the_log_names_the_refused_caller():
    """A refusal is a warning with address and reason; at most a few of the same kind in a row."""
    with Daemon() as daemon, nsm.as_kernel() as monitor:
        for _ in range(500):
            assert not monitor.mon("host", prog=100003).ok
        daemon.wait_for_log("refused: SM_MON")
        lines = re.findall("refused: SM_MON", daemon.log())
        assert len(lines) < 50, f"{len(lines)} lines for 500 refusals"


if __name__ == "__main__":
    netns.enter()
    tap.main()

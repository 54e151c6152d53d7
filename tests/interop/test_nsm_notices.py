#!/usr/bin/env python3
"""Notices in and out (NSM-05, NSM-07, NSM-08, NSM-09, NOT-01..03, NOT-05, CRS-01, SPEC sections 2 and 3), with played hosts."""
import contextlib
import socket
import threading
import time

from holdfast_test import host as hosts
from holdfast_test import netns, nsm, tap
from holdfast_test.daemon import run, wait_until
from holdfast_test.host import Host
from holdfast_test.store import Server

US = b"server.example"
SERVER, CLIENT, OTHER = "192.0.2.1", "192.0.2.2", "192.0.2.3"
SERVER6, CLIENT6 = "2001:db8::1", "2001:db8::2"
FAST = ("notify.timeout=1",)
DEBUG = ("log.level=debug",)


def is_notice(call):
    return (call.prog, call.vers, call.proc) == (nsm.PROG, 1, nsm.NOTIFY)


def is_status(call):
    return call.prog == nsm.TRANSIENT


def notices_of(host):
    return [nsm.Notice.decode(call.decode()) for call in host.calls_now() if is_notice(call)]


def priv(number):
    return number.to_bytes(16, "big")


def lock_from(address, caller, server=SERVER, **arguments):
    with nsm.connect(server, address) as client:
        return client.lock(caller, **arguments)


# ---- of a start ----

@tap.test
def a_monitor_tells_of_a_boot_and_not_of_its_own_restart():
    """NSM-06, NSM-07: given a status monitor whose kernel holds locks at a server, a restart of the monitor, after a crash as after a
    stop, does not end them: the server hears nothing, and SM_STAT names the same state. After a boot of the host it is told."""
    boot_id = "/proc/sys/kernel/random/boot_id"
    with Server("server.programs=nsm", *FAST) as server, Host(OTHER) as remote:
        with nsm.as_kernel() as kernel:
            before = kernel.mon(OTHER).state
        for end in (server.kill, server.stop):
            end()
            server.start()
            with nsm.as_kernel() as kernel:
                assert kernel.stat().state == before
        server.kill()
        with netns.file(boot_id, "00000000-1111-2222-3333-444444444444\n"):
            server.start()
            notice = remote.wait_for(is_notice)
            state = nsm.Notice.decode(notice.decode()).state
            assert state > before and {n.state for n in notices_of(remote)} <= {state}, "the boot, and nothing before it"
            server.kill()


# ---- in ----

@tap.test
def a_notice_frees_the_locks_and_grants_the_waiter():
    """NSM-05b: CRS-01e: given a holder that crashed, its notice releases its lock and the waiter is called back."""
    with Server(*FAST), Host(OTHER) as waiter:
        assert lock_from(CLIENT, "client.example", state=3) == nsm.GRANTED
        with nsm.connect(SERVER, OTHER) as other, nsm.connect(SERVER, CLIENT, "udp") as client:
            assert other.lock("other", block=True) == nsm.BLOCKED
            client.notify("client.example", 5)
            granted = waiter.wait_for(lambda c: c.prog == nsm.NLM and c.proc in (5, 10))
            assert granted.source[0] == SERVER
            assert client.test("client.example") == nsm.DENIED, "the waiter has it"


@tap.test
def the_same_notice_again_changes_nothing():
    """NSM-05d: the notice with long and short name, in any case of letters, repeated: locks taken since the
    first one stay."""
    with Server(*FAST), nsm.connect(SERVER, CLIENT, "udp") as client, \
            nsm.connect(SERVER, OTHER) as other:
        assert client.lock("Client.Example", state=3) == nsm.GRANTED
        client.notify("client.EXAMPLE", 5)
        assert other.test("other") == nsm.GRANTED, "the lock went"
        assert client.lock("Client.Example", state=5) == nsm.GRANTED
        for name in ("client", "CLIENT.example", CLIENT, "client.example"):
            client.notify(name, 5)
        assert other.test("other") == nsm.DENIED, "the new lock stays"
        client.notify("client", 7)
        assert other.test("other") == nsm.GRANTED, "a new state is news"


@tap.test
def a_notice_from_an_unknown_host_changes_nothing():
    """NSM-05e: an unknown name, a known name from another address, a state of 0 or below: no lock is
    released."""
    with Server(*FAST, *DEBUG) as server, nsm.connect(SERVER, CLIENT) as client, \
            nsm.connect(SERVER, OTHER) as other, Host("127.0.0.1") as here:
        assert client.lock("client", state=3) == nsm.GRANTED
        with nsm.as_kernel() as kernel:
            assert kernel.mon("client", priv(1)).ok  # by name: callbacks would be seen
        other.notify("client", 5)
        other.notify(CLIENT, 5)
        other.notify("nobody", 5)
        client.notify("other", 5)
        for state in (0, -1, -2**31, 3):
            client.notify("client", state)
            client.notify(CLIENT, state)
        assert other.test("other") == nsm.DENIED, "the lock is still there"
        for count, address in ((3, OTHER), (1, CLIENT)):
            server.daemon.wait_for_log(f"address={address}", times=count)
        server.daemon.wait_for_log("crash notice from a stranger")
        assert not here.calls_now(), "no registration was called back"


@tap.test
def an_even_state_is_a_host_going_down():
    """NSM-05: its locks are released, as they would be when it is up again."""
    with Server(*FAST), nsm.connect(SERVER, CLIENT) as client, nsm.connect(SERVER, OTHER) as other:
        assert client.lock("client", state=3) == nsm.GRANTED
        client.notify("client", 4)
        assert other.test("other") == nsm.GRANTED


@tap.test
def every_registration_gets_its_callback():
    """NSM-05c, NSM-08: a monitored host restarts; each registration about it is called back, with its own
    private bytes."""
    with Server(*FAST), Host("127.0.0.1") as here, Host("::1") as here6:
        with nsm.as_kernel() as monitor:
            for number in range(1, 6):
                assert monitor.mon("192.0.2.9", priv(number), proc=number).ok
            assert monitor.mon("192.0.2.8", priv(99), proc=99).ok  # about another host
        with nsm.as_kernel(host="::1") as monitor:
            assert monitor.mon("192.0.2.9", priv(6), proc=6, my_name="whoever").ok
        with nsm.connect(SERVER, "192.0.2.9", "udp") as restarted:
            restarted.notify("any.name.will.do", 17)
            restarted.notify("any", 17)
        here6.wait_for(is_status)
        here.wait_for(is_status, times=5)
        with nsm.connect(SERVER, "192.0.2.9", "udp") as restarted:
            restarted.notify("any.name.will.do", 17)  # answered only after what it repeats
        told = [(c.proc, nsm.Status.decode(c.decode())) for h in (here, here6) for c in h.calls_now()]
        assert sorted(told, key=lambda t: t[0]) == [
            (number, nsm.Status(b"192.0.2.9", 17, priv(number))) for number in range(1, 7)]


@tap.test
def a_callback_is_retried_until_it_is_answered():
    """A target that never answers, answers garbage, an error, or late is called again, and delays no other
    target."""
    answers = [hosts.never, hosts.garbage, hosts.system_error, hosts.late(1.5), hosts.answer_void]
    given = []

    def in_turn(call):
        given.append(call)
        return answers[len(given) - 1](call) if len(given) <= len(answers) else hosts.never(call)

    with Server(*FAST, *DEBUG) as server, Host("127.0.0.1", answer=in_turn) as slow, Host("::1") as other:
        for address in ("127.0.0.1", "::1"):
            with nsm.as_kernel(host=address) as monitor:
                assert monitor.mon("192.0.2.9", priv(1)).ok
        with nsm.connect(SERVER, "192.0.2.9", "udp") as restarted:
            restarted.notify("peer", 17)
        assert other.wait_for(is_status).at - slow.wait_for(is_status).at < 1, "one callback does not wait for another"
        slow.wait_for(is_status, times=5)
        server.daemon.wait_for_log("notice delivered", times=2)
        times = [call.at for call in slow.calls_now()]
        for earlier, later in zip(times, times[1:]):
            assert later - earlier >= 0.9, "an attempt owns its time"
        time.sleep(1.2)
        assert len(slow.calls_now()) == 5, "an answered callback is over"


@tap.test
def more_callbacks_than_there_are_reserved_ports():
    """NSM-09a: given 1,500 registrations of this host about one that restarts, and 512 reserved ports: each is
    called, on loopback, from a reserved port."""
    count = 1500
    with Server(*FAST, "log.level=debug") as server, Host("127.0.0.1") as here:
        with nsm.connect(source=nsm.reserved()) as root:
            for number in range(count):
                assert root.mon("192.0.2.9", priv(number), proc=number).ok
        began = time.monotonic()
        with nsm.connect(SERVER, "192.0.2.9", "udp") as restarted:
            restarted.notify("peer", 17)
        server.daemon.wait_for_log("notice delivered", times=count)
        tap.note(f"{count} callbacks to loopback in {time.monotonic() - began:.2f} s")
        calls = [call for call in here.calls_now() if is_status(call)]
        assert {call.proc for call in calls} == set(range(count))
        assert all(call.source[1] < 1024 and call.source[0] == "127.0.0.1" for call in calls)


@tap.test
def unmon_ends_the_callbacks():
    """Given a callback that is being retried, UNMON ends it."""
    with Server(*FAST), Host("127.0.0.1", answer=hosts.never) as deaf, nsm.as_kernel() as monitor:
        assert monitor.mon("192.0.2.9").ok
        with nsm.connect(SERVER, "192.0.2.9", "udp") as restarted:
            restarted.notify("peer", 17)
        deaf.wait_for(is_status)
        monitor.unmon("192.0.2.9")
        before = len(deaf.calls_now())
        time.sleep(2.5)
        assert len(deaf.calls_now()) <= before + 1


@tap.test
def a_callback_that_was_due_survives_a_crash():
    """Given a callback not yet answered when the server is killed: it is made after the restart, with the
    state of that time, and that state is still recorded."""
    with Server(*FAST) as server, Host("127.0.0.1", answer=hosts.never) as deaf, Host("192.0.2.9") as peer:
        with nsm.as_kernel() as monitor:
            assert monitor.mon("192.0.2.9", priv(4)).ok
            assert monitor.mon("192.0.2.8", priv(5), proc=5).ok  # has never restarted
        with nsm.connect(SERVER, "192.0.2.9", "udp") as restarted:
            restarted.notify("peer", 17)
        deaf.wait_for(is_status)
        server.kill()
        deaf.forget()
        deaf.answer = hosts.answer_void
        server.start()
        peer.wait_for(is_notice)
        call = deaf.wait_for(is_status)
        assert nsm.Status.decode(call.decode()) == nsm.Status(b"192.0.2.9", 17, priv(4))
        with nsm.connect(SERVER, "192.0.2.9", "udp") as restarted:
            restarted.notify("peer", 17)
        time.sleep(0.5)
        assert len([c for c in deaf.calls_now() if is_status(c)]) == 1, "state 17 is known"


# ---- out ----

@tap.test
def a_restart_is_told_in_the_long_and_the_short_name():
    """NSM-07, NOT-01: SM_NOTIFY with our state, from the address the client used, over TCP, long name
    first."""
    with Server(*FAST) as server, Host(CLIENT) as host, Host(OTHER) as other:
        assert lock_from(CLIENT, "client", "192.0.2.4") == nsm.GRANTED
        assert lock_from(OTHER, "other", "192.0.2.5", svid=2, fh=b"another") == nsm.GRANTED
        daemon = server.restart()
        line = daemon.wait_for_log("clients told of our restart")
        assert "delivered=2 failing=0" in line, line
        with nsm.connect() as monitor:
            state = monitor.stat().state
        for played, address in ((host, "192.0.2.4"), (other, "192.0.2.5")):
            assert notices_of(played) == [nsm.Notice(US, state), nsm.Notice(b"server", state)]
            for call in played.calls_now():
                assert call.transport == "tcp" and call.source[0] == address, call
            assert all(lookup.source[0] == address for lookup in played.lookups)


@tap.test
def a_restart_is_told_over_ipv6():
    """The same, to an IPv6 client: rpcbind version 4, TCP, from the address it used."""
    with Server(*FAST) as server, Host(CLIENT6) as host:
        assert lock_from(CLIENT6, "client", SERVER6) == nsm.GRANTED
        server.restart().wait_for_log("clients told of our restart")
        assert [n.mon_name for n in notices_of(host)] == [US, b"server"]
        assert all(c.transport == "tcp" and c.source[0] == SERVER6 for c in host.calls_now())


@tap.test
def a_name_without_a_dot_is_told_once():
    with Server(*FAST, "server.name=plain") as server, Host(CLIENT) as host:
        assert lock_from(CLIENT, "client") == nsm.GRANTED
        server.restart().wait_for_log("clients told of our restart")
        assert [n.mon_name for n in notices_of(host)] == [b"plain"]


@tap.test
def udp_where_the_peer_offers_no_tcp():
    """NOT-01c: given an rpcbind that knows only UDP, both names arrive by UDP, within the one attempt."""
    for address, server_address in ((CLIENT, SERVER), (CLIENT6, SERVER6)):
        with Server(*FAST) as server, Host(address, offers=("udp",)) as host:
            assert lock_from(address, "client", server_address) == nsm.GRANTED
            line = server.restart().wait_for_log("clients told of our restart")
            assert "delivered=1 failing=0" in line, line
            assert [n.mon_name for n in notices_of(host)] == [US, b"server"]
            assert all(c.transport == "udp" and c.source[0] == server_address
                       for c in host.calls_now())


@tap.test
def a_registered_tcp_port_that_refuses_is_no_tcp():
    """NOT-01: given a TCP port that rpcbind names and that is closed, UDP is tried in the same attempt."""
    class Half(Host):
        def _open(self, transport, port, handler):
            if transport == "tcp" and handler == self._on_service:
                return port  # registered, but not there
            return super()._open(transport, port, handler)

    with Server(*FAST) as server, Half(CLIENT) as host:
        assert lock_from(CLIENT, "client") == nsm.GRANTED
        line = server.restart().wait_for_log("clients told of our restart")
        assert "delivered=1 failing=0" in line, line
        assert [c.transport for c in host.calls_now()] == ["udp", "udp"]


@tap.test
def an_rpcbind_that_speaks_one_transport_only():
    """A peer whose rpcbind answers only TCP, or only UDP, is notified all the same."""
    for speaks in (("tcp",), ("udp",)):
        with Server("notify.timeout=3") as server, Host(CLIENT, rpcbind=speaks) as host:
            assert lock_from(CLIENT, "client") == nsm.GRANTED
            line = server.restart().wait_for_log("clients told of our restart")
            assert "delivered=1 failing=0" in line, line
            assert [n.mon_name for n in notices_of(host)] == [US, b"server"]


@tap.test
def a_peer_that_cannot_be_told_is_crashed_after_three_attempts():
    """NOT-03a: given a holder that never answers and notify.on_failure=release, its lock is released after three attempts, and grace ends."""
    with Server(*FAST, "notify.on_failure=release") as server, Host(CLIENT, answer=hosts.never) as deaf:
        assert lock_from(CLIENT, "client") == nsm.GRANTED
        began = time.monotonic()
        daemon = server.restart()
        with nsm.connect(SERVER, OTHER) as other:
            assert other.lock("other", fh=b"else") == nsm.DENIED_GRACE
            assert "clients=1 locks_lost=1" in daemon.wait_for_log("are given up as crashed")
            daemon.wait_for_log("grace period is over")
            assert other.lock("other") == nsm.GRANTED
        tap.note(f"a dead client's lock is free {time.monotonic() - began:.1f} s after the start "
                 "(3 attempts of 1 s)")
        assert len([c for c in deaf.calls_now() if is_notice(c)]) >= 3
        deaf.answer = hosts.answer_void  # it hears of it at last, in the background
        deaf.forget()
        deaf.wait_for(is_notice)


@tap.test
def a_peer_that_cannot_be_told_may_be_kept():
    """NOT-03: with notify.on_failure=keep, the default, the lock stays reclaimable until grace ends, and the log warns."""
    assert "\non_failure=keep\n" in run("--config", "/dev/null", "--print-config")[1]
    with Server(*FAST, "notify.on_failure=keep", "grace.seconds=6", *DEBUG) as server, \
            Host(CLIENT, answer=hosts.never):
        assert lock_from(CLIENT, "client") == nsm.GRANTED
        daemon = server.restart()
        daemon.wait_for_log("notice failed", times=3)
        line = daemon.wait_for_log("its locks are kept until grace ends client=client")
        assert " warn " in line and "locks=1" in line, line
        assert "client dead" in daemon.wait_for_log("keep their locks until grace ends clients=1 locks=1")
        with nsm.connect(SERVER, CLIENT) as client:
            assert client.lock("client", reclaim=True) == nsm.GRANTED
        with nsm.connect(SERVER, OTHER) as other:
            assert other.test("other") == nsm.DENIED


@tap.test
def late_answers_and_strangers_answers_do_not_count():
    """An answer after the attempt's time does not count; the next attempt's answer does."""
    with Server(*FAST, *DEBUG) as server, Host(CLIENT, answer=hosts.late(1.3), offers=("udp",)) as host:
        assert lock_from(CLIENT, "client") == nsm.GRANTED
        daemon = server.restart()
        daemon.wait_for_log("notice failed", times=2)
        host.answer = hosts.answer_void
        assert "client=client" in daemon.wait_for_log("notice delivered")


@tap.test
def one_dead_peer_delays_no_other():
    """NOT-02a: of three peers one is silent: the others are notified at once."""
    with Server("notify.timeout=5") as server, Host(CLIENT, answer=hosts.never) as deaf, \
            Host(OTHER) as other, Host("192.0.2.4") as third:
        for address in (CLIENT, OTHER, "192.0.2.4"):
            assert lock_from(address, "c", fh=address.encode()) == nsm.GRANTED
        server.restart()
        first = deaf.wait_for(is_notice).at
        for host in (other, third):
            assert host.wait_for(is_notice, times=2).at - first < 2.5, "it waited for a dead one"


# ---- names ----

@tap.test
def a_host_known_by_name_is_resolved_off_the_path():
    """NSM-09: given SM_MON for a name, its address is looked up: notices from it count, and ours go there."""
    with netns.names(f"{OTHER} peer.example peer"), Server(*FAST) as server, Host(OTHER) as peer, \
            Host("127.0.0.1") as registrant:
        with nsm.as_kernel() as monitor:
            for number, name in enumerate(("peer.example", "PEER", "missing.example"), 1):
                assert monitor.mon(name, priv(number), proc=number).ok

        def believed():
            with nsm.connect(SERVER, OTHER, "udp") as sender:
                sender.notify("peer", 7)
            return len(registrant.calls_now()) >= 2

        wait_until(believed, "the name is resolved")
        told = {nsm.Status.decode(c.decode()) for c in registrant.calls_now()}
        assert told == {nsm.Status(b"peer.example", 7, priv(1)), nsm.Status(b"PEER", 7, priv(2))}
        line = server.restart().wait_for_log("clients told of our restart")
        assert "delivered=2 failing=1" in line, line
        assert {n.mon_name for n in notices_of(peer)} == {US, b"server"}


@tap.test
def each_address_of_a_name_is_tried():
    """NOT-01: given a name with two addresses, of which one answers, whichever that is: the host is told within two
    attempts."""
    with netns.names(f"{OTHER} twice.example\n192.0.2.8 twice.example"):
        for address in (OTHER, "192.0.2.8"):
            with Server(*FAST, *DEBUG) as server:
                with nsm.as_kernel() as monitor:
                    assert monitor.mon("twice.example").ok
                with Host(address) as peer:
                    line = server.restart().wait_for_log("notice delivered")
                    assert peer.wait_for(is_notice) and ("attempts=1" in line or "attempts=2" in line), line


@tap.test
def an_address_is_a_name():
    """SM_MON of "192.0.2.3" and of an IPv6 address, as Linux sends it: notices with any name from there
    count."""
    with Server(*FAST) as server, Host("127.0.0.1") as registrant, Host(OTHER) as peer, Host(CLIENT6) as peer6:
        with nsm.as_kernel() as monitor:
            assert monitor.mon(OTHER, priv(4), proc=4).ok
            assert monitor.mon(CLIENT6, priv(6), proc=6).ok
        with nsm.connect(SERVER, OTHER, "udp") as sender:
            sender.notify("whatever.example", 9)
        with nsm.connect(SERVER6, CLIENT6, "udp") as sender:
            sender.notify("something", 11)
        registrant.wait_for(is_status, times=2)
        told = {nsm.Status.decode(c.decode()) for c in registrant.calls_now()}
        assert told == {nsm.Status(OTHER.encode(), 9, priv(4)),
                        nsm.Status(CLIENT6.encode(), 11, priv(6))}, told
        server.restart().wait_for_log("clients told of our restart")
        assert len(notices_of(peer)) == 2 and len(notices_of(peer6)) == 2


@contextlib.contextmanager
def hanging_resolver():
    """A name server that takes every question and never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 53))
        with netns.file("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n"), \
                netns.file("/etc/nsswitch.conf", "hosts: dns\n"):
            yield sink


class SlowResolver:
    """A name server that says nothing until it is told to, and then answers each question after a while: every name
    is the given address."""

    def __init__(self, address):
        self.address, self.delay = socket.inet_aton(address), None

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.sock = self.stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.sock.bind(("127.0.0.1", 53))
        self.stack.enter_context(
            netns.file("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n"))
        self.stack.enter_context(netns.file("/etc/nsswitch.conf", "hosts: dns\n"))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *failure):
        self.sock.sendto(b"", ("127.0.0.1", 53))  # ends the thread
        self.thread.join()
        self.stack.__exit__(*failure)

    def _run(self):
        while True:
            question, source = self.sock.recvfrom(512)
            if not question:
                return
            if self.delay is not None:
                threading.Timer(self.delay, self._answer, (question, source)).start()

    def _answer(self, question, source):
        end = question.index(b"\0", 12) + 5
        is_a = question[end - 4:end - 2] == b"\0\1"
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + self.address if is_a else b""
        with contextlib.suppress(OSError):
            self.sock.sendto(question[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_a else b"\0\0") + bytes(4) +
                             question[12:end] + answer, source)


@tap.test
def the_lookup_is_part_of_an_attempts_time():
    """NOT-01a: an attempt has 3 s. The lookup takes 2 of them and the host answers after another 2, so the attempt
    fails; the next one knows the address and succeeds."""
    with SlowResolver(OTHER) as resolver, Server("notify.timeout=3", *DEBUG) as server, \
            Host(OTHER, answer=hosts.late(2)):
        with nsm.as_kernel() as monitor:
            assert monitor.mon("slow.example").ok
        resolver.delay = 2
        line = server.restart().wait_for_log("notice delivered")
        assert "attempts=1" not in line, line


@tap.test
def an_address_that_comes_late_is_learned():
    """NSM-09: each attempt ends after 1 s and a lookup takes 2 s. What it finds serves the next attempt, else no
    notice could ever be delivered."""
    with SlowResolver(OTHER) as resolver, Server(*FAST, *DEBUG) as server, Host(OTHER) as host:
        with nsm.as_kernel() as monitor:
            assert monitor.mon("slow.example").ok
        resolver.delay = 2
        server.restart().wait_for_log("notice delivered")
        assert host.wait_for(is_notice)


def slowest(monitor, count=200):
    worst = 0
    for _ in range(count):
        began = time.monotonic()
        monitor.stat()
        worst = max(worst, time.monotonic() - began)
    return worst * 1000


@tap.test
def a_resolver_that_hangs_delays_no_request_and_no_stop():
    """NSM-09e: Given 300 names and a name server that never answers: SM_STAT, SM_MON, a restart and a stop are as quick
    as before."""
    with hanging_resolver() as sink, Server(*FAST) as server, Host(CLIENT) as host:
        with nsm.as_kernel() as monitor:
            idle = slowest(monitor)
            for number in range(300):
                assert monitor.mon(f"name{number}.example").ok
            sink.settimeout(5)
            sink.recv(512)  # it is being asked
            assert monitor.mon(CLIENT).ok
            busy = slowest(monitor)
        tap.note(f"SM_STAT, the slowest of 200: {idle:.2f} ms idle, {busy:.2f} ms with 300 lookups "
                 "that hang")
        server.restart()
        host.wait_for(is_notice)
        with nsm.connect() as monitor:
            monitor.stat()
            again = slowest(monitor)
        tap.note(f"after a restart, 300 notices waiting for the resolver: {again:.2f} ms")
        began = time.monotonic()
        server.stop()
        took = time.monotonic() - began
        tap.note(f"stopped in {took:.1f} s with lookups that hang")
        assert took < 10, "the stop waited for the resolver (150 s)"
        server.start()


# ---- what is logged ----

@tap.test
def the_log_tells_the_result_of_each_notice():
    """NOT-05: each notice is a line at debug, with host, address, attempts and time; a summary is logged at
    info."""
    for level, each in (("debug", True), ("info", False)):
        with Server(*FAST, f"log.level={level}") as server, Host(CLIENT):
            assert lock_from(CLIENT, "client.example") == nsm.GRANTED
            daemon = server.restart()
            daemon.wait_for_log("clients told of our restart")
            lines = [line for line in daemon.log().splitlines() if "notice delivered" in line]
            assert bool(lines) == each
            for line in lines:
                assert "client=client.example" in line and f"address={CLIENT}" in line, line
                assert "attempts=1" in line and "ms=" in line, line


if __name__ == "__main__":
    netns.enter()
    for address in ("192.0.2.4", "192.0.2.5", "192.0.2.8", "192.0.2.9"):
        netns.run("ip", "address", "add", address + "/32", "dev", "lo")
    tap.main()

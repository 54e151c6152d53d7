#!/usr/bin/env python3
"""Attacks on the RPC layer: take all connections, all turns, all kept answers; aim our packets at others (SEC-02,
SEC-03, SEC-05, SEC-06, SEC-08)."""
import os
import signal
import socket
import struct
import subprocess
import time

from holdfast_test import crowd, netns, nlm, rpc, rpcbind, tap
from holdfast_test.daemon import PORT, Daemon
from holdfast_test.host import Host, never

NSM = 100024
SERVER, ATTACKER, VICTIM = "192.0.2.1", "192.0.2.2", "192.0.2.3"
HEADERS = 28  # IP and UDP
LOCK = nlm.Lock(b"victim.example", b"file", b"1@victim", 1, 0, 0)


def open_files(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


def cpu_seconds(daemon):
    with open(f"/proc/{daemon.process.pid}/stat", encoding="ascii") as stat:
        return sum(int(ticks) for ticks in stat.read().rsplit(")", 1)[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")


def test_msg(xid):
    return rpc.call_message(xid, nlm.PROG, 4, nlm.TEST + nlm.MSG, nlm.test_args(4, b"cook", LOCK))


class Silent:
    """A host that answers nothing, and counts what is sent to its rpcbind, or to another port."""

    def __init__(self, address, port=rpcbind.PORT):
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((address, port))
        self.udp.setblocking(False)
        self.tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind((address, port))
        self.tcp.listen(1)
        self.tcp.setblocking(False)
        self.datagrams = self.bytes = self.connections = 0

    def watch(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for sock, read in ((self.udp, lambda s: s.recv(65536)), (self.tcp, lambda s: s.accept()[0].close())):
                try:
                    data = read(sock)
                except BlockingIOError:
                    continue
                if data is None:
                    self.connections += 1
                else:
                    self.datagrams += 1
                    self.bytes += len(data) + HEADERS
            time.sleep(0.005)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.udp.close()
        self.tcp.close()


@tap.test
def all_connections_for_one_host():
    """Given 600 connections from one host, more than there can be, a silent connection of another host stays."""
    with Daemon(max_files=512), rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as victim:
        assert victim.call(NSM, 1, 0).status == rpc.SUCCESS
        attackers = [rpc.Tcp(SERVER, PORT, source=(ATTACKER, 0)) for _ in range(600)]
        with rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as newcomer:
            assert newcomer.call(NSM, 1, 0).status == rpc.SUCCESS
        assert victim.call(NSM, 1, 0).status == rpc.SUCCESS
        for attacker in attackers:
            attacker.close()


@tap.test
def more_connections_than_one_host_may_have():
    """Given a limit for each host, the host's own oldest connection is closed."""
    with Daemon("limits.connections_per_host=16"), rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as victim:
        attackers = [rpc.Tcp(SERVER, PORT, source=(ATTACKER, 0)) for _ in range(17)]
        assert attackers[-1].call(NSM, 1, 0).status == rpc.SUCCESS
        assert attackers[0].is_closed()
        assert attackers[1].call(NSM, 1, 0).status == rpc.SUCCESS
        assert victim.call(NSM, 1, 0).status == rpc.SUCCESS
        for attacker in attackers:
            attacker.close()


@tap.test
def no_file_left_for_a_connection():
    """SEC-02: given a process that may open no file more, and a host that connects again and again, the daemon serves its other
    clients, by UDP and by connections old and new, and stops in order. (libuv's loop that accepts connections never ended.)"""
    with Daemon() as daemon, rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as victim:
        assert victim.call(NSM, 1, 0).status == rpc.SUCCESS
        few = open_files(daemon) + 4
        subprocess.run(["prlimit", "--pid", str(daemon.process.pid), f"--nofile={few}:{few}"], check=True)
        attackers = []
        for _ in range(100):
            attackers.append(socket.socket())
            attackers[-1].bind((ATTACKER, 0))
            attackers[-1].connect((SERVER, PORT))
        daemon.wait_for_log("cannot accept a connection")
        with rpc.Udp(SERVER, PORT, source=(VICTIM, 0)) as datagrams:
            assert datagrams.call(NSM, 1, 0).status == rpc.SUCCESS
        assert victim.call(NSM, 1, 0).status == rpc.SUCCESS
        with rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as newcomer:
            assert newcomer.call(NSM, 1, 0).status == rpc.SUCCESS
        for attacker in attackers:
            attacker.close()


@tap.test
def no_file_left_at_all():
    """Given a process without a connection that may open no file more, one that comes is served when it may again."""
    with Daemon() as daemon:
        few = open_files(daemon)
        subprocess.run(["prlimit", "--pid", str(daemon.process.pid), f"--nofile={few}:1024"], check=True)
        with rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as client:
            client.send(rpc.call_message(7, NSM, 1, 0))
            daemon.wait_for_log("cannot accept a connection")
            used = cpu_seconds(daemon)
            assert client.is_silent(1)
            assert cpu_seconds(daemon) - used < 0.5, "it is busy with a connection that it cannot accept"
            subprocess.run(["prlimit", "--pid", str(daemon.process.pid), "--nofile=1024:1024"], check=True)
            assert client.reply_to(7).status == rpc.SUCCESS


@tap.test
def a_socket_with_an_error():
    """RPC-02: given an error on the UDP socket, as when a tool aborts it, the daemon goes on to read. (libuv stops at the first.)"""
    with Daemon(), rpc.Udp(SERVER, PORT, source=(VICTIM, 0)) as client:
        done = subprocess.run(["ss", "--kill", "--udp", "--all", "sport", "=", str(PORT)], capture_output=True, text=True, check=True)
        if str(PORT) not in done.stdout:
            raise tap.Skip("the kernel cannot abort sockets")
        for _ in range(2):  # a datagram may be lost with the error
            client.send(rpc.call_message(7, NSM, 1, 0))
        assert client.reply_to(7).status == rpc.SUCCESS


@tap.test
def another_hosts_answers_pushed_out():
    """Given 70,000 requests from another host in between, a repeated LOCK is answered and not executed again:
    executed after the UNLOCK of the client, it would leave a lock that stays for ever."""
    with Daemon("grace.seconds=0") as daemon, rpc.Udp(SERVER, PORT, source=(VICTIM, 0)) as victim, \
            rpc.Tcp(SERVER, PORT, source=(ATTACKER, 0)) as attacker:
        del daemon
        lock = nlm.lock_args(4, b"c", LOCK)
        for xid, proc, args in ((1, nlm.LOCK, lock), (2, nlm.UNLOCK, nlm.unlock_args(4, b"c", LOCK))):
            assert victim.call(nlm.PROG, 4, proc, args, xid=xid).status == rpc.SUCCESS
        other = nlm.unlock_args(4, b"c", LOCK.but(caller=b"attacker", fh=b"another"))
        for first in range(0, 70000, 200):
            attacker.send_raw(b"".join(rpc.record(rpc.call_message(first + i, nlm.PROG, 4, nlm.UNLOCK, other))
                                       for i in range(200)))
            for _ in range(200):
                attacker.receive()
        assert victim.call(nlm.PROG, 4, nlm.LOCK, lock, xid=1).status == rpc.SUCCESS
        args = nlm.test_args(4, b"c", LOCK.but(caller=b"third", oh=b"other"))
        reply = victim.call(nlm.PROG, 4, nlm.TEST, args)
        assert nlm.decode_result(nlm.TEST, 4, reply.results).stat == "GRANTED"


@tap.test
def one_datagram_many_packets():
    """Given one TEST_MSG with the address of a host that never answers: at most three times its size goes there.
    (Seven packets did.)"""
    message = test_msg(1)
    with Daemon() as daemon, Silent(VICTIM) as silent, rpc.Udp(SERVER, PORT, source=(VICTIM, 0)) as forged:
        del daemon
        forged.send(message)
        silent.watch(7)
        replied = len(forged.receive()) + HEADERS
        assert forged.is_silent()
        assert silent.connections == 0, f"{silent.connections} connections"
        sent, allowed = replied + silent.bytes, 3 * (len(message) + HEADERS)
        tap.note(f"{silent.datagrams + 1} packets, {sent} bytes for {len(message) + HEADERS}")
        assert sent <= allowed, f"{sent} bytes, {allowed} allowed"


@tap.test
def all_files_by_messages():
    """Given 9,000 TEST_MSG from one silent address, a few files are in use, and clients are served. (Each had
    a connection of its own.)"""
    with Daemon() as daemon, Silent(VICTIM) as silent, rpc.Udp(SERVER, PORT, source=(VICTIM, 0)) as forged:
        before = open_files(daemon)
        most = 0
        for burst in range(30):
            for i in range(300):
                forged.send(test_msg(burst * 300 + i))
            silent.watch(0.1)
            most = max(most, open_files(daemon))
        with rpc.Tcp(SERVER, PORT, source=(ATTACKER, 0)) as client:
            assert client.call(NSM, 1, 0).status == rpc.SUCCESS
        silent.watch(2)
        tap.note(f"{most - before} files more, {silent.datagrams} datagrams, {silent.connections} connections")
        assert most - before < 20
        assert silent.connections == 0 and silent.datagrams <= 20


@tap.test
def all_files_by_messages_of_many_addresses():
    """Given TEST_MSG from 5,000 addresses that never answer, at most some hundred files are in use."""
    crowd.join_addresses()
    with Daemon() as daemon:
        before, most = open_files(daemon), 0
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with sock:
            for number in range(5000):
                info = struct.pack("=I4s4s", 0, socket.inet_aton(crowd.address(crowd.MORTAL, number)), bytes(4))
                sock.sendmsg([test_msg(number)], [(socket.IPPROTO_IP, crowd.IP_PKTINFO, info)], 0,
                             (crowd.SERVER, PORT))
                if number % 100 == 0:
                    time.sleep(0.01)
        crowd.bury()  # from here on nothing comes back from these addresses, not even a refusal
        for _ in range(40):
            most = max(most, open_files(daemon))
            time.sleep(0.1)
        with rpc.Tcp(SERVER, PORT, source=(ATTACKER, 0)) as client:
            assert client.call(NSM, 1, 0).status == rpc.SUCCESS
        tap.note(f"{most - before} files more")
        assert most - before <= 600


class Granted:
    """A lock manager that answers nothing, and remembers the cookies of the GRANTED callbacks it gets."""

    def __init__(self, address):
        self.host = Host(address, answer=never)

    def __enter__(self):
        self.host.__enter__()
        return self

    def __exit__(self, *_):
        self.host.__exit__()

    def cookie(self):
        call = self.host.wait_for(lambda call: call.prog == nlm.PROG and call.proc in (nlm.GRANTED, nlm.GRANTED + nlm.MSG))
        return nlm.decode_test_args(4, call.args)[0]


def lock_call(client, proc, lock, **fields):
    args = nlm.unlock_args(4, b"c", lock) if proc == nlm.UNLOCK else nlm.lock_args(4, b"c", lock, **fields)
    return nlm.decode_result(proc, 4, client.call(nlm.PROG, 4, proc, args).results).stat


@tap.test
def a_grant_refused_in_anothers_name():
    """SEC-07: a client waits by procedure 5, gets its lock, and is being told. A forged GRANTED_RES that denies it, with
    every cookie that follows one the attacker was sent, gives the lock to no second owner."""
    bait = LOCK.but(caller=b"attacker", fh=b"bait", oh=b"bait")
    with Daemon("grace.seconds=0"), Granted(ATTACKER) as seen, Granted(VICTIM) as told, \
            rpc.Tcp(SERVER, PORT, source=(ATTACKER, 0)) as attacker, rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as victim, \
            rpc.Udp(SERVER, PORT, source=(VICTIM, 0)) as forged:
        assert lock_call(attacker, nlm.LOCK, LOCK.but(caller=b"attacker", oh=b"1")) == "GRANTED"
        assert lock_call(victim, nlm.LOCK, LOCK, block=True) == "BLOCKED"
        assert lock_call(attacker, nlm.LOCK, bait) == "GRANTED"
        attacker.send(rpc.call_message(1, nlm.PROG, 4, nlm.LOCK + nlm.MSG,
                                       nlm.lock_args(4, b"c", bait.but(oh=b"other"), block=True)))
        attacker.receive()
        assert lock_call(attacker, nlm.UNLOCK, bait) == "GRANTED"
        first = int.from_bytes(seen.cookie(), "big")
        assert lock_call(attacker, nlm.UNLOCK, LOCK.but(caller=b"attacker", oh=b"1")) == "GRANTED"
        told.cookie()
        for number in range(first + 1, first + 100):
            cookie = number.to_bytes(9, "big")[-8:]
            forged.send(rpc.call_message(number & 0xffff, nlm.PROG, 4, nlm.GRANTED + nlm.RES, nlm.res(cookie, "DENIED")))
            forged.receive()
        assert lock_call(attacker, nlm.LOCK, LOCK.but(caller=b"attacker", oh=b"2")) == "DENIED"


@tap.test
def callers_from_other_networks():
    """Given access.allow, other networks are refused on both transports; loopback is not."""
    with Daemon(f"access.allow={ATTACKER}/32,2001:db8::/32") as daemon:
        del daemon
        with rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as denied:
            assert denied.is_closed()
        with rpc.Udp(SERVER, PORT, source=(VICTIM, 0)) as denied:
            denied.send(rpc.call_message(1, NSM, 1, 0))
            assert denied.is_silent()
        for host, source in ((SERVER, ATTACKER), ("2001:db8::1", "2001:db8::2"), ("127.0.0.1", "127.0.0.1")):
            for transport in rpc.TRANSPORTS.values():
                with transport(host, PORT, source=(source, 0)) as client:
                    assert client.call(NSM, 1, 0).status == rpc.SUCCESS


@tap.test
def callers_by_udp_or_from_user_ports():
    """Given access.udp=no and access.reserved_ports=yes, only TCP from reserved ports is served; loopback is."""
    with Daemon("access.udp=no", "access.reserved_ports=yes") as daemon:
        del daemon
        with rpc.Udp(SERVER, PORT, source=(ATTACKER, 700)) as denied:
            denied.send(rpc.call_message(1, NSM, 1, 0))
            assert denied.is_silent()
        with rpc.Tcp(SERVER, PORT, source=(ATTACKER, 0)) as denied:
            assert denied.is_closed()
        with rpc.Tcp(SERVER, PORT, source=(ATTACKER, 700)) as client:
            assert client.call(NSM, 1, 0).status == rpc.SUCCESS
        for transport in rpc.TRANSPORTS.values():
            with transport("127.0.0.1", PORT) as client:
                assert client.call(NSM, 1, 0).status == rpc.SUCCESS


@tap.test
def a_reload_with_many_locks():
    """SEC-05: SIGHUP logs the state with its digest, which looks at every lock, only where there are few: with more than 10,000 it
    would stall all clients."""
    with Daemon("grace.seconds=0") as daemon, rpc.Tcp(SERVER, PORT, source=(ATTACKER, 0)) as client:
        assert lock_call(client, nlm.LOCK, LOCK) == "GRANTED"
        daemon.send_signal(signal.SIGHUP)
        assert "digest=" in daemon.wait_for_log("durable now")
        for first in range(0, 10200, 200):
            client.send_raw(b"".join(rpc.record(rpc.call_message(first + i, nlm.PROG, 4, nlm.LOCK, nlm.lock_args(
                4, b"c", LOCK.but(fh=b"%d" % (first + i), oh=b"%d" % (first % 400), length=1)))) for i in range(200)))
            for _ in range(200):
                client.receive()
        daemon.send_signal(signal.SIGHUP)
        line = daemon.wait_for_log("durable now", 2)
        assert "locks=10201" in line and "digest=" not in line, line


if __name__ == "__main__":
    netns.enter()
    tap.main()

#!/usr/bin/env python3
"""Clients that use UDP only: honest ones that lose packets are called back in time, and a forged source is sent at most
three bytes for each byte that came from its address (SEC-03)."""
import contextlib
import socket
import struct
import time

from holdfast_test import crowd, netns, nlm, nsm, rpc, tap
from holdfast_test.daemon import PORT, Daemon, wait_until
from holdfast_test.host import Host
from holdfast_test.meter import PACKET_OTHERHOST, Meter
from holdfast_test.xdr import Encoder

SERVER = crowd.SERVER
HOLDER = "192.0.2.2"


def lock_of(number):
    """As a Linux client names it: a handle of 28 bytes, the process and the host as owner."""
    return nlm.Lock(b"client%03d.example" % number, b"file%03d" % number + bytes(21), b"%d@client%03d" % (1000 + number, number),
                    number, 0, 0)


def as_linux(lock):
    """The credentials that a Linux client sends with every request."""
    return {"cred": rpc.auth_sys(lock.caller.decode(), gids=range(1))}


def stat(client, proc, lock, **fields):
    args = nlm.unlock_args(4, b"cook", lock) if proc == nlm.UNLOCK else nlm.lock_args(4, b"cook", lock, **fields)
    return nlm.decode_result(proc, 4, client.call(nlm.PROG, 4, proc, args, **as_linux(lock)).results).stat


class Client(Host):
    """A lock manager that takes every lock it is told of, behind a network that loses the first lookups and calls, or
    their answers: to the server that is the same."""

    def __init__(self, address, lost_lookups=0, lost_calls=0, verdict="GRANTED", **offers):
        super().__init__(address, answer=self.take, **offers)
        self.lost_lookups, self.lost_calls, self.verdict = lost_lookups, lost_calls, verdict
        self.told = []  # what it has answered

    def _on_rpcbind(self, call):
        reply = super()._on_rpcbind(call)
        self.lost_lookups -= 1
        return None if self.lost_lookups >= 0 else reply

    def take(self, call):
        self.lost_calls -= 1
        if self.lost_calls >= 0:
            return None
        self.told.append(call)
        if call.proc != nlm.GRANTED:
            return rpc.success_message(call.xid)
        return rpc.success_message(call.xid, nlm.res(nlm.decode_test_args(4, call.args)[0], self.verdict))

    def wait_until_told(self):
        self.wait_for(lambda _call: self.told)


class Held:
    """Files that the holder has locked; each is given away by a call."""

    def __init__(self):
        self.client = rpc.Tcp(SERVER, PORT, source=(HOLDER, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def take(self, lock):
        assert stat(self.client, nlm.LOCK, lock.but(caller=b"holder")) == "GRANTED"

    def give(self, lock):
        assert stat(self.client, nlm.UNLOCK, lock.but(caller=b"holder")) == "GRANTED"

    def finds_locked(self, lock):
        return stat(self.client, nlm.LOCK, lock.but(caller=b"holder", oh=b"second")) == "DENIED"


# ---- honest clients ----

# Packets lost (questions to rpcbind, callbacks). One LOCK pays for each of these: with one packet in twenty lost on every
# way, 998 of 1,000 clients that have sent nothing but that LOCK are told in the first attempt.
LOSSES = ((0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 1))


@tap.test
def a_client_that_loses_packets_is_told_of_its_lock():
    """SEC-03: given clients whose only datagram ever is one LOCK that waits, and a network that loses some of our packets or
    of their answers: each is told within the first attempt and has the lock, and was sent no more than three times what it sent."""
    locks = [lock_of(i) for i in range(len(LOSSES))]
    with contextlib.ExitStack() as stack, Daemon("grace.seconds=0"), Meter() as meter, Held() as held:
        clients = [stack.enter_context(Client(crowd.address(crowd.ALIVE, 1 + i), *losses)) for i, losses in enumerate(LOSSES)]
        for client, lock in zip(clients, locks):
            held.take(lock)
            with rpc.Udp(SERVER, PORT, source=(client.address, 0)) as sock:
                assert stat(sock, nlm.LOCK, lock, block=True) == "BLOCKED"
        for lock in locks:
            held.give(lock)
        for client, lock, losses in zip(clients, locks, LOSSES):
            client.wait_until_told()
            calls = client.calls_now()
            assert len({call.xid for call in calls}) == 1, f"{losses}: told by {len(calls)} calls of several attempts"
            assert held.finds_locked(lock), losses
            out, came = meter.sent(SERVER, client.address), meter.sent(client.address, SERVER)
            tap.note(f"lost {losses}: {out} bytes out, {came} in: {out / came:.2f}")
            assert out <= 3 * came, losses


@tap.test
def a_client_of_the_message_form_proves_itself():
    """SEC-03: given a client that waits by LOCK_MSG, as macOS does, and takes its lock by GRANTED_RES, which names our cookie: it
    needs no credit from then on, and its next callback is repeated as often as that of any other client."""
    first, second = lock_of(1), lock_of(2)
    with Daemon("grace.seconds=0"), Held() as held, Client(crowd.address(crowd.ALIVE, 1)) as client, \
            rpc.Udp(SERVER, PORT, source=(client.address, 0)) as sock:
        for lock in (first, second):
            held.take(lock)
            sock.call(nlm.PROG, 4, nlm.LOCK + nlm.MSG, nlm.lock_args(4, b"cook", lock, block=True))
            client.wait_for(lambda call, lock=lock: call.proc == nlm.LOCK + nlm.RES, 1 if lock is first else 2)
        held.give(first)
        granted = client.wait_for(lambda call: call.proc == nlm.GRANTED + nlm.MSG)
        sock.call(nlm.PROG, 4, nlm.GRANTED + nlm.RES, nlm.res(nlm.decode_test_args(4, granted.args)[0], "GRANTED"))
        assert held.finds_locked(first)
        client.lost_calls = 1000
        client.forget()
        held.give(second)
        call = client.wait_for(lambda call: call.proc == nlm.GRANTED + nlm.MSG)
        client.wait_for(lambda other: other.xid == call.xid, 4)


# ---- forged sources ----

VICTIMS = {
    "answers nothing": {"lost_lookups": 1000, "lost_calls": 1000},
    "rpcbind answers, the lock manager does not": {"lost_calls": 1000},
    "has no lock manager": {"programs": ()},
    "waits for nothing": {"verdict": "DENIED"},
}


@tap.test
def a_forged_source_is_sent_three_times_at_most():
    """SEC-03: given requests in the names of hosts that sent none, of every kind that makes us call: LOCKs that wait and are
    granted, and messages. Each host is sent at most three bytes for each byte that came with its address."""
    with contextlib.ExitStack() as stack, Daemon("grace.seconds=0", "notify.timeout=2"), Meter() as meter, Held() as held:
        victims = [stack.enter_context(Client(crowd.address(crowd.ALIVE, 1 + i), **kind)) for i, kind in enumerate(VICTIMS.values())]
        forged = [stack.enter_context(rpc.Udp(SERVER, PORT, source=(victim.address, 0))) for victim in victims]
        for turn in range(3):
            locks = [lock_of(10 * turn + number) for number in range(len(victims))]
            for sock, lock in zip(forged, locks):
                held.take(lock)
                args = nlm.lock_args(4, b"c", lock, block=True)
                sock.send(rpc.call_message(3 * turn, nlm.PROG, 4, nlm.LOCK, args))
                sock.receive()
                sock.send(rpc.call_message(3 * turn + 1, nlm.PROG, 4, nlm.TEST + nlm.MSG, nlm.test_args(4, b"c", lock)))
                sock.receive()
            for lock in locks:
                held.give(lock)
            for lock in locks:
                wait_until(lambda lock=lock: not held.finds_locked(lock), "the callbacks are over")
        for what, victim in zip(VICTIMS, victims):
            out, came = meter.sent(SERVER, victim.address), meter.sent(victim.address, SERVER)
            tap.note(f"a host that {what}: {out} bytes out, {came} in: {out / came:.2f}")
            assert out <= 3 * came, what


def forge(source, message, port=1000):
    """One datagram from an address that is not ours, to the server; its size."""
    udp = struct.pack("!HHHH", port, PORT, 8 + len(message), 0) + message
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, socket.IPPROTO_UDP, 0, socket.inet_aton(source),
                         socket.inet_aton(SERVER))
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
        sock.sendto(header + udp, (SERVER, 0))
    return len(header) + len(udp)


NOTICES = {
    "SM_NOTIFY": lambda state: rpc.call_message(state, nsm.PROG, 1, nsm.NOTIFY, nsm.stat_chge("c", state)),
    "FREE_ALL": lambda state: rpc.call_message(state, nlm.PROG, 4, nlm.FREE_ALL, Encoder().string("c").int(state).bytes()),
}


@tap.test
def a_forged_notice_to_a_client_that_answers_nothing():
    """SEC-03, SEC-04: given a client that holds a lock by TCP and has gone silent, a forged notice of the least size makes us ask its
    status monitor: over both transports, and still no more than three bytes leave for each that came. The notice counts; it is
    answered when it is repeated, as a true one is, and that is no question again."""
    for number, (name, message) in enumerate(NOTICES.items(), 1):
        address = crowd.address(crowd.MORTAL, number)
        lock = nlm.Lock(b"c", b"file", b"1@c", 1, 0, 0)
        with Daemon("grace.seconds=0") as daemon, Held() as other, Meter() as came, Meter("grave1", PACKET_OTHERHOST) as out:
            with rpc.Tcp(SERVER, PORT, source=(address, 0)) as client:
                assert stat(client, nlm.LOCK, lock) == "GRANTED"
            time.sleep(0.5)  # the end of the connection
            crowd.bury()
            try:
                before, came_before = out.sent(SERVER, address), came.sent(address, SERVER)
                size = forge(address, message(5))
                wait_until(lambda: not other.finds_locked(lock), "the notice counts")
                time.sleep(1.5)
                asked = out.sent(SERVER, address) - before
                assert came.sent(address, SERVER) - came_before == size
                tap.note(f"{name}: {asked} bytes out for {size}: {asked / size:.2f}")
                assert 120 < asked <= 3 * size, f"{name}: {asked} for {size}"
                forge(address, message(5))
                wait_until(lambda: out.sent(SERVER, address) - before > asked, "the repeat is answered")
                time.sleep(0.5)
                assert out.sent(SERVER, address) - before - asked <= 60, "asked again"
                assert daemon.log().count("client has crashed") == (name == "SM_NOTIFY")
            finally:
                crowd.raise_from_the_dead()


@tap.test
def a_forged_notice_to_a_host_that_is_several_clients():
    """SEC-03, SEC-04: given a host that holds a lock in each of two names, and has gone silent: one forged notice concerns both of
    its clients, and still no more than three bytes leave for each that came."""
    address = crowd.address(crowd.MORTAL, 9)
    locks = [nlm.Lock(name, name, b"1@c", 1, 0, 0) for name in (b"c", b"c.example")]
    with Daemon("grace.seconds=0"), Held() as other, Meter("grave1", PACKET_OTHERHOST) as out:
        with rpc.Tcp(SERVER, PORT, source=(address, 0)) as client:
            for lock in locks:
                assert stat(client, nlm.LOCK, lock) == "GRANTED"
        time.sleep(0.5)  # the end of the connection
        crowd.bury()
        try:
            before = out.sent(SERVER, address)
            size = forge(address, NOTICES["SM_NOTIFY"](5))
            for lock in locks:
                wait_until(lambda lock=lock: not other.finds_locked(lock), "the notice counts")
            time.sleep(4)  # a second question would follow a second after the first is over
            asked = out.sent(SERVER, address) - before
            tap.note(f"{asked} bytes out for {size}: {asked / size:.2f}")
            assert 120 < asked <= 3 * size, f"{asked} for {size}"
        finally:
            crowd.raise_from_the_dead()


if __name__ == "__main__":
    netns.enter()
    crowd.join_addresses()
    for interface in ("all", "lo"):
        with open(f"/proc/sys/net/ipv4/conf/{interface}/rp_filter", "w", encoding="ascii") as file:
            file.write("0")
    tap.main()

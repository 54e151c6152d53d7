#!/usr/bin/env python3
"""Attacks on the model of trust (src/base/trust.h): users of this host that fill or stall the server or pretend to be
root, hosts that use up the calls in flight, forgers that use us as an amplifier (SEC-01, SEC-02, SEC-03)."""
import contextlib
import os
import signal
import subprocess
import sys
import time

from holdfast_test import crowd, netns, nlm, nsm, rpc, rpcbind, tap
from holdfast_test.daemon import PORT, Daemon, wait_until
from holdfast_test.host import Host, never
from world import get

SERVER, ATTACKER, VICTIM = "192.0.2.1", "192.0.2.2", "192.0.2.3"
NOBODY, OTHER_USER = 65534, 12345
HEADERS = 28  # IP and UDP
LOCK = nlm.Lock(b"victim.example", b"file", b"1@victim", 1, 0, 0)


def as_user(uid, script):
    """Runs Python as a user of this host; what it printed."""
    setup = ("import os, socket, time; from holdfast_test import nlm, nsm, rpc, rpcbind; "
             f"os.setgid({uid}); os.setuid({uid})\n")
    done = subprocess.run([sys.executable, "-c", setup + script], stdout=subprocess.PIPE, timeout=100, check=True)
    return done.stdout.decode().split()


def stat(client, proc, lock, **fields):
    args = nlm.unlock_args(4, b"c", lock) if proc == nlm.UNLOCK else nlm.lock_args(4, b"c", lock, **fields)
    return nlm.decode_result(proc, 4, client.call(nlm.PROG, 4, proc, args).results).stat


def invented():
    """How many clients there are that a user has invented."""
    return sum(client["name"].startswith("invented") for client in get("clients")["clients"])


@contextlib.contextmanager
def users_may_bind_from(port):
    """As where the system lets users bind ports from this one."""
    path = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
    with open(path, encoding="ascii") as file:
        before = file.read()
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(str(port))
        yield
    finally:
        with open(path, "w", encoding="ascii") as file:
            file.write(before)


# ---- users of this host ----

@tap.test
def all_clients_by_one_user():
    """SEC-02: a user locks as many clients as he can invent, by both transports, from any loopback address: he gets what
    one host gets, another user gets as much, and a client of the network is served."""
    script = """
granted = 0
for transport, address in ((rpc.Tcp, "127.0.0.1"), (rpc.Tcp, "127.0.0.2"), (rpc.Udp, "127.0.0.1"), (rpc.Udp, "127.0.0.3")):
    with transport("127.0.0.1", 4045, source=(address, 0)) as client:
        for number in range(40):
            lock = nlm.Lock(b"%d-%s-%s-%d" % (os.getuid(), transport.__name__.encode(), address.encode(), number))
            reply = client.call(nlm.PROG, 4, nlm.LOCK, nlm.lock_args(4, b"c", lock.but(fh=lock.caller)))
            granted += nlm.decode_result(nlm.LOCK, 4, reply.results).stat == "GRANTED"
print(granted)
"""
    with Daemon("grace.seconds=0", "limits.clients=200", "limits.clients_per_host=30") as daemon:
        del daemon
        # By UDP the kernel does not tell the user: all users have one account there.
        assert as_user(NOBODY, script) == ["60"]
        assert as_user(OTHER_USER, script) == ["30"]
        with rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as client:
            assert stat(client, nlm.LOCK, LOCK) == "GRANTED"
        with rpc.Tcp("127.0.0.1", PORT) as root:
            for number in range(40):
                assert stat(root, nlm.LOCK, LOCK.but(caller=b"root%d" % number, fh=b"%d" % number)) == "GRANTED"


@tap.test
def all_connections_by_one_user():
    """SEC-02: a user's connections are bounded as those of a host; those of root and of another user stay."""
    script = """
opened = [rpc.Tcp("127.0.0.1", 4045, source=("127.0.0.%d" % (1 + i % 3), 0)) for i in range(20)]
assert opened[-1].call(nsm.PROG, 1, 0).status == rpc.SUCCESS
print(sum(client.is_closed() for client in opened[:4]))
print(opened[4].call(nsm.PROG, 1, 0).status == rpc.SUCCESS)
"""
    with Daemon("limits.connections_per_host=16"), rpc.Tcp("127.0.0.1", PORT) as root:
        assert root.call(nsm.PROG, 1, 0).status == rpc.SUCCESS
        assert as_user(NOBODY, script) == ["4", "True"]
        assert as_user(OTHER_USER, script) == ["4", "True"]
        assert root.call(nsm.PROG, 1, 0).status == rpc.SUCCESS
        roots = [rpc.Tcp("127.0.0.1", PORT) for _ in range(20)]
        assert all(client.call(nsm.PROG, 1, 0).status == rpc.SUCCESS for client in roots)
        for client in roots:
            client.close()


@tap.test
def a_user_with_a_port_that_was_reserved():
    """SEC-01: where the system lets users bind ports from 80 (ip_unprivileged_port_start), a port below 1024 shows
    nothing: SM_SIMU_CRASH and SM_MON from there are refused to a user, by both transports, and granted to root by TCP."""
    script = """
for transport in (rpc.Udp, rpc.Tcp):
    with transport("127.0.0.1", 4045, source=("127.0.0.1", 700)) as client:
        print(client.call(nsm.PROG, 1, nsm.SIMU_CRASH).status == rpc.SUCCESS)
    with nsm.Monitor(transport("127.0.0.1", 4045, source=("127.0.0.1", 701))) as monitor:
        print(monitor.mon("192.0.2.9", prog=nsm.NLM, vers=3, proc=16).ok)
"""
    with users_may_bind_from(80), Daemon():
        assert as_user(NOBODY, script) == ["False"] * 4
        with rpc.Tcp("127.0.0.1", PORT, source=("127.0.0.1", 702)) as root:
            assert root.call(nsm.PROG, 1, nsm.SIMU_CRASH).status == rpc.SUCCESS


@tap.test
def a_user_that_closes_before_he_is_looked_at():
    """SEC-01, SEC-02: of a connection whose process has closed it the kernel says that it is root's. A user sends his requests and
    closes before the daemon accepts: his clients have a quota all the same, and he does not speak for this host."""
    script = """
for number in range(60):
    with rpc.Tcp("127.0.0.1", 4045) as client:
        lock = nlm.Lock(b"invented-%d" % number, b"%d" % number)
        client.send(rpc.call_message(number, nlm.PROG, 4, nlm.LOCK, nlm.lock_args(4, b"c", lock)))
with rpc.Tcp("127.0.0.1", 4045, source=("127.0.0.1", 700)) as client:
    client.send(rpc.call_message(1, nsm.PROG, 1, nsm.SIMU_CRASH))
print("closed")
"""
    with users_may_bind_from(80), Daemon("grace.seconds=0", "limits.clients=200", "limits.clients_per_host=30") as daemon:
        before = get("status")["state"]
        daemon.send_signal(signal.SIGSTOP)
        try:
            assert as_user(NOBODY, script) == ["closed"]
        finally:
            daemon.send_signal(signal.SIGCONT)
        daemon.wait_for_log("refused: SM_SIMU_CRASH")
        assert get("status")["state"] == before
        assert invented() == 30, invented()


@tap.test
def a_user_at_another_address_of_this_host():
    """SEC-01, SEC-02: a user who connects from an address of this host that is not loopback's is known by his uid there as well: one
    quota for all his addresses, and a port below 1024 shows nothing where users may bind it."""
    script = """
granted = 0
for address in ("127.0.0.1", "192.0.2.2", "192.0.2.3"):
    with rpc.Tcp("192.0.2.1" if address[0] != "127" else address, 4045, source=(address, 700 if address[-1] == "3" else 0)) as client:
        for number in range(40):
            name = b"%s-%d" % (address.encode(), number)
            reply = client.call(nlm.PROG, 4, nlm.LOCK, nlm.lock_args(4, b"c", nlm.Lock(name, name)))
            granted += nlm.decode_result(nlm.LOCK, 4, reply.results).stat == "GRANTED"
print(granted)
"""
    with users_may_bind_from(80), Daemon("grace.seconds=0", "limits.clients=200", "limits.clients_per_host=30"):
        assert as_user(NOBODY, script) == ["30"]
        with rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as client:
            assert stat(client, nlm.LOCK, LOCK) == "GRANTED"


@tap.test
def a_user_at_another_address_who_closes():
    """SEC-01, SEC-02: the same user closes before the daemon accepts, at addresses of this host that are not loopback's, and sends
    datagrams from the server's own address: all of that is one account, and no port of his is one of root."""
    script = """
number = 0
for address in ("127.0.0.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"):
    for port in [0] * 40 + [701]:
        with rpc.Tcp("192.0.2.1" if address[0] != "127" else address, 4045, source=(address, port)) as client:
            lock = nlm.Lock(b"invented-%d" % number, b"%d" % number)
            client.send(rpc.call_message(number, nlm.PROG, 4, nlm.LOCK, nlm.lock_args(4, b"c", lock)))
            number += 1
with rpc.Udp("192.0.2.1", 4045, source=("192.0.2.1", 702)) as client:
    for number in range(number, number + 40):
        lock = nlm.Lock(b"invented-%d" % number, b"%d" % number)
        client.send(rpc.call_message(number, nlm.PROG, 4, nlm.LOCK, nlm.lock_args(4, b"c", lock)))
print("closed")
"""
    with users_may_bind_from(80), Daemon("grace.seconds=0", "limits.clients=400", "limits.clients_per_host=30") as daemon:
        daemon.send_signal(signal.SIGSTOP)
        try:
            assert as_user(NOBODY, script) == ["closed"]
        finally:
            daemon.send_signal(signal.SIGCONT)
        with rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as client:  # accepted after those that wait
            assert stat(client, nlm.LOCK, LOCK) == "GRANTED"
        wait_until(lambda: invented() >= 30, "the clients")
        assert invented() == 30, invented()


@tap.test
def roots_registration_answered_with_a_users_refusal():
    """SEC-08: the refusal of a user's SET is kept for his repeats, not for the same bytes from root."""
    args = rpcbind.rpcb(100003, 3, "tcp", "0.0.0.0.39.16")
    script = f"""
with rpc.Tcp("127.0.0.1", 111) as client:
    print(client.call(rpcbind.PROG, 4, rpcbind.SET, {args!r}, xid=77).decode().bool())
with rpc.Udp("127.0.0.1", 111) as client:
    print(client.call(rpcbind.PROG, 4, rpcbind.SET, {args!r}, xid=77).decode().bool())
"""
    with Daemon("rpcbind.mode=embedded"):
        assert as_user(NOBODY, script) == ["False", "False"]
        with rpc.Udp("127.0.0.1", rpcbind.PORT, source=nsm.reserved()) as root:
            assert root.call(rpcbind.PROG, 4, rpcbind.SET, args, xid=77).decode().bool()


# ---- calls in flight ----

@tap.test
def all_calls_in_flight():
    """SEC-02: 17 addresses send 4,096 UNLOCKs each that wait for callbacks to silent lock managers: a host that has
    none in flight is answered, before those callbacks are over."""
    hosts = [crowd.address(crowd.ALIVE, 1 + number) for number in range(17)]
    locks = [LOCK.but(caller=b"host%d" % number, fh=b"file%d" % number, length=10) for number in range(17)]
    with Daemon("grace.seconds=0", "notify.timeout=20"), rpc.Tcp(SERVER, PORT, source=(ATTACKER, 0)) as holder:
        sockets = [[rpc.Tcp(SERVER, PORT, source=(host, 0)) for _ in range(4)] for host in hosts]
        for (client, *_), lock in zip(sockets, locks):
            assert stat(holder, nlm.LOCK, lock.but(caller=b"holder")) == "GRANTED"
            assert stat(client, nlm.LOCK, lock.but(offset=1000)) == "GRANTED"  # its owner stays
            assert stat(client, nlm.LOCK, lock, block=True) == "BLOCKED"
        for lock in locks:
            assert stat(holder, nlm.UNLOCK, lock.but(caller=b"holder")) == "GRANTED"
        time.sleep(0.2)
        began = time.monotonic()
        for clients, lock in zip(sockets, locks):
            args = nlm.unlock_args(4, b"c", lock)
            for number, client in enumerate(clients):
                client.send_raw(b"".join(rpc.record(rpc.call_message(1024 * number + i, nlm.PROG, 4, nlm.UNLOCK, args))
                                         for i in range(1024)))
        sent = time.monotonic() - began
        with rpc.Udp(SERVER, PORT, source=(VICTIM, 0)) as victim:
            asked = time.monotonic()
            while True:  # as a client repeats what a full socket of ours has dropped
                victim.send(rpc.call_message(1, nlm.PROG, 4, nlm.TEST, nlm.test_args(4, b"c", LOCK)))
                if not victim.is_silent():
                    break
            took = time.monotonic() - asked
        tap.note(f"69,632 UNLOCKs sent in {sent:.1f} s; another client's TEST took {took:.2f} s")
        assert took < 1.5, f"{took:.1f} s"
        for client in sum(sockets, []):
            client.close()


# ---- bytes out ----

def bytes_to(host):
    lookups = sum(HEADERS + 40 + len(call.args) for call in host.lookups)
    return lookups + sum(HEADERS + 40 + len(call.args) for call in host.calls_now())


@tap.test
def an_answer_of_the_victims_rpcbind():
    """SEC-03: TEST_MSG with the address of a host whose rpcbind answers, and whose lock manager does not: three times
    what was sent and no more, however often."""
    holder = LOCK.but(caller=b"holder", oh=b"h" * 1000)
    with Daemon("grace.seconds=0"), Host(VICTIM, answer=never) as victim, \
            rpc.Tcp(SERVER, PORT, source=(ATTACKER, 0)) as attacker, rpc.Udp(SERVER, PORT, source=(VICTIM, 0)) as forged:
        assert stat(attacker, nlm.LOCK, holder) == "GRANTED"
        came = 0
        for xid in range(6):
            message = rpc.call_message(xid, nlm.PROG, 4, nlm.TEST + nlm.MSG, nlm.test_args(4, b"cook", LOCK))
            forged.send(message)
            came += HEADERS + len(message)
            time.sleep(1)
        time.sleep(3)
        answers = 0
        while not forged.is_silent():
            answers += HEADERS + len(forged.receive())
        sent = bytes_to(victim) + answers
        tap.note(f"{sent} bytes for {came}: {sent / came:.1f} times, {len(victim.calls_now())} calls")
        assert victim.calls_now(), "an honest client would get no answer"
        assert sent <= 3 * came, f"{sent / came:.1f} times"


@tap.test
def a_long_answer_to_a_client_of_ours():
    """SEC-03: a client that uses TCP is no target for long answers by UDP: DUMP of rpcbind is refused, and TEST names the
    holder without his long handle."""
    holder = LOCK.but(caller=b"holder", oh=b"h" * 1000)
    with Daemon("grace.seconds=0", "rpcbind.mode=embedded"), rpc.Tcp(SERVER, PORT, source=(VICTIM, 0)) as client, \
            rpc.Udp(SERVER, PORT, source=(VICTIM, 0)) as forged, \
            rpc.Udp(SERVER, rpcbind.PORT, source=(VICTIM, 0)) as forged_rpcbind:
        assert stat(client, nlm.LOCK, holder) == "GRANTED"
        for sock, question in ((forged, rpc.call_message(7, nlm.PROG, 4, nlm.TEST, nlm.test_args(4, b"c", LOCK))),
                               (forged_rpcbind, rpc.call_message(8, rpcbind.PROG, 4, rpcbind.DUMP))):
            sock.send(question)
            answer = sock.receive()
            assert len(answer) + HEADERS <= 3 * (len(question) + HEADERS), f"{len(answer)} bytes for {len(question)}"
        reply = forged.call(nlm.PROG, 4, nlm.TEST, nlm.test_args(4, b"c", LOCK))
        result = nlm.decode_result(nlm.TEST, 4, reply.results)
        assert (result.stat, result.holder.svid, result.holder.oh) == ("DENIED", 1, b"")


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    netns.enter()
    crowd.join_addresses()
    tap.main()

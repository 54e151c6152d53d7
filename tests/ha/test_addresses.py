#!/usr/bin/env python3
"""The shipped hook (HA-07): addresses move between two hosts, and a third host's neighbour cache follows at once."""
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys

from holdfast_test import netns, nlm, rpc, tap
from holdfast_test.daemon import PORT, WAIT_S, Daemon, wait_until
from wires import Node, Switch, Tap, address4, address6

HOOK, ANNOUNCE = os.environ["HOLDFAST_HOOK"], os.environ["HOLDFAST_ANNOUNCE"]
SERVICE4, SERVICE6 = address4(100), address6(100)


def hook(node, verb, *addresses, **env):
    done = subprocess.run([*node.inside, HOOK, verb, "files", *addresses], stdin=subprocess.DEVNULL, timeout=20,
                          env=os.environ | env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


def neighbour(address):
    """The hardware address that this host, the client, has for it; None if it knows none."""
    out = subprocess.run(["ip", "neighbour", "show", "to", address], stdout=subprocess.PIPE, check=True).stdout.decode()
    return out.split("lladdr ")[1].split()[0] if "lladdr" in out else None


def reach(address):
    """Waits until the host that has the address answers: no process serves port 9, its kernel says so."""
    def known():
        try:
            with socket.create_connection((address, 9), timeout=1):
                pass
        except ConnectionRefusedError:
            return True
        except OSError:
            return False

    wait_until(known, f"the client knows {address}")


@contextlib.contextmanager
def two_hosts():
    """Two hosts, and a client whose neighbour cache does not expire by itself."""
    with Switch() as switch, Node(switch, "alpha", 11) as alpha, Node(switch, "beta", 12) as beta:
        for family in ("ipv4", "ipv6"):
            for key in ("base_reachable_time_ms", "gc_stale_time"):
                with open(f"/proc/sys/net/{family}/neigh/switch/{key}", "w") as file:
                    file.write("3600000" if key.endswith("ms") else "3600")
        yield alpha, beta


@tap.test
def neighbours_follow_the_address():
    """Given a client that knows alpha's hardware address for the service, when beta takes the service the client's
    cache has beta's, without the client having asked: for IPv4 and for IPv6."""
    with two_hosts() as (alpha, beta):
        assert hook(alpha, "take", SERVICE4, SERVICE6) == (0, "")
        for address in (SERVICE4, SERVICE6):
            reach(address)
            assert neighbour(address) == alpha.hardware(), address
        for new, old in ((beta, alpha), (alpha, beta), (beta, alpha)):
            assert hook(old, "drop", SERVICE4, SERVICE6) == (0, "")
            assert not old.has(SERVICE4) and not old.has(SERVICE6)
            assert hook(new, "take", SERVICE4, SERVICE6) == (0, "")
            for address in (SERVICE4, SERVICE6):
                wait_until(lambda address=address: neighbour(address) == new.hardware(), f"{address} at {new.name}")
                reach(address)


@tap.test
def neighbours_follow_although_the_old_host_was_cut_off():
    """Given an owner whose cable was cut, so that it still has the address, beta's announcement wins; and when the cable is
    back and alpha drops, beta keeps it."""
    with two_hosts() as (alpha, beta):
        assert hook(alpha, "take", SERVICE4, SERVICE6)[0] == 0
        reach(SERVICE4)
        reach(SERVICE6)
        alpha.unplug()
        assert hook(beta, "take", SERVICE4, SERVICE6)[0] == 0
        for address in (SERVICE4, SERVICE6):
            wait_until(lambda address=address: neighbour(address) == beta.hardware(), f"{address} at beta")
        assert hook(alpha, "drop", SERVICE4, SERVICE6)[0] == 0
        alpha.plug()
        for address in (SERVICE4, SERVICE6):
            reach(address)
            assert neighbour(address) == beta.hardware()


@tap.test
def a_client_that_was_cut_off_learns_of_the_move():
    """HA-07: given a client that was cut off while beta announced itself, so that it still knows alpha, when it is back, then it
    learns of beta without asking."""
    with two_hosts() as (alpha, beta):
        with Tap(beta) as wire:
            assert hook(beta, "take", SERVICE4, SERVICE6) == (0, "")
            seen = []
            wait_until(lambda: seen.extend(wire.from_address(SERVICE4, SERVICE6)) or len(seen) >= 6 * 3, "first announcements")
        for address in (SERVICE4, SERVICE6):
            # Not looked at in between: the next announcement may come before the look.
            netns.run("ip", "neighbour", "replace", address, "lladdr", alpha.hardware(), "dev", "switch", "nud", "reachable")
            wait_until(lambda address=address: neighbour(address) == beta.hardware(), f"{address} at beta")


@tap.test
def a_repeated_call_does_no_harm():
    """take and drop may be called again; drop also where nothing was ever taken."""
    with two_hosts() as (alpha, _):
        assert hook(alpha, "drop", SERVICE4, SERVICE6) == (0, "")
        for _ in range(2):
            assert hook(alpha, "take", SERVICE4, SERVICE6) == (0, "")
        assert alpha.run("ip", "-o", "address", "show", "dev", "eth0").count(SERVICE4 + "/32") == 1
        for _ in range(2):
            assert hook(alpha, "drop", SERVICE4, SERVICE6) == (0, "")
        assert not alpha.has(SERVICE4) and not alpha.has(SERVICE6)
        assert hook(alpha, "take", SERVICE6) == (0, "")
        reach(SERVICE6)
        alpha.run("ip", "address", "add", SERVICE4 + "/24", "dev", "eth0")  # as an operator may have added it
        assert hook(alpha, "drop", SERVICE4) == (0, "")
        assert not alpha.has(SERVICE4)


@tap.test
def the_hosts_own_address_stays():
    """Given a service's address that an operator added with the prefix of the network, before the host's own, and a kernel that removes
    all addresses of a network with the first, then drop removes that address alone."""
    with two_hosts() as (alpha, _):
        alpha.run("sh", "-c", "for i in all eth0; do echo 0 >/proc/sys/net/ipv4/conf/$i/promote_secondaries; done")
        alpha.run("ip", "address", "del", f"{alpha.address}/24", "dev", "eth0")
        for address in (SERVICE4, alpha.address):
            alpha.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        assert hook(alpha, "drop", SERVICE4) == (0, "")
        assert alpha.has(alpha.address) and not alpha.has(SERVICE4)


@tap.test
def an_address_is_the_source_of_no_other_traffic():
    """Given the service's address on a host, the host's own traffic leaves from the host's own address."""
    with two_hosts() as (alpha, _):
        assert hook(alpha, "take", SERVICE4, SERVICE6)[0] == 0
        assert f"src {alpha.address} " in alpha.run("ip", "route", "get", address4(254))
        assert f"src {alpha.address6} " in alpha.run("ip", "-6", "route", "get", address6(254))


@tap.test
def the_interface_can_be_named():
    """Given a service in a network that the host does not reach, take says what to set; with HOLDFAST_INTERFACE it works."""
    with two_hosts() as (alpha, _):
        status, said = hook(alpha, "take", "198.51.100.9")
        assert status == 1 and "HOLDFAST_INTERFACE" in said, said
        assert hook(alpha, "take", "198.51.100.9", HOLDFAST_INTERFACE="eth0") == (0, "")
        assert alpha.has("198.51.100.9")


@tap.test
def what_is_wrong_is_said():
    """An unknown verb, no address, an address that is none: a status other than 0, and a line that says why."""
    with two_hosts() as (alpha, _):
        for words in (["take"], ["steal", SERVICE4], ["take", "nonsense"]):
            status, said = hook(alpha, *words)
            assert status != 0 and said, words


@tap.test
def an_address_that_is_not_there_is_not_announced():
    """Given addresses of which the interface has one, that one is announced in each round, and the status tells that another is not
    there; an address that goes between two rounds is no failure."""
    def announce(*words):
        return subprocess.Popen([*alpha.inside, ANNOUNCE, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    with two_hosts() as (alpha, _):
        alpha.run("ip", "address", "add", f"{SERVICE4}/32", "dev", "eth0")
        with Tap(alpha) as wire:
            assert announce("--count", "2", "--interval", "1", "eth0", address4(101), SERVICE4).wait(WAIT_S) == 1
            assert len(wire.from_address(SERVICE4)) == 4, "two rounds, of a request and a reply each"
            goes = announce("--count", "2", "--interval", "1000", "eth0", SERVICE4)
            seen = []
            wait_until(lambda: seen.extend(wire.from_address(SERVICE4)) or len(seen) >= 2, "a third round")
            alpha.run("ip", "address", "del", f"{SERVICE4}/32", "dev", "eth0")
            assert goes.wait(WAIT_S) == 0


@tap.test
def nothing_leaves_from_an_address_that_is_gone():
    """HA-04: given a daemon that was stopped with requests of TCP and UDP clients unread, when the hook has dropped the
    addresses and the daemon goes on and answers, its cable carries no frame from them. (A daemon with a lease would not
    even answer; this is what holds if it does.)"""
    with two_hosts() as (alpha, _):
        assert hook(alpha, "take", SERVICE4, SERVICE6)[0] == 0
        daemon = Daemon(f"cluster.addresses={SERVICE4},{SERVICE6}", f"admin.listen={alpha.address}:8049",
                        under=alpha.inside).start()
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(kind(address, PORT)) for kind in (rpc.Tcp, rpc.Udp)
                       for address in (SERVICE4, SERVICE6)]
            for client in clients:
                client.call(nlm.PROG, 4, 0)
            with Tap(alpha) as wire:
                for client in clients:
                    client.call(nlm.PROG, 4, 0)
                assert len(wire.from_address(SERVICE4, SERVICE6)) >= 4, "the tap does not see what the node sends"
                daemon.send_signal(signal.SIGSTOP)
                for client in clients:
                    client.send(rpc.call_message(rpc.new_xid(), nlm.PROG, 4, 0))
                assert hook(alpha, "drop", SERVICE4, SERVICE6) == (0, "")
                wire.frames()
                daemon.send_signal(signal.SIGCONT)
                wait_until(lambda: all(unread(alpha, address) == 0 for address in (SERVICE4, SERVICE6)),
                           "the daemon has read the requests, and so has answered")
                with rpc.Tcp(alpha.address, 8049) as admin:  # a turn of its loop later
                    admin.send_raw(b"GET /healthz HTTP/1.0\r\n\r\n")
                    admin.receive_exactly(8)
                assert daemon.stop() == 0  # connections are closed: a FIN or RST each
                assert not (late := wire.from_address(SERVICE4, SERVICE6)), [frame.hex() for frame in late]
        daemon.check_sanitizers()


# A program that is not ours, such as the file server: a listener for both families that says hello and keeps its connections;
# if told to, closes the first, as when it is killed.
LISTENER = """
import socket, sys
kept, listener = [], socket.create_server(("::", 2049), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True:
    kept.append(listener.accept()[0])
    kept[-1].send(b"hello")
    if sys.argv[1] == "closes" and len(kept) == 1:
        kept[-1].close()
"""


def connect(address):
    """From the port that this client always has, as a Linux NFS client does; closed by a reset."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.bind(("", 700))
    sock.settimeout(WAIT_S)
    sock.connect((address, 2049))
    assert sock.recv(5) == b"hello"
    return sock


def is_tcp(frame):
    return 6 == (frame[20] if frame[12:14] == b"\x86\xdd" else frame[23])


def move(address, old, new):
    """No connection is reset, or otherwise heard of, when it ends with its address."""
    with Tap(old) as wire:
        assert hook(old, "drop", address) == (0, "")
        sent = [frame.hex() for frame in wire.from_address(address) if is_tcp(frame)]
        assert not sent, sent
    assert hook(new, "take", address) == (0, "")


def come_back(address, how):
    """A client with a connection to alpha, after a move one from the same port to beta; the service comes back to alpha."""
    with two_hosts() as (alpha, beta):
        for node in (alpha, beta):
            listener = node.start(sys.executable, "-c", LISTENER, how if node is alpha else "keeps", stdout=subprocess.PIPE)
            assert listener.stdout.readline() == b"ready\n"
        assert hook(alpha, "take", address) == (0, "")
        first = connect(address)
        if how == "closes":
            assert first.recv(1) == b""
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            first.close()
        move(address, alpha, beta)
        first.close()
        second = connect(address)
        move(address, beta, alpha)
        second.send(b"a request")
        try:
            said = second.recv(5)
        except ConnectionResetError:
            said = "reset"
        assert said == "reset", said
        second.close()
        connect(address).close()


@tap.test
def connections_do_not_outlive_the_address():
    """HA-07: given a client with a connection to alpha, and after a move one from the same port to beta, when the service comes
    back to alpha, then alpha resets what it does not know, and the client connects anew. (A connection that alpha had kept
    would answer with ACKs, which the client answers, and so on: its requests would wait for minutes.)"""
    for address in (SERVICE4, SERVICE6):
        come_back(address, "keeps")


@tap.test
def closed_connections_do_not_outlive_the_address():
    """The same with a connection that alpha's process closed: it is in TIME-WAIT."""
    for address in (SERVICE4, SERVICE6):
        come_back(address, "closes")


def unread(node, address):
    """Bytes that the daemon has not read from its sockets at this address."""
    lines = node.run("ss", "-Hntu", "-a", "src", f"[{address}]" if ":" in address else address).splitlines()
    return sum(int(line.split()[2]) for line in lines)


if __name__ == "__main__":
    netns.enter(addresses=())
    tap.main()

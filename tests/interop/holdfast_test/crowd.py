"""Hosts by the thousand, played by one process: each an address of its own, with a lock of its own.

10.1.x.y is always there; 10.2.x.y until it is buried, behind a cable whose far end takes every packet and
says nothing. Also sm-notify, given the same hosts to tell.
"""
import os
import socket
import struct
import subprocess
import time

from . import netns, nsm, rpc, tap
from .daemon import PORT, WAIT_S
from .xdr import Encoder

SERVER = "10.0.0.1"
ALIVE, MORTAL = 1, 2
IP_PKTINFO = 8


def address(second, number):
    return f"10.{second}.{number >> 8}.{number & 255}"


# ---- the network ----

def join_addresses():
    """Makes every address of 10.1/16 and 10.2/16 ours, and adds a cable whose far end drops every packet."""
    netns.run("ip", "address", "add", SERVER + "/32", "dev", "lo")
    for second in (ALIVE, MORTAL):
        netns.run("ip", "route", "add", "local", f"10.{second}.0.0/16", "dev", "lo")
    netns.run("ip", "link", "add", "grave0", "type", "veth", "peer", "name", "grave1")
    for end in ("grave0", "grave1"):
        netns.run("ip", "link", "set", end, "up")
    netns.run("ip", "neighbour", "add", "10.254.0.1", "lladdr", "02:00:00:00:00:99", "dev", "grave0")


def bury():
    netns.run("ip", "route", "del", "local", f"10.{MORTAL}.0.0/16", "dev", "lo")
    netns.run("ip", "route", "add", f"10.{MORTAL}.0.0/16", "via", "10.254.0.1", "dev", "grave0",
              "onlink")


def raise_from_the_dead():
    netns.run("ip", "route", "del", f"10.{MORTAL}.0.0/16", "dev", "grave0")
    netns.run("ip", "route", "add", "local", f"10.{MORTAL}.0.0/16", "dev", "lo")


# ---- the clients ----

class Peers:
    """nsm_peers, the program that plays all hosts that are alive."""

    def __enter__(self):
        path = os.environ.get("NSM_PEERS")
        if not path:
            raise tap.Skip("NSM_PEERS was not built")
        self.process = subprocess.Popen([path, "10."], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"
        return self

    def counts(self):
        """(hosts notified, notices by TCP, by UDP, lookups)"""
        self.process.stdin.write(b"?\n")
        self.process.stdin.flush()
        return [int(word) for word in self.process.stdout.readline().split()]

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(WAIT_S)


def file_of(number):
    return b"file%06d" % number


def lock_args(number, block):
    owner = b"1@client"
    return (Encoder().opaque(b"c").bool(block, True).string(f"client{number}")
            .opaque(file_of(number)).opaque(owner).int(1).uhyper(0, 0).bool(False).int(3).bytes())


def lock_all(addresses, window=200, port=PORT, block=False, first=0):
    """Takes a lock for each address, through one socket that sends with the source address of each. With
    block, each request must wait because another client holds the files. Clients and files are numbered from
    first."""
    expected = nsm.BLOCKED if block else nsm.GRANTED
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.settimeout(WAIT_S)
    waiting = set()
    with sock:
        for number, text in enumerate(addresses, first):
            info = struct.pack("=I4s4s", 0, socket.inet_aton(text), bytes(4))
            message = rpc.call_message(number, nsm.NLM, 4, 2, lock_args(number, block))
            sock.sendmsg([message], [(socket.IPPROTO_IP, IP_PKTINFO, info)], 0, (SERVER, port))
            waiting.add(number)
            while len(waiting) > (window if number + 1 < first + len(addresses) else 0):
                reply = rpc.parse_reply(sock.recv(4096))
                d = reply.decode()
                assert (d.opaque(), d.uint()) == (b"c", expected)
                waiting.discard(reply.xid)


# ---- what happens at a restart ----

def processor(pid):
    """(seconds of processor time, seconds it was ready to run but waited for a processor)"""
    with open(f"/proc/{pid}/schedstat") as stat:
        ran, waited, _ = stat.read().split()
    return int(ran) / 1e9, int(waited) / 1e9


def wait_for_summary(daemon):
    with daemon.news:
        daemon.news.wait_for(lambda: any("clients told of our restart" in line for line in daemon.lines),
                             60)
    return daemon.wait_for_log("clients told of our restart")


# ---- sm-notify, with the same work ----

def write_sm_notify_state(folder, hosts):
    for name in ("sm", "sm.bak"):
        os.mkdir(os.path.join(folder, name))
    for number in range(hosts):
        host = address(ALIVE, number)
        with open(os.path.join(folder, "sm", host), "w") as file:
            file.write(f"0100007f 000186b5 00000003 00000010 {'0' * 32} {host} server.example\n")
    with open(os.path.join(folder, "state"), "wb") as file:
        file.write(struct.pack("=I", 3))
    netns.run("chown", "-R", "statd", folder)


def time_sm_notify(program, folder, hosts):
    """Seconds that sm-notify took, without the time it waited for a processor. Only -d keeps it in the
    foreground."""
    write_sm_notify_state(folder, hosts)
    with netns.names(f"{SERVER} server.example server"):
        began, waited = time.monotonic(), 0
        process = subprocess.Popen([program, "-d", "-f", "-P", folder, "-v", "server.example"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            try:
                waited = processor(process.pid)[1]
            except (OSError, ValueError):
                pass  # just gone
            time.sleep(0.005)
            assert time.monotonic() - began < 60, "sm-notify does not end"
        assert process.returncode == 0
        return time.monotonic() - began - waited

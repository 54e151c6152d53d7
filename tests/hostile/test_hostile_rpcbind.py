#!/usr/bin/env python3
"""Attacks on the embedded rpcbind by users of this host, and through it (SEC-03, SEC-11)."""
import os
import socket
import subprocess
import sys

from holdfast_test import netns, rpc, rpcbind, tap
from holdfast_test.daemon import Daemon

SOCKET = "/run/rpcbind.sock"
SERVER, OTHER = "192.0.2.1", "192.0.2.2"
NFS = 100003
FREE = 0x20000000  # program numbers that are not assigned
ALICE, BOB = 65534, 12345

# Run as the user: each line of the input is a call's arguments as hex; the answer is its result.
CALLER = """
import os, socket, struct, sys
uid = int(sys.argv[1])
os.setgid(uid); os.setuid(uid)
if sys.argv[2] == "local":
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[3])
else:
    s = socket.socket(); s.connect((b"127.0.0.1", 111))
for line in sys.stdin:
    message = bytes.fromhex(line)
    s.sendall(struct.pack(">I", len(message) | 0x80000000) + message)
    size = struct.unpack(">I", s.recv(4, socket.MSG_WAITALL))[0] & 0x7fffffff
    print(s.recv(size, socket.MSG_WAITALL).hex())
"""


def as_user(uid, calls, via="local"):
    """The answers, as booleans, to (version, procedure, arguments) from this user."""
    messages = [rpc.call_message(rpc.new_xid(), rpcbind.PROG, *call).hex() for call in calls]
    done = subprocess.run([sys.executable, "-c", CALLER, str(uid), via, SOCKET], input="\n".join(messages).encode(),
                          stdout=subprocess.PIPE, timeout=60, check=True)
    return [rpc.parse_reply(bytes.fromhex(line)).decode().bool() for line in done.stdout.decode().split()]


def set_v4(prog, netid="tcp", addr="0.0.0.0.39.16", vers=3):
    return 4, rpcbind.SET, rpcbind.rpcb(prog, vers, netid, addr)


def unset(prog, vers=3):
    return 4, rpcbind.UNSET, rpcbind.rpcb(prog, vers)


@tap.test
def nfs_redirected():
    """Given an ordinary user: he cannot register NFS, neither elsewhere nor here, by any way; root can then."""
    away = set_v4(NFS, addr="198.51.100.1.8.1")
    here = set_v4(NFS)
    v2 = (2, rpcbind.SET, rpcbind.pmap(NFS, 3, "tcp", 10000))
    with Daemon("rpcbind.mode=embedded"):
        assert as_user(ALICE, [away, here, v2]) == [False] * 3
        assert as_user(ALICE, [away, here, v2, set_v4(FREE)], via="loopback") == [False] * 4
        assert as_user(0, [away, here]) == [False, True]
        assert as_user(ALICE, [unset(NFS), set_v4(NFS, "udp"), set_v4(NFS, vers=4)]) == [False] * 3
        assert rpcbind.getport(NFS, 3, "tcp") == 10000


@tap.test
def a_program_of_another_user_taken():
    """Given a program that one user has registered, another can neither remove it nor add a version to it."""
    with Daemon("rpcbind.mode=embedded"):
        assert as_user(ALICE, [set_v4(FREE), set_v4(FREE, "tcp", "198.51.100.1.8.1", 4)]) == [True, False]
        assert as_user(BOB, [unset(FREE), set_v4(FREE, "udp"), set_v4(FREE, vers=4)]) == [False] * 3
        assert as_user(ALICE, [set_v4(FREE, vers=4), unset(FREE)]) == [True, True]
        assert as_user(BOB, [set_v4(FREE, vers=5)]) == [False], "version 4 is still another user's"
        assert as_user(0, [unset(FREE, 4)]) == [True]


@tap.test
def the_table_filled():
    """Given users who register all they can, there is room left for root and for other users."""
    with Daemon("rpcbind.mode=embedded"):
        assert sum(as_user(ALICE, [set_v4(FREE + i) for i in range(300)])) == 32
        assert sum(as_user(BOB, [set_v4(FREE + 1000 + i) for i in range(300)])) == 32
        for uid in range(20000, 20004):
            as_user(uid, [set_v4(FREE + uid * 100 + i) for i in range(100)])
        assert as_user(0, [set_v4(NFS)]) == [True]
        assert len(rpcbind.dump()) < 256


@tap.test
def a_short_question_with_a_long_answer():
    """Given a DUMP by UDP from another host, the answer is at most three times as long; by TCP it is whole.
    (1,516 bytes for 40 were.)"""
    with Daemon("rpcbind.mode=embedded"):
        for version in (2, 3, 4):
            with rpc.Udp(SERVER, rpcbind.PORT, source=(OTHER, 0)) as client:
                question = rpc.call_message(7, rpcbind.PROG, version, rpcbind.DUMP)
                client.send(question)
                answer = client.receive()
                tap.note(f"version {version}: {len(answer)} bytes for {len(question)}")
                assert len(answer) <= 3 * len(question)
        assert len(rpcbind.dump(SERVER)) > 10


@tap.test
def the_socket_of_another_process_removed():
    """Given a process that serves rpcbind's local socket, the process keeps it; a socket that no process serves
    is replaced."""
    owner = socket.socket(socket.AF_UNIX)
    owner.bind(SOCKET)
    owner.listen(8)
    with Daemon("rpcbind.mode=embedded") as daemon:
        assert "no local rpcbind socket" in daemon.log()
        client = socket.socket(socket.AF_UNIX)
        client.connect(SOCKET)
        owner.settimeout(5)
        owner.accept()[0].close()
        client.close()
    assert os.path.exists(SOCKET)
    owner.close()  # the file stays behind
    with Daemon("rpcbind.mode=embedded"):
        assert as_user(0, [set_v4(NFS)]) == [True]


if __name__ == "__main__":
    netns.enter()
    tap.main()

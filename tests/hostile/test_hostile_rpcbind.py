#!/usr/bin/env python3
"""Attacks on the embedded rpcbind by users of this host, and through it (SEC-03, SEC-11)."""
import os
import signal
import socket
import subprocess
import sys

from holdfast_test import netns, nsm, rpc, rpcbind, tap
from holdfast_test.daemon import Daemon

SOCKET = "/run/rpcbind.sock"
SERVER, OTHER = "192.0.2.1", "192.0.2.2"
NFS = 100003
FREE = 0x20000000  # program numbers that are not assigned
ALICE, BOB = 65534, 12345
SO_RCVBUFFORCE = 33

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
    """SEC-11: Given an ordinary user: he cannot register NFS, neither elsewhere nor here, by any way; root can then."""
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
    """SEC-11: Given users who register all they can, there is room left for root and for other users."""
    with Daemon("rpcbind.mode=embedded"):
        assert sum(as_user(ALICE, [set_v4(FREE + i) for i in range(300)])) == 32
        assert sum(as_user(BOB, [set_v4(FREE + 1000 + i) for i in range(300)])) == 32
        for uid in range(20000, 20004):
            as_user(uid, [set_v4(FREE + uid * 100 + i) for i in range(100)])
        assert as_user(0, [set_v4(NFS)]) == [True]
        assert len(rpcbind.dump()) < 256


@tap.test
def a_short_question_with_a_long_answer():
    """SEC-11: Given a DUMP by UDP from another host, the answer is at most three times as long; by TCP it is whole.
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


# ---- the system's rpcbind ----

AGAIN = "registered with the system's rpcbind again"
NLM, PORT = 100021, 4045


def expect_repaired(daemon):
    """Our registrations are removed, by root, and come back."""
    subprocess.run(["rpcinfo", "-d", str(NLM), "4"], check=True)
    daemon.send_signal(signal.SIGHUP)
    assert "services=4" in daemon.wait_for_log(AGAIN)
    assert rpcbind.getport(NLM, 4, "tcp") == PORT and rpcbind.getport(NLM, 4, "udp") == PORT


@tap.test
def a_table_too_large_to_watch():
    """RPC-03: a user fills the system's rpcbind with 700 programs: a lost registration of ours is made again."""
    with rpcbind.System():
        assert sum(as_user(ALICE, [set_v4(FREE + i) for i in range(700)])) == 700
        with Daemon("rpcbind.mode=system") as daemon:
            expect_repaired(daemon)
            assert "rpcbind does not answer" not in daemon.log()


@tap.test
def an_entry_too_long_to_watch():
    """RPC-03: one entry with an address of 300 bytes does not blind us either."""
    with rpcbind.System():
        assert as_user(ALICE, [set_v4(FREE, addr="1" * 300)]) == [True]
        with Daemon("rpcbind.mode=system") as daemon:
            expect_repaired(daemon)
            assert "rpcbind does not answer" not in daemon.log()


# Serves NULL of every program on a port, as the user, once it has registered NLM there.
IMPOSTOR = """
import os, socket, struct, sys
from holdfast_test import rpc, rpcbind
uid = int(sys.argv[1])
os.setgid(uid); os.setuid(uid)
tcp = socket.socket(); tcp.bind(("0.0.0.0", 0)); tcp.listen(8)
port = tcp.getsockname()[1]
local = socket.socket(socket.AF_UNIX); local.connect(sys.argv[2])
for vers in (1, 3, 4):
    local.sendall(rpc.record(rpc.call_message(vers, rpcbind.PROG, 4, rpcbind.SET, rpcbind.rpcb(
        100021, vers, "tcp", "0.0.0.0.%d.%d" % (port >> 8, port & 255)))))
    assert local.recv(4096)[-1] == 1
print(port, flush=True)
while True:
    conn, _ = tcp.accept()
    message = conn.recv(4096)
    conn.sendall(rpc.record(rpc.success_message(struct.unpack(">I", message[4:8])[0])))
    conn.close()
"""


@tap.test
def our_program_registered_while_we_are_stopped():
    """RPC-03: a user registers NLM and answers in our place. We say who it is, take the registration back, and start."""
    with rpcbind.System():
        impostor = subprocess.Popen([sys.executable, "-c", IMPOSTOR, str(ALICE), SOCKET], stdout=subprocess.PIPE,
                                    env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
        try:
            port = int(impostor.stdout.readline())
            assert rpcbind.getport(NLM, 4, "tcp") == port
            with Daemon("rpcbind.mode=system") as daemon:
                line = daemon.wait_for_log("a user had registered our program")
                assert f"uid={ALICE}" in line and f"pid={impostor.pid}" in line and f"port={port}" in line, line
                for vers in (1, 3, 4):
                    assert rpcbind.getport(NLM, vers, "tcp") == PORT, vers
        finally:
            impostor.kill()
            impostor.wait()


@tap.test
def the_lock_of_the_registration_held():
    """HA-10: a user cannot open the file by which daemons share a registration, and so cannot keep us from starting."""
    hold = """
import fcntl, os, sys
os.setgid(%d); os.setuid(%d)
try:
    fcntl.flock(open("/run/holdfast/rpcbind-4045.lock"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("held")
except PermissionError:
    print("refused")
""" % (ALICE, ALICE)
    with rpcbind.System():
        with Daemon("rpcbind.mode=system"):
            pass
        done = subprocess.run([sys.executable, "-c", hold], stdout=subprocess.PIPE, check=True)
        assert done.stdout == b"refused\n", done.stdout


@tap.test
def dump_is_work_that_counts():
    """SEC-05: DUMP visits the whole table, so it is charged, although its answers are not kept and nothing else is known of the user:
    of a hundred that he sends at once by UDP, a few are answered in one turn of the loop, and the rest is dropped."""
    with Daemon("rpcbind.mode=embedded") as daemon, rpc.Tcp("127.0.0.1", rpcbind.PORT, source=nsm.reserved()) as root, \
            rpc.Udp("127.0.0.1", rpcbind.PORT) as user:
        for number in range(200):
            assert root.call(rpcbind.PROG, 2, rpcbind.SET, rpcbind.pmap(FREE + number, 1, "tcp", 1)).decode().bool()
        user.sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)  # all of them would fit
        daemon.send_signal(signal.SIGSTOP)
        for xid in range(100):
            user.send(rpc.call_message(xid, rpcbind.PROG, 2, rpcbind.DUMP))
        daemon.send_signal(signal.SIGCONT)
        answers = 0
        while not user.is_silent(1):
            answers += 1
        tap.note(f"{answers} of 100 DUMPs of one user are answered")
        assert 0 < answers <= 25, answers


if __name__ == "__main__":
    netns.enter()
    tap.main()

#!/usr/bin/env python3
"""A program in the daemon's place, connected to holdfast-keeper: it can lock files of the exports, and that is all (COH-02)."""
import array
import os
import random
import socket
import struct
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast_test import keeper as k
from holdfast_test import netns, nlm, rpc, tap
from holdfast_test.daemon import PORT, WAIT_S, wait_until
from holdfast_test.daemon import Daemon as Holdfastd
from holdfast_test.keeper import Daemon, Keeper, Outside
from holdfast_test.names import ganesha, kernel_handle, nfsd, unfs3


@contextmanager
def world(*options):
    """An export and, beside it on the same file system, what is not exported."""
    with tempfile.TemporaryDirectory(prefix="holdfast-keeper-") as where:
        export, secret = Path(where, "export"), Path(where, "secret")
        for folder in (export, secret):
            folder.mkdir()
            (folder / "file").write_text(f"of {folder.name}")
        with Keeper(export, path=f"{where}/socket", options=options) as keeper, Daemon(keeper.path) as attacker:
            yield keeper, attacker, export, secret
        for folder in (export, secret):
            assert (folder / "file").read_text() == f"of {folder.name}"


def kinds(path):
    """The handle of a file in the form of each server, with the keeper's exports left to guess."""
    return [ganesha(path), nfsd(path, 3), nfsd(path, 1), nfsd(path, 6), unfs3(path)]


@tap.test
def it_locks_a_file_outside_the_exports():
    """By the true handle of a file on the same file system, in the form of each server; a program that has the file sees no lock."""
    with world() as (_, attacker, _, secret), Outside(secret / "file") as outside:
        for path in (secret / "file", Path("/etc/passwd")):
            for handle in kinds(path):
                for kind, mode in ((k.CLAIM, k.SHARED), (k.CLAIM, k.EXCLUSIVE), (k.SET, k.SHARED), (k.TEST, k.SHARED), (k.RESOLVE, k.NONE)):
                    result = attacker.do(kind, handle, mode=mode)
                    assert result.status in (k.NOT_IN_EXPORT, k.UNKNOWN_HANDLE, k.NOT_YET), (handle.hex(), kind, result.status)
                    assert result.inode == 0, "the identity of a file outside is not told"
        assert outside.lock()
        assert attacker.list() == []


@tap.test
def it_moves_the_exports_over_a_secret():
    """The attacker has an accomplice who may rename and link in the export's parent: a directory that takes the export's place, and a
    symbolic link there, open nothing outside."""
    with world() as (_, attacker, export, secret):
        handle = ganesha(secret / "file")
        assert attacker.claim(ganesha(export / "file")) == k.OK, "the exports are looked at"
        os.rename(export, export.with_name("moved"))
        export.symlink_to(secret)
        try:
            assert attacker.claim(handle) != k.OK
            assert attacker.claim(unfs3(secret / "file")) != k.OK
        finally:
            export.unlink()
            os.rename(export.with_name("moved"), export)
        (export / "way").symlink_to(secret / "file")
        assert attacker.claim(handle) != k.OK


@tap.test
def it_makes_handles_up():
    """From inode numbers, with generation 0 and with none that fits: each inode of the export and its neighbours."""
    with world() as (_, attacker, export, secret):
        kind, fid = kernel_handle(export / "file")
        inode = os.stat(export / "file").st_ino
        if len(fid) != 8:
            raise tap.Skip("handles of this file system are not inode and generation")
        own = int.from_bytes(fid[4:], "little")
        whole = ganesha(export / "file")
        at = whole.index(fid)
        head, tail = whole[:at], whole[at + len(fid):]
        for number in range(inode - 20, inode + 20):
            for generation in (0, 1, own ^ 1, 0xffffffff):
                handle = head + struct.pack("<II", number, generation) + tail
                assert attacker.claim(handle, mode=k.SHARED) != k.OK
        assert attacker.claim(head + struct.pack("<II", inode, own) + tail) == k.OK
        assert kind == 1 and attacker.list()


@tap.test
def it_opens_what_is_no_file():
    """Devices, pipes, sockets, directories and symbolic links in the export: opening one can have effects."""
    with world() as (_, attacker, export, _):
        os.mkfifo(export / "pipe")
        os.mknod(export / "device", 0o666 | 0o020000, os.makedev(1, 3))
        (export / "folder").mkdir()
        (export / "link").symlink_to("/etc/passwd")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(export / "socket"))
            for name in ("pipe", "device", "folder", "link", "socket"):
                for mode in (k.SHARED, k.EXCLUSIVE):
                    assert attacker.claim(ganesha(export / name), mode=mode) == k.NOT_A_FILE, name


@tap.test
def it_is_handed_a_descriptor_or_hands_one_in():
    """No message brings a descriptor with it; descriptors that the attacker sends are not kept, whatever their number."""
    with world() as (keeper, attacker, export, _):
        fds = Path(f"/proc/{keeper.process.pid}/fd")
        handle = ganesha(export / "file")
        assert attacker.claim(handle) == k.OK
        before = len(list(fds.iterdir()))
        for _ in range(300):
            id_, op = attacker.op(k.CLAIM, handle, mode=k.EXCLUSIVE)
            rights = array.array("i", [0] * 10)
            attacker.socket.sendmsg([k.HEADER.pack(k.OPS, 1) + op], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            data, ancillary, _, _ = attacker.socket.recvmsg(1 << 16, 1 << 12)
            assert k.Result(data[k.HEADER.size:]).id == id_ and not ancillary
        assert len(list(fds.iterdir())) == before
        attacker.send(k.LIST)
        assert not attacker.socket.recvmsg(1 << 16, 1 << 12)[1]


@tap.test
def it_changes_a_file_by_locking_it():
    """Size, content and times of modification and access are those of before, after every operation in every mode."""
    with world() as (_, attacker, export, _):
        path = export / "file"
        before = os.stat(path)
        for kind in (k.RESOLVE, k.CLAIM, k.SET, k.TEST, k.WAIT):
            for mode in (k.SHARED, k.EXCLUSIVE):
                attacker.do(kind, ganesha(path), 0, 0, mode)
        attacker.do(k.RELEASE_ALL)
        after = os.stat(path)
        assert before == after, (before, after)


@tap.test
def it_exhausts_the_keeper():
    """Ranges, waits and files have limits, and memory stays bounded: 200,000 operations of a random kind from a fixed seed."""
    with world("--set", "ranges=50", "--set", "waits=50", "--set", "files=10", "--set", "threads=4") as (keeper, attacker, export, _):
        paths = [export / f"f{i}" for i in range(15)]
        for path in paths:
            path.touch()
        handles = [ganesha(path) for path in paths] + [b"\xff" * 30, unfs3(paths[0])]
        chance = random.Random(31)

        def resident():
            return int(Path(f"/proc/{keeper.worker()}/statm").read_text().split()[1]) * 4096

        def burst(n):
            for _ in range(n):
                ops = []
                for _ in range(500):
                    kind = chance.choice((k.CLAIM, k.CLAIM, k.SET, k.SET, k.TEST, k.WAIT, k.CANCEL, k.RESOLVE))
                    handle = b"" if kind == k.CANCEL else chance.choice(handles)
                    mode = chance.choice((k.SHARED, k.EXCLUSIVE)) if kind != k.SET else chance.choice((k.NONE, k.SHARED))
                    id_ = chance.randrange(1, attacker.next_id + 1) if kind == k.CANCEL else None
                    ops.append(attacker.op(kind, handle, chance.randrange(300), chance.randrange(20), mode, id_))
                attacker.begin(*ops)
                while len(attacker.results) < 300:  # of 500; some wait, and CANCEL has none
                    attacker.take()
                attacker.results.clear()

        with Outside(paths[0]) as outside:
            assert outside.lock(k.EXCLUSIVE, 100, 50)
            burst(100)
            before = resident()
            burst(300)
            assert resident() < before + (8 << 20), (before, resident())
        assert attacker.do(k.RELEASE_ALL).status == k.OK
        assert attacker.list() == []


def boot_ms():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000


@tap.test
def it_lets_its_lease_end_in_the_middle_of_a_list():
    """The list is longer than the socket takes, and is read on when all that it tells of is gone: the keeper must not look at files
    that it has closed, nor tell of locks that nobody has. It ends the connection, and the next one finds nothing held."""
    with world("--set", "ranges=1000") as (keeper, attacker, export, _):
        for number in range(10):
            (export / f"f{number}").touch()
            ops = [attacker.op(k.CLAIM, ganesha(export / f"f{number}"), 2 * i, 1, k.EXCLUSIVE) for i in range(500)]
            assert all(attacker.result(id_).status == k.OK for id_ in attacker.begin(*ops))
        attacker.begin(attacker.op(k.RENEW, offset=boot_ms() + 1000))
        attacker.take()
        attacker.send(k.LIST)
        with Outside(export / "f9") as outside:
            wait_until(outside.lock, "the lease is over")
        try:
            while True:
                assert attacker.receive()[0] == k.HELD
        except (EOFError, ConnectionResetError):
            pass
        with Daemon(keeper.path) as again:
            assert again.hello[3:5] == (0, 0), again.hello


@tap.test
def it_renews_its_lease_for_ever():
    """A lease that ends in a million years, so that another host, which has the service by then, finds the files locked: the keeper
    takes an hour at most, and lets go when that is over."""
    with world() as (_, attacker, export, _), Outside(export / "file") as outside:
        assert attacker.claim(ganesha(export / "file")) == k.OK
        for until in ((1 << 64) - 1, 1 << 63, boot_ms() + 86400 * 1000):
            assert attacker.do(k.RENEW, offset=until).status == k.FAILED, until
        assert attacker.do(k.RENEW, offset=boot_ms() + 600).status == k.OK
        wait_until(outside.lock, "the lease is over")


# ---- a program in the keeper's place ----

class Impostor:
    """Listens where holdfastd expects holdfast-keeper, and does with each connection what it is told to."""

    def __init__(self, path, play):
        self.play, self.connections = play, 0
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen(8)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                sock = self.listener.accept()[0]
            except OSError:
                return
            with sock:
                self.connections += 1
                sock.settimeout(20)
                try:
                    self.play(self, sock)
                except OSError:
                    pass  # it was cut off

    @staticmethod
    def welcome(sock):
        sock.recv(1 << 16)
        sock.send(k.HEADER.pack(k.HELLO, 1) + k.HELLO_RECORD.pack(1, k.WELCOME, 7, 0, 0, 1000, 1000, 1000, 4, 0))


@contextmanager
def daemon_with(play, *sets):
    with tempfile.TemporaryDirectory(prefix="holdfast-keeper-") as where:
        impostor = Impostor(f"{where}/socket", play)
        with Holdfastd(f"keeper.socket={where}/socket", *sets) as daemon, rpc.Tcp("192.0.2.1", PORT, source=("192.0.2.2", 0)) as client:
            yield impostor, daemon, client
        impostor.listener.close()


def held(number, offset=0):
    return k.OP.pack(0, offset, 1, k.SET, k.EXCLUSIVE, 32, b"%032d" % number)


@tap.test
def an_impostor_tells_of_locks_without_end():
    """It lists more than all clients could ever have locked: the daemon cuts it off, does not grow, and answers other calls."""
    told = []

    def play(impostor, sock):
        impostor.welcome(sock)
        for first in range(0, 10 ** 7, k.OPS_MAX):
            sock.send(k.HEADER.pack(k.HELD, k.OPS_MAX) + b"".join(held(first + i) for i in range(k.OPS_MAX)))
            told.append(first)

    with daemon_with(play, "limits.locks=2000", "locks.durable=no") as (impostor, daemon, client):
        wait_until(lambda: impostor.connections >= 2, "it is cut off")
        before = daemon.memory_kib()
        wait_until(lambda: impostor.connections >= 6, "it is cut off again")
        tap.note(f"{len(told) * k.OPS_MAX} locks told over {impostor.connections} connections")  # of one file few ranges are kept
        assert daemon.memory_kib() - before < 64 << 10, "the daemon grows"
        assert client.call(nlm.PROG, 4, nlm.NULL).status == rpc.SUCCESS


@tap.test
def an_impostor_answers_what_was_not_asked():
    """Messages of every kind with fields of any value, from a fixed seed: the daemon begins the connection anew, grants nothing that
    the kernel has not confirmed, and does not end."""
    chance = random.Random(27)
    serving = threading.Event()  # a start waits for its keeper, so the first connection is an honest one until then

    def play(impostor, sock):
        impostor.welcome(sock)
        if not serving.is_set() or chance.random() < 0.8:
            sock.recv(1 << 16)  # LIST
            sock.send(k.HEADER.pack(k.HELD, 0))
        serving.wait(WAIT_S)
        for _ in range(chance.randrange(1, 30)):
            kind = chance.choice((k.HELLO, k.OPS, k.RESULTS, k.RESULTS, k.RESULTS, k.HELD, k.PATH, 99))
            count = chance.choice((0, 1, 2, 512, 1 << 31))
            body = {k.RESULTS: lambda: k.RESULT.pack(chance.choice((1, 2, 3, chance.getrandbits(64), 1 << 63)), chance.randrange(20),
                                                     chance.choice((-1, 0, 1, 1 << 30)), 1, 2, 3, chance.getrandbits(64),
                                                     chance.getrandbits(64), chance.randrange(4)),
                    k.HELD: lambda: held(chance.randrange(9), chance.getrandbits(64))}.get(kind, lambda: chance.randbytes(96))
            sock.send(k.HEADER.pack(kind, count) + b"".join(body() for _ in range(min(count, 512))))
            chance.random() < 0.5 and time.sleep(0.002)

    with daemon_with(play, "grace.seconds=0", "locks.durable=no") as (impostor, daemon, client):
        serving.set()
        lock = nlm.Lock(b"client.example", b"%032d" % 1, b"1@client", 1, 0, 0)
        xid = 0
        while impostor.connections < 150:
            xid += 1
            client.send(rpc.call_message(xid, nlm.PROG, 4, nlm.LOCK if xid % 3 else nlm.UNLOCK,
                                         nlm.lock_args(4, b"c", lock) if xid % 3 else nlm.unlock_args(4, b"c", lock)))
            client.is_silent(0.02)
        assert daemon.process.poll() is None, daemon.log()


def is_mute(_, sock):
    sock.recv(1 << 16)
    sock.recv(1 << 16)  # until the daemon hangs up


def is_mute_after_its_welcome(impostor, sock):
    impostor.welcome(sock)
    sock.recv(1 << 16)  # LIST
    sock.recv(1 << 16)


def answers_no_claim(impostor, sock):
    impostor.welcome(sock)
    while True:
        if sock.recv(1 << 16)[:4] == struct.pack("=I", k.LIST):
            sock.send(k.HEADER.pack(k.HELD, 0))


def lists_without_end(impostor, sock):
    impostor.welcome(sock)
    for first in range(0, 10 ** 7, k.OPS_MAX):
        sock.send(k.HEADER.pack(k.HELD, k.OPS_MAX) + b"".join(held(first + i) for i in range(k.OPS_MAX)))


def hangs_up(impostor, sock):
    impostor.welcome(sock)


def hangs_up_after_its_list(impostor, sock):
    impostor.welcome(sock)
    sock.recv(1 << 16)
    sock.send(k.HEADER.pack(k.HELD, 0))


SLOW_FLUSH_S = 0.1  # so that the keeper is there, and gone again, before the new epoch is recorded


@tap.test
def an_impostor_holds_up_a_start():
    """COH-06, COH-13: whatever a program in the keeper's place does, or does not, a start waits at most 5 s for it, also while flushes are slow;
    then requests are answered, and nothing is granted."""
    lock = nlm.Lock(b"client.example", b"%032d" % 1, b"1@client", 1, 0, 0)
    for play in (is_mute, is_mute_after_its_welcome, answers_no_claim, lists_without_end, hangs_up, hangs_up_after_its_list):
        with tempfile.TemporaryDirectory(prefix="holdfast-keeper-") as where:
            impostor = Impostor(f"{where}/socket", play)
            slow = {"LD_PRELOAD": os.environ["HOLDFAST_SLOW_SYNC"], "HOLDFAST_FLUSH_US": str(int(SLOW_FLUSH_S * 1e6))}
            daemon = Holdfastd(f"keeper.socket={where}/socket", "store.backend=lmdb", f"store.path={where}/store", env=slow)
            began = time.monotonic()
            with daemon, rpc.Tcp("192.0.2.1", PORT, source=("192.0.2.2", 0)) as client:
                tap.note(f"{play.__name__}: ready after {time.monotonic() - began:.1f} s")
                assert client.call(nlm.PROG, 4, nlm.NULL).status == rpc.SUCCESS
                client.sock.settimeout(0.5)
                with suppress(TimeoutError):  # a claim that is not answered is no answer
                    said = client.call(nlm.PROG, 4, nlm.LOCK, nlm.lock_args(4, b"c", lock))
                    stat = nlm.decode_result(nlm.LOCK, 4, said.results).stat
                    assert stat == "DENIED_GRACE_PERIOD", stat
            impostor.listener.close()


@tap.test
def it_is_another_user():
    """A user that is not the daemon's cannot connect, even where the socket's mode would let it."""
    with world() as (keeper, attacker, export, _):
        os.chmod(keeper.path, 0o777)
        os.chmod(Path(keeper.path).parent, 0o755)
        assert attacker.claim(ganesha(export / "file")) == k.OK
        code = (f"import socket\ns = socket.socket(1, 5)\ns.connect({keeper.path!r})\ns.settimeout(9)\n"
                "try:\n    s.send(bytes(72))\n    print(s.recv(99))\nexcept OSError as why:\n    print(why.errno)\n")
        done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "python3", "-c", code], stdout=subprocess.PIPE)
        assert done.stdout in (b"b''\n", b"32\n", b"104\n"), done.stdout


if __name__ == "__main__":
    netns.enter()
    tap.main()

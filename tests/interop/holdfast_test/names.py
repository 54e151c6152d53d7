"""Names of files (NAM-01, NAM-02): holdfast-namesd under test, handles as file servers make them, a played namer."""
import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import threading
from pathlib import Path

from .daemon import SANITIZERS

BUILT = Path(__file__).parents[3] / "build-asan/src/namesd/holdfast-namesd"
SOCKET = "/run/holdfast-names/socket"
GREETING = b"holdfast-names 1\n"


def program():
    return os.environ.get("HOLDFAST_NAMESD", str(BUILT))


def resolve(handle, *exports, options=()):
    """One question by hand: the path, or None."""
    command = [program(), "--config", "", "--log-level", "error", "--resolve", handle.hex(), *options]
    for export in exports:
        command += ["--export", str(export)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=60, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    err = done.stderr.decode()
    assert not any(word in err for word in SANITIZERS), err
    assert done.returncode in (0, 1), f"{done.returncode} {err}"
    return done.stdout.decode().rstrip("\n") if done.returncode == 0 else None


class Namesd:
    """with Namesd(export, ...) as namesd: it listens where holdfastd looks for it."""

    def __init__(self, *exports, path=SOCKET, options=()):
        self.path = path
        self.pass_fds, self.environment = (), {}
        self.command = [program(), "--config", "", "--socket", path, *options]
        for export in exports:
            self.command += ["--export", str(export)]

    def __enter__(self):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=self.pass_fds,
                                        env={**os.environ, **self.environment})
        self.lines = []
        ready = threading.Event()

        def read():
            for line in self.process.stderr:
                self.lines.append(line.decode(errors="replace"))
                if " ready " in self.lines[-1]:
                    ready.set()
            ready.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        assert ready.wait(20) and self.process.poll() is None, f"it does not start: {self.log()}"
        return self

    def log(self):
        return "".join(self.lines)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __exit__(self, failure, *_):
        ended = self.process.poll()
        if ended is None:
            self.process.terminate()
            ended = self.process.wait(20)
        self.reader.join(20)
        self.process.stderr.close()
        os.unlink(self.path)  # as systemd removes its directory
        if not failure:
            assert ended in (0, -9), f"exit status {ended}\n{self.log()}"
            assert not any(word in self.log() for word in SANITIZERS), self.log()


class Asker:
    """The protocol by hand."""

    def __init__(self, path=SOCKET, greet=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.file = self.socket.makefile("rwb")
        if greet:
            assert self.ask(GREETING) == GREETING

    def ask(self, line):
        self.file.write(line)
        self.file.flush()
        return self.file.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()


class PlayedNamer:
    """A namer that does as it is told: answer(id, handle) returns a line, None for silence, or raises to close."""

    def __init__(self, answer, greeting=GREETING, path=SOCKET):
        self.answer, self.greeting, self.path = answer, greeting, path
        self.asked = []
        self.connections = 0

    def __enter__(self):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError, EOFError), connection, connection.makefile("rwb") as file:
            for line in file:
                if line == GREETING:
                    said = self.greeting
                else:
                    _, number, handle = line.split()
                    self.asked.append(bytes.fromhex(handle.decode()))
                    said = self.answer(number, self.asked[-1])
                if said is not None:
                    file.write(said)
                    file.flush()

    def __exit__(self, *_):
        self.listener.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


# ---- handles ----

_libc = ctypes.CDLL(None, use_errno=True)


def kernel_handle(path):
    """(type, bytes) of name_to_handle_at(2)."""
    room = ctypes.create_string_buffer(136)
    struct.pack_into("Ii", room, 0, 128, 0)
    mount = ctypes.c_int()
    if _libc.name_to_handle_at(-100, os.fsencode(path), room, ctypes.byref(mount), 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    length, kind = struct.unpack_from("Ii", room, 0)
    return kind, room.raw[8:8 + length]


def ganesha(path, export_id=1):
    """As FSAL_VFS makes it on a file system without uuid; test_names_ganesha.py compares it with Ganesha's own."""
    kind, fid = kernel_handle(path)
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW)  # a symbolic link itself: it may lead to another file system
    fsid = struct.pack("<Q", os.statvfs(fd).f_fsid)
    os.close(fd)
    opaque = bytes([0x44]) + fsid + bytes([kind]) + fid
    whole = bytes([0x43, 0]) + struct.pack(">H", export_id) + bytes([len(opaque)]) + opaque
    return whole + bytes(-len(whole) % 4)


def nfsd(path, fsid_type=3, root=None, uuid=b"\0" * 16):
    """As the kernel's nfsd makes it, for each type of fsid: device and inode of the export's root, or a uuid."""
    kind, fid = kernel_handle(path)
    st = os.stat(root or os.path.dirname(path))
    major, minor, inode = os.major(st.st_dev), os.minor(st.st_dev), st.st_ino & 0xffffffff
    words = [int.from_bytes(uuid[i:i + 4], "little") for i in range(0, 16, 4)]
    fsid = {
        0: lambda: struct.pack(">HH", major, minor) + struct.pack("<I", inode),
        1: lambda: struct.pack("<I", 7),
        2: lambda: struct.pack(">II", major, minor) + struct.pack("<I", inode),
        3: lambda: struct.pack("<II", (minor & 0xff) | major << 8 | (minor & ~0xff) << 12, inode),
        4: lambda: struct.pack("<II", inode, words[0] ^ words[1] ^ words[2] ^ words[3]),
        5: lambda: struct.pack("<II", words[0] ^ words[2], words[1] ^ words[3]),
        6: lambda: uuid,
        7: lambda: struct.pack("<Q", st.st_ino) + uuid,
    }[fsid_type]()
    return bytes([1, 0, fsid_type, kind]) + fsid + fid


def unfs3_hash(inode):
    value = 0
    while inode:
        value ^= inode & 0xff
        inode >>= 8
    return value


def unfs3(path, generation=None, layout=21):
    """As unfs3 makes it: device, inode, generation, and a hash of each inode on the way from the root."""
    st = os.lstat(path)
    if generation is None:
        generation = struct.unpack("<I", kernel_handle(path)[1][4:8])[0]
    way, at = [], ""
    for part in str(path).strip("/").split("/"):
        at += "/" + part
        way.append(unfs3_hash(os.lstat(at).st_ino))
    head = {21: lambda: struct.pack("<IQII", st.st_dev & 0xffffffff, st.st_ino, generation, 0),
            17: lambda: struct.pack("<IQI", st.st_dev & 0xffffffff, st.st_ino, generation),
            13: lambda: struct.pack("<III", st.st_dev & 0xffffffff, st.st_ino, generation)}[layout]()
    return head + bytes([len(way)]) + bytes(way)

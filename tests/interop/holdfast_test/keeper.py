"""holdfast-keeper under test (COH-01), the daemon's side of its protocol by hand, and programs outside that lock."""
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

from .daemon import wait_until
from .names import Namesd

BUILT = Path(__file__).parents[3] / "build-asan/src/keeper/holdfast-keeper"

HELLO, OPS, RESULTS, LIST, HELD, PATH = range(1, 7)
RESOLVE, CLAIM, SET, TEST, WAIT, CANCEL, RELEASE_ALL, RENEW = range(8)
NONE, SHARED, EXCLUSIVE = range(3)
(OK, CONFLICT, CANCELLED, NOT_YET, UNKNOWN_HANDLE, STALE, NOT_IN_EXPORT, NOT_A_FILE, READ_ONLY, EXECUTED, FOREIGN, TOO_MANY_RANGES,
 TOO_MANY_FILES, TOO_MANY_WAITS, WAS_LET_GO, LEASE_OVER, NO_MEMORY, FAILED) = range(18)
WELCOME, BUSY, OTHER_VERSION = range(3)
LET_GO, TAKE_BACK = range(2)

HEADER = struct.Struct("=II")
HELLO_RECORD = struct.Struct("=IIQQQQQQII")
OP = struct.Struct("=QQQBBB5x64s")
RESULT = struct.Struct("=QIiQQQQQB7x")
PATH_RECORD = struct.Struct("=QII4096s")
OPS_MAX = 512


def is_gone(pid):
    """True of a process that has ended, whether its parent knows it or not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state in "ZX" and len(os.listdir(f"/proc/{pid}/task")) <= 1  # its other threads have its files, too
    except (FileNotFoundError, ProcessLookupError):
        return True


def program():
    return os.environ.get("HOLDFAST_KEEPER", str(BUILT))


class Keeper(Namesd):
    """with Keeper(export, ...) as keeper: it listens at path."""

    def __init__(self, *exports, path, options=()):
        super().__init__(*exports, path=path)
        self.command = [program(), "--config", "", "--user", "0", "--socket", path, *options]
        for export in exports:
            self.command += ["--export", str(export)]

    def worker(self):
        """The process that does the work; `process` guards its files. None while there is no other one yet."""
        pid = self.process.pid
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(words[0]) if words else None

    def kill_worker(self):
        """The guard keeps the locks, and starts another worker; returns when that serves."""
        ready = self.log().count(" ready ")
        os.kill(self.worker(), signal.SIGKILL)
        wait_until(lambda: self.log().count(" ready ") > ready, "another worker")

    def kill(self):
        """Both processes, so that nothing is left: neither has time to do anything about it."""
        worker = self.worker()
        os.kill(self.process.pid, signal.SIGSTOP)
        os.kill(worker, signal.SIGKILL)
        super().kill()
        wait_until(lambda: is_gone(worker), "the worker ends")


class PlayedSystemd:
    """Keeps the descriptions that the keeper gives it (FDSTORE), and starts the next keeper with them."""

    def __init__(self, where):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{where}/notify")
        self.where = where
        self.kept, self.said = {}, []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                text, ancillary, _, _ = self.socket.recvmsg(4096, 4096)
            except OSError:
                return
            words = dict(line.split("=", 1) for line in text.decode().splitlines())
            fds = [fd for _, _, data in ancillary for fd, in struct.iter_unpack("=i", data)]
            if words.get("FDSTORE") == "1":
                assert words["FDNAME"] not in self.kept, "stored twice"
                self.kept[words["FDNAME"]], = fds
            elif words.get("FDSTOREREMOVE") == "1":
                os.close(self.kept.pop(words["FDNAME"]))
            else:
                for fd in fds:  # BARRIER: all before it has been heard
                    os.close(fd)
            self.said.append(words)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def start(self, keeper):
        """Gives all descriptions to the next process, as systemd does."""
        names, fds = list(self.kept), [self.kept[name] for name in self.kept]
        program_ = ("import os, sys\nn = int(sys.argv[1])\nfds = [os.dup(int(fd)) for fd in sys.argv[2:2 + n]]\n"
                    "fds = [__import__('fcntl').fcntl(fd, 0, 1000) for fd in fds]\n"
                    "for i, fd in enumerate(fds):\n    os.dup2(fd, 3 + i)\n    os.close(fd)\nos.closerange(3 + n, 900)\n"
                    "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(n), LISTEN_FDNAMES=sys.argv[2 + n])\n"
                    "os.execv(sys.argv[3 + n], sys.argv[3 + n:])\n")
        keeper.command = [sys.executable, "-c", program_, str(len(fds)), *map(str, fds), ":".join(names), *keeper.command]
        keeper.pass_fds = fds
        keeper.environment = {"NOTIFY_SOCKET": f"{self.where}/notify"}
        return keeper


class Result:
    """One result by the names of protocol.h."""

    def __init__(self, data):
        (self.id, self.status, self.pid, self.device, self.inode, self.generation, self.offset, self.length,
         self.mode) = RESULT.unpack(data)

    def holder(self):
        return self.offset, self.length, self.mode


class Refused(Exception):
    """The keeper's welcome was none."""


class Daemon:
    """A program in the daemon's place."""

    def __init__(self, path, version=1, greet=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self.next_id = 1
        self.results = {}
        self.order = []
        if greet:
            self.greet(version)

    def greet(self, version):
        self.send(HELLO, HELLO_RECORD.pack(version, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        message, records = self.receive()
        assert message == HELLO
        self.hello = HELLO_RECORD.unpack(records[0])
        if self.hello[1] != WELCOME:
            raise Refused(self.hello[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, message, *records):
        self.socket.sendall(HEADER.pack(message, len(records)) + b"".join(records))

    def receive(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise EOFError
        message, count = HEADER.unpack_from(data)
        size = {HELLO: HELLO_RECORD, RESULTS: RESULT, HELD: OP}[message].size
        assert len(data) == HEADER.size + count * size, data
        return message, [data[HEADER.size + i * size:][:size] for i in range(count)]

    def op(self, kind, handle=b"", offset=0, length=0, mode=NONE, id_=None):
        if id_ is None:
            id_ = self.next_id
            self.next_id += 1
        return id_, OP.pack(id_, offset, length, kind, mode, len(handle), handle)

    def begin(self, *ops):
        """Sends operations, as many messages as they need; their ids."""
        for at in range(0, len(ops), OPS_MAX):
            self.send(OPS, *(record for _, record in ops[at:at + OPS_MAX]))
        return [id_ for id_, _ in ops]

    def take(self):
        message, records = self.receive()
        assert message == RESULTS, message
        for record in records:
            result = Result(record)
            assert result.id not in self.results, "two results for one operation"
            self.results[result.id] = result
            self.order.append(result.id)

    def result(self, id_):
        while id_ not in self.results:
            self.take()
        return self.results.pop(id_)

    def do(self, kind, handle=b"", offset=0, length=0, mode=NONE):
        """One operation and its result."""
        return self.result(self.begin(self.op(kind, handle, offset, length, mode))[0])

    def claim(self, handle, offset=0, length=0, mode=EXCLUSIVE):
        return self.do(CLAIM, handle, offset, length, mode).status

    def release(self, handle, offset=0, length=0, mode=NONE):
        return self.do(SET, handle, offset, length, mode).status

    def wait(self, handle, offset=0, length=0, mode=EXCLUSIVE):
        return self.begin(self.op(WAIT, handle, offset, length, mode))[0]

    def is_quiet(self, seconds):
        """True if no message comes."""
        return not select.select([self.socket], [], [], seconds)[0]

    def path(self, kind, path):
        id_ = self.next_id
        self.next_id += 1
        self.send(PATH, PATH_RECORD.pack(id_, kind, 0, os.fsencode(path)))
        return self.result(id_)

    def list(self):
        """What is held: a sorted list of (handle, offset, length, mode)."""
        self.send(LIST)
        held = []
        while True:
            message, records = self.receive()
            assert message == HELD
            for record in records:
                _, offset, length, kind, mode, size, handle = OP.unpack(record)
                assert kind == SET
                held.append((handle[:size], offset, length, mode))
            if len(records) < OPS_MAX:
                return sorted(held)


# ---- programs outside ----

OUTSIDE = """
import fcntl, os, struct, sys
F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW = 36, 37, 38
fd = os.open(sys.argv[1], os.O_RDWR)
def call(posix, wait, kind, offset, length):
    lock = struct.pack("hhqqi4x", kind, 0, offset, length, 0)
    command = {(1, 0): fcntl.F_SETLK, (1, 1): fcntl.F_SETLKW, (0, 0): F_OFD_SETLK, (0, 1): F_OFD_SETLKW}[posix, wait]
    try:
        fcntl.fcntl(fd, command, lock)
        return "ok"
    except OSError as why:
        return os.strerror(why.errno)
print("ready", flush=True)
for line in sys.stdin:
    print(call(*map(int, line.split())), flush=True)
"""


class Outside:
    """A program on the server that locks one file by fcntl; posix: by pid, otherwise by description."""

    def __init__(self, path, posix=True):
        self.posix = posix
        self.process = subprocess.Popen([sys.executable, "-c", OUTSIDE, str(path)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def begin(self, kind, offset=0, length=0, wait=False):
        self.process.stdin.write(f"{int(self.posix)} {int(wait)} {kind} {offset} {length}\n")
        self.process.stdin.flush()

    def end(self):
        return self.process.stdout.readline().rstrip("\n")

    def lock(self, mode=EXCLUSIVE, offset=0, length=0, wait=False):
        """True if it was granted."""
        self.begin({SHARED: fcntl.F_RDLCK, EXCLUSIVE: fcntl.F_WRLCK, NONE: fcntl.F_UNLCK}[mode], offset, length, wait)
        return self.end() == "ok"

    def unlock(self, offset=0, length=0):
        assert self.lock(NONE, offset, length)


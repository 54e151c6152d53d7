"""One file that is locked by NFSv3, by NFSv4, by SMB and by programs of the server: the real daemon and keeper, Ganesha, Samba and fcntl.

    with Worlds() as worlds, worlds.requester("smb") as smb:
        assert smb.lock(EXCLUSIVE, 0, 10)

Requesters of all worlds have the same methods: lock() is True if it was granted, unlock(), begin() and end() for a lock that waits.
"""
import contextlib
import ctypes.util
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from .daemon import Daemon
from .ganesha import Ganesha
from .keeper import EXCLUSIVE, NONE, Keeper, Outside, PlayedSystemd
from .nlm import GRANTED, LOCK, TEST, UNLOCK
from .peer import Network
from .samba import Samba, Smb
from .tap import Skip

READY = "the kernel holds what clients hold"
LIBRARY = ctypes.util.find_library("nfs")
WAIT_S = 20
KINDS = ("v3", "v4", "smb", "posix", "ofd")

VERSION4 = """
import ctypes, os, sys
nfs = ctypes.CDLL(sys.argv[1])
nfs.nfs_init_context.restype = ctypes.c_void_p
nfs.nfs_get_error.restype = ctypes.c_char_p
class Lock(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("whence", ctypes.c_int), ("pid", ctypes.c_uint32), ("start", ctypes.c_uint64),
                ("length", ctypes.c_uint64)]
context = ctypes.c_void_p(nfs.nfs_init_context())
file = ctypes.c_void_p()
for done in (nfs.nfs_set_version(context, 4), nfs.nfs_mount(context, sys.argv[2].encode(), sys.argv[3].encode()),
             nfs.nfs_open(context, sys.argv[4].encode(), os.O_RDWR, ctypes.byref(file))):
    if done:
        sys.exit("libnfs: " + (nfs.nfs_get_error(context) or b"?").decode())
print("ready", flush=True)
for line in sys.stdin:
    _, _, kind, offset, length = map(int, line.split())
    lock = Lock(kind, 0, os.getpid(), offset, length)
    done = nfs.nfs_fcntl(context, file, 0, ctypes.byref(lock))
    print("ok" if done == 0 else os.strerror(-done), flush=True)
"""


class Version4Once(Outside):
    """An NFSv4 client (libnfs). After a refusal or an unlock it has lost count of its requests: it takes one lock in its life."""

    def __init__(self, address, export, name):  # pylint: disable=super-init-not-called
        self.posix = True
        self.process = subprocess.Popen([sys.executable, "-c", VERSION4, LIBRARY, address, str(export), f"/{name}"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"


class Version4:
    """NFSv4 clients, a new one for each attempt; a lock that waits is asked for again and again, as NFSv4.0 clients do. It holds one
    range at a time."""

    def __init__(self, *where):
        self.where = where
        self.client = self.thread = None

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        if self.client:
            self.client.__exit__(*rest)
        self.client = None

    def attempt(self, mode, offset, length):
        self.client = Version4Once(*self.where)
        if self.client.lock(mode, offset, length):
            return True
        self.__exit__()
        return False

    def lock(self, mode=EXCLUSIVE, offset=0, length=0, wait=False):
        deadline = time.monotonic() + WAIT_S
        while not self.attempt(mode, offset, length):
            if not wait or time.monotonic() > deadline:
                return False
        return True

    def unlock(self, offset=0, length=0):
        self.client.unlock(offset, length)
        self.__exit__()

    def begin(self, *range_, wait):
        def run():
            self.got = self.lock(*range_, wait=wait)
        self.thread = threading.Thread(target=run)
        self.thread.start()

    def end(self):
        self.thread.join()
        return self.got


class Version3:
    """A played NFSv3 client."""

    def __init__(self, host, fh, owner=b"1"):
        self.host, self.fields = host, {"fh": fh, "oh": owner}
        self.calls = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def of(self, offset, length):
        return self.host.lock(offset=offset, length=length, **self.fields)

    def lock(self, mode=EXCLUSIVE, offset=0, length=0, wait=False):
        if wait:
            self.begin(mode, offset, length, wait=True)
            return self.end()
        if mode == NONE:
            return self.host.stat(UNLOCK, self.of(offset, length)) == "GRANTED"
        stat = self.host.stat(LOCK, self.of(offset, length), exclusive=mode == EXCLUSIVE)
        assert stat in ("GRANTED", "DENIED"), stat
        return stat == "GRANTED"

    def unlock(self, offset=0, length=0):
        assert self.lock(NONE, offset, length)

    def begin(self, mode, offset, length, wait):
        assert wait
        self.calls = len(self.host.received(GRANTED)) + 1
        self.stat = self.host.stat(LOCK, self.of(offset, length), exclusive=mode == EXCLUSIVE, block=True)
        assert self.stat in ("GRANTED", "BLOCKED"), self.stat

    def end(self):
        if self.stat == "BLOCKED":
            self.host.wait_for(GRANTED, self.calls, seconds=WAIT_S)
        return True

    def test(self, mode, offset, length):
        """The holder that is in the way, or None."""
        result = self.host.ask(TEST, self.of(offset, length), exclusive=mode == EXCLUSIVE)
        return result.holder if result.stat == "DENIED" else None


class Program(Outside):
    """A program of the server: F_SETLK ("posix") or F_OFD_SETLK ("ofd")."""

    def end(self):
        return super().end() == "ok"

    def lock(self, mode=EXCLUSIVE, offset=0, length=0, wait=False):
        self.begin(mode, offset, length, wait)
        return self.end()

    def begin(self, mode, offset=0, length=0, wait=False):
        super().begin({NONE: 2, EXCLUSIVE: 1}.get(mode, 0), offset, length, wait)


class SmbClient(Program):
    __init__ = Smb.__init__


class Worlds:
    """An export with one file, which Ganesha, Samba and the daemon with its keeper serve."""

    def __init__(self, *sets, ganesha=True, samba=True, systemd=False):
        self.sets, self.has, self.systemd = sets, {"v4": ganesha, "smb": samba}, systemd

    def __enter__(self):
        if not LIBRARY:
            raise Skip("libnfs is not installed")
        with contextlib.ExitStack() as stack:
            self.where = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-worlds-")))
            self.export = self.where / "export"
            self.path = self.export / "file0"
            self.network = stack.enter_context(Network())
            self.server = stack.enter_context(Ganesha(self.where, protocols="3, 4", nlm=False))
            if self.has["smb"]:
                stack.enter_context(Samba(self.where / "samba", self.export))
            self.keeper = self.daemon = None
            if self.systemd:
                self.systemd = PlayedSystemd(self.where)
                stack.callback(self.systemd.close)
            stack.callback(self.stop)
            self.start_keeper()
            self.start()
            self.n_hosts = 0
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *rest):
        self.stack.__exit__(*rest)

    # ---- daemon and keeper ----

    def start_keeper(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.where / "keeper")
        self.keeper = Keeper(self.export, path=str(self.where / "keeper"))
        if self.systemd:
            self.systemd.start(self.keeper)
        self.keeper.__enter__()

    def start(self):
        self.daemon = Daemon("store.backend=lmdb", f"store.path={self.where}/store", f"keeper.socket={self.where}/keeper",
                             "grace.seconds=40", "notify.timeout=1", *self.sets).start()
        self.daemon.wait_for_log(READY)

    def kill(self):
        self.daemon.kill()

    def kill_keeper(self):
        self.keeper.kill()

    def stop(self):
        if self.daemon:
            self.daemon.__exit__(None)
        if self.keeper:
            self.keeper.__exit__(None, None, None)

    # ---- who asks ----

    def requester(self, kind):
        if kind == "v3":
            self.n_hosts += 1
            return Version3(self.network.host(f"10.2.0.{self.n_hosts}", f"client{self.n_hosts}"), self.server.fh)
        if kind == "v4":
            return Version4(self.server.address, self.export, self.path.name)
        if kind == "smb":
            return SmbClient(self.path.name)
        return Program(self.path, posix=kind == "posix")

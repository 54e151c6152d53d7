#!/usr/bin/env python3
"""holdfast-keeper beside a real Ganesha: what it claims by Ganesha's handles of NFSv3 refuses Ganesha's clients of NFSv4, and theirs
refuse it (COH-01, COH-03). The NFSv4 client is libnfs."""
import contextlib
import ctypes.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast_test import keeper as k
from holdfast_test import netns, tap
from holdfast_test.ganesha import Ganesha
from holdfast_test.keeper import Daemon, Keeper, Outside
from holdfast_test.tap import Skip

LIBRARY = ctypes.util.find_library("nfs")
CLIENT = """
import ctypes, os, sys
nfs = ctypes.CDLL(sys.argv[1])
nfs.nfs_init_context.restype = ctypes.c_void_p
nfs.nfs_get_error.restype = ctypes.c_char_p
class Lock(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("whence", ctypes.c_int), ("pid", ctypes.c_uint32), ("start", ctypes.c_uint64),
                ("length", ctypes.c_uint64)]
context = ctypes.c_void_p(nfs.nfs_init_context())
file = ctypes.c_void_p()
for done in (nfs.nfs_set_version(context, 4), nfs.nfs_mount(context, b"127.0.0.1", sys.argv[2].encode()),
             nfs.nfs_open(context, sys.argv[3].encode(), os.O_RDWR, ctypes.byref(file))):
    if done:
        sys.exit("libnfs: " + (nfs.nfs_get_error(context) or b"?").decode())
print("ready", flush=True)
for line in sys.stdin:
    _, _, kind, offset, length = map(int, line.split())
    lock = Lock(kind, 0, os.getpid(), offset, length)
    done = nfs.nfs_fcntl(context, file, 0, ctypes.byref(lock))
    print("ok" if done == 0 else os.strerror(-done), flush=True)
"""


class Version4(Outside):
    """A client of NFSv4 that locks one file."""

    def __init__(self, export, name):  # pylint: disable=super-init-not-called
        self.posix = True
        self.process = subprocess.Popen([sys.executable, "-c", CLIENT, LIBRARY, str(export), f"/{name}"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"


@contextlib.contextmanager
def scene():
    """Ganesha with v3 and v4, a keeper for its export, a daemon connected, and a client of v4."""
    if not LIBRARY:
        raise Skip("libnfs is not installed")
    with contextlib.ExitStack() as stack:
        where = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-keeper-")))
        server = stack.enter_context(Ganesha(where, apart=False, port=4046, files=2, protocols="3, 4"))
        keeper = stack.enter_context(Keeper(where / "export", path=f"{where}/socket"))
        daemon = stack.enter_context(Daemon(keeper.path))
        yield server, daemon, where / "export", stack.enter_context(Version4(where / "export", "file0"))


def gets(export, mode, offset, length):
    """Whether a client of NFSv4 of its own gets the lock: libnfs has lost count of its requests after a refusal."""
    with Version4(export, "file0") as client:
        return client.lock(mode, offset, length)


@tap.test
def version_3_and_version_4_meet():
    """COH-01: exclusive and shared, in both directions; disjoint ranges do not meet. A local program meets both."""
    with scene() as (server, daemon, export, client), Outside(export / "file0") as local:
        fh = server.fh
        assert daemon.claim(fh, 0, 10) == k.OK
        assert not gets(export, k.EXCLUSIVE, 0, 10) and not gets(export, k.SHARED, 5, 1) and not local.lock(k.SHARED, 5, 1)
        assert client.lock(k.EXCLUSIVE, 20, 10)
        result = daemon.do(k.CLAIM, fh, 15, 10, k.SHARED)
        assert (result.status, result.holder(), result.pid) == (k.CONFLICT, (20, 10, k.EXCLUSIVE), -1), vars(result)
        assert daemon.do(k.TEST, fh, 25, 1, k.SHARED).status == k.CONFLICT, "Ganesha's own TEST says nobody for a local holder"
        assert daemon.claim(fh, 40, 10, k.SHARED) == k.OK and client.lock(k.SHARED, 40, 10)
        assert not gets(export, k.EXCLUSIVE, 40, 10)
        assert daemon.claim(fh, 40, 10, k.EXCLUSIVE) == k.CONFLICT
        assert daemon.release(fh) == k.OK and gets(export, k.EXCLUSIVE, 0, 10)


@tap.test
def a_claim_waits_for_version_4():
    """COH-03: made when the client of NFSv4 unlocks."""
    with scene() as (server, daemon, export, client):
        assert client.lock(k.EXCLUSIVE, 0, 10)
        id_ = daemon.wait(server.fh, 5, 1)
        assert daemon.is_quiet(0.1)
        before = time.monotonic()
        client.unlock(0, 10)
        assert daemon.result(id_).status == k.OK
        tap.note(f"made {(time.monotonic() - before) * 1000:.1f} ms after the client of NFSv4 began to unlock")
        assert not gets(export, k.SHARED, 5, 1)


@tap.test
def a_claim_outlives_ganesha():
    """COH-04: while Ganesha is restarted the claim stays, and its clients do not get in afterwards."""
    with scene() as (server, daemon, export, _), Outside(export / "file0") as local:
        assert daemon.claim(server.fh, 0, 10) == k.OK
        handle = server.fh
        server.restart()
        assert server.fh == handle and not local.lock(k.SHARED, 0, 1)
        assert not gets(export, k.EXCLUSIVE, 0, 10)
        assert daemon.list() == [(handle, 0, 10, k.EXCLUSIVE)]


if __name__ == "__main__":
    netns.enter()
    tap.main()

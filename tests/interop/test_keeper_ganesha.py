#!/usr/bin/env python3
"""holdfast-keeper beside a real Ganesha: what it claims by Ganesha's handles of NFSv3 refuses Ganesha's clients of NFSv4, and theirs
refuse it (COH-01, COH-03). The NFSv4 client is libnfs."""
import contextlib
import tempfile
import time
from pathlib import Path

from holdfast_test import keeper as k
from holdfast_test import netns, tap
from holdfast_test.ganesha import Ganesha
from holdfast_test.keeper import Daemon, Keeper, Outside
from holdfast_test.tap import Skip
from holdfast_test.worlds import LIBRARY, Version4Once

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
        yield server, daemon, where / "export", stack.enter_context(Version4Once(server.address, where / "export", "file0"))


def gets(export, mode, offset, length):
    """Whether a client of NFSv4 of its own gets the lock."""
    with Version4Once("127.0.0.1", export, "file0") as client:
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

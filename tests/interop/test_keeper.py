#!/usr/bin/env python3
"""holdfast-keeper with real programs beside it that lock by fcntl: what it claims they meet, what they hold it meets, and nothing
that it held is left behind (COH-01 to COH-04)."""
import contextlib
import fcntl
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast_test import keeper as k
from holdfast_test import netns, tap
from holdfast_test.daemon import wait_until
from holdfast_test.keeper import Daemon, Keeper, Outside, PlayedSystemd
from holdfast_test.names import ganesha, nfsd, unfs3


@contextlib.contextmanager
def world(*options, files=1):
    """An export with files in it, a keeper, and a daemon connected to it."""
    with tempfile.TemporaryDirectory(prefix="holdfast-keeper-") as where:
        export = Path(where, "export")
        export.mkdir()
        paths = [export / f"file{i}" for i in range(files)]
        for path in paths:
            path.write_bytes(b"untouched")
        with Keeper(export, path=f"{where}/socket", options=options) as keeper, Daemon(keeper.path) as daemon:
            keeper.export = export
            yield keeper, daemon, paths[0] if files == 1 else paths
        assert all(path.read_bytes() == b"untouched" for path in paths if path.exists())


def descriptors(keeper):
    """Files of the export that the keeper has open: both processes have the same."""
    found = []
    for fd in os.listdir(f"/proc/{keeper.process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(f"/proc/{keeper.process.pid}/fd/{fd}")
            if target.startswith(f"{keeper.export}/"):
                found.append(target)
    return found


def wait_until_closed(keeper):
    wait_until(lambda: not descriptors(keeper), f"no file is open: {descriptors(keeper)}")


@tap.test
def each_world_meets_the_other():
    """COH-01: exclusive and shared, by POSIX and by OFD locks, in both directions; disjoint ranges do not meet."""
    for posix in (True, False):
        with world() as (_, daemon, path), Outside(path, posix) as outside:
            fh = ganesha(path)
            assert daemon.claim(fh, 0, 10) == k.OK
            assert not outside.lock(k.EXCLUSIVE, 0, 1) and not outside.lock(k.SHARED, 9, 1)
            assert outside.lock(k.EXCLUSIVE, 10, 10)
            result = daemon.do(k.CLAIM, fh, 5, 10, k.SHARED)
            assert result.status == k.CONFLICT and result.holder() == (10, 10, k.EXCLUSIVE), vars(result)
            assert result.pid == (outside.process.pid if posix else -1)
            assert daemon.claim(fh, 20, 5, k.SHARED) == k.OK
            assert outside.lock(k.SHARED, 20, 5) and not outside.lock(k.EXCLUSIVE, 20, 5)
            assert daemon.claim(fh, 20, 5, k.EXCLUSIVE) == k.CONFLICT, "outside reads these bytes"
            assert daemon.list() == [(fh, 0, 10, k.EXCLUSIVE), (fh, 20, 5, k.SHARED)]


@tap.test
def a_claim_is_all_or_nothing():
    """COH-01: a claim that is refused in the middle leaves the bytes before it as they were."""
    with world() as (_, daemon, path), Outside(path) as outside, Outside(path) as other:
        fh = ganesha(path)
        assert daemon.claim(fh, 10, 10, k.EXCLUSIVE) == k.OK
        assert outside.lock(k.EXCLUSIVE, 30, 5)
        assert daemon.claim(fh, 0, 0, k.SHARED) == k.CONFLICT
        assert other.lock(k.EXCLUSIVE, 0, 10) and other.lock(k.EXCLUSIVE, 20, 10), "given back"
        assert not other.lock(k.SHARED, 10, 10)
        assert daemon.list() == [(fh, 10, 10, k.EXCLUSIVE)]


@tap.test
def a_weaker_claim_lowers_nothing():
    """COH-01: a shared claim over an exclusive range takes the bytes around it and leaves the range exclusive."""
    with world() as (_, daemon, path), Outside(path) as outside:
        fh = ganesha(path)
        assert daemon.claim(fh, 10, 10) == k.OK
        assert daemon.claim(fh, 0, 40, k.SHARED) == k.OK
        assert daemon.list() == [(fh, 0, 10, k.SHARED), (fh, 10, 10, k.EXCLUSIVE), (fh, 20, 20, k.SHARED)]
        assert outside.lock(k.SHARED, 0, 10) and not outside.lock(k.SHARED, 10, 1) and outside.lock(k.SHARED, 20, 20)
        assert daemon.release(fh, 5, 10, k.SHARED) == k.OK, "lowered to shared, and raised from nothing to shared"
        assert outside.lock(k.SHARED, 0, 15) and not outside.lock(k.SHARED, 15, 1)
        assert daemon.release(fh, 0, 0) == k.OK
        assert outside.lock(k.EXCLUSIVE)


@tap.test
def a_file_is_open_only_while_it_is_locked():
    """COH-01: shared locks need a description that reads; the first exclusive one needs one that writes and takes them over. The
    file is closed soon after the last release, and after a TEST."""
    with world() as (keeper, daemon, path), Outside(path) as outside:
        fh = ganesha(path)

        def flags():
            with contextlib.suppress(FileNotFoundError):
                for fd in os.listdir(f"/proc/{keeper.process.pid}/fd"):
                    if os.readlink(f"/proc/{keeper.process.pid}/fd/{fd}") == str(path):
                        text = Path(f"/proc/{keeper.process.pid}/fdinfo/{fd}").read_text()
                        return int(text.split("flags:")[1].split()[0], 8) & os.O_ACCMODE
            return None

        assert daemon.do(k.TEST, fh, 0, 0, k.EXCLUSIVE).status == k.OK
        wait_until_closed(keeper)
        assert daemon.claim(fh, 0, 10, k.SHARED) == k.OK and flags() == os.O_RDONLY
        assert daemon.claim(fh, 20, 10) == k.OK and flags() == os.O_RDWR
        assert len(descriptors(keeper)) == 1
        assert outside.lock(k.SHARED, 0, 10) and not outside.lock(k.EXCLUSIVE, 0, 10), "the shared lock moved along"
        assert daemon.release(fh, 0, 10) == k.OK and daemon.release(fh, 20, 10) == k.OK
        wait_until_closed(keeper)
        assert daemon.claim(fh, 100, 10) == k.OK
        ids = daemon.begin(daemon.op(k.SET, fh), daemon.op(k.CLAIM, fh, 100, 10, k.SHARED))
        assert [daemon.result(id_).status for id_ in ids] == [k.OK, k.OK] and flags() == os.O_RDONLY, "as if it had been closed at once"


@tap.test
def a_test_sees_outside_only():
    """COH-01: TEST names the holder outside, and never what the keeper itself holds."""
    with world() as (_, daemon, path), Outside(path) as outside:
        fh = ganesha(path)
        assert daemon.claim(fh, 0, 10) == k.OK
        assert daemon.do(k.TEST, fh, 0, 10, k.EXCLUSIVE).status == k.OK
        assert outside.lock(k.SHARED, 10, 10)
        assert daemon.do(k.TEST, fh, 0, 20, k.SHARED).status == k.OK
        result = daemon.do(k.TEST, fh, 0, 20, k.EXCLUSIVE)
        assert (result.status, result.holder(), result.pid) == (k.CONFLICT, (10, 10, k.SHARED), outside.process.pid)


@tap.test
def two_handles_of_a_file_exclude_each_other():
    """COH-01: one file by two exports, or by unfs3, is known by two handles; the kernel keeps them apart."""
    with world() as (_, daemon, path):
        one, two, three = ganesha(path, 1), ganesha(path, 2), unfs3(path)
        assert daemon.claim(one, 0, 10) == k.OK
        assert daemon.claim(two, 5, 1, k.SHARED) == k.CONFLICT
        assert daemon.claim(three, 5, 1, k.SHARED) == k.CONFLICT
        identities = {(r.device, r.inode, r.generation) for r in (daemon.do(k.RESOLVE, fh) for fh in (one, two, three))}
        assert len(identities) == 1 and identities.pop()[1] == os.stat(path).st_ino


@tap.test
def ranges_end_where_the_kernel_ends():
    """COH-01: 64 bits are clamped to 63; bytes that the kernel does not have conflict with nothing."""
    with world() as (_, daemon, path), Outside(path) as outside:
        fh = ganesha(path)
        assert daemon.claim(fh, (1 << 63) - 2, 1 << 63) == k.OK
        assert daemon.list() == [(fh, (1 << 63) - 2, 0, k.EXCLUSIVE)]
        assert not outside.lock(k.SHARED, (1 << 63) - 1, 1)
        assert daemon.claim(fh, 1 << 63, 10) == k.OK and daemon.claim(fh, (1 << 64) - 1, 0) == k.OK
        assert daemon.release(fh, 0, 0) == k.OK and daemon.list() == []


@tap.test
def reasons_are_told_apart():
    """COH-01: what cannot be claimed says why."""
    with world("--set", "ranges=3", "--set", "files=2", files=4) as (keeper, daemon, paths):
        handles = [ganesha(path) for path in paths]
        assert daemon.claim(b"\xff" * 20) == k.UNKNOWN_HANDLE
        assert daemon.claim(ganesha("/etc/passwd")) == k.NOT_IN_EXPORT
        os.mkdir(keeper.export / "folder")
        os.mkfifo(keeper.export / "pipe")
        assert daemon.claim(ganesha(keeper.export / "folder")) == k.NOT_A_FILE
        assert daemon.claim(ganesha(keeper.export / "pipe")) == k.NOT_A_FILE
        gone = ganesha(paths[3])
        os.unlink(paths[3])
        assert daemon.claim(gone) in (k.NOT_IN_EXPORT, k.STALE)
        for offset in (0, 10, 20):
            assert daemon.claim(handles[0], offset, 1) == k.OK
        assert daemon.claim(handles[0], 30, 1) == k.TOO_MANY_RANGES
        assert daemon.claim(handles[0], 0, 20) == k.OK, "joins two ranges"
        assert daemon.claim(handles[1]) == k.OK and daemon.claim(handles[2]) == k.TOO_MANY_FILES
        ids = daemon.begin(daemon.op(k.SET, handles[1]), daemon.op(k.CLAIM, handles[2], mode=k.EXCLUSIVE),
                           daemon.op(k.SET, handles[2]), daemon.op(k.CLAIM, handles[1], mode=k.EXCLUSIVE))
        assert {daemon.result(id_).status for id_ in ids} == {k.OK}, "one that is about to be closed gives way"
        subprocess.run(["cp", "/bin/sleep", keeper.export / "program"], check=True)
        assert daemon.release(handles[1]) == k.OK
        with subprocess.Popen([keeper.export / "program", "60"]) as running:
            assert daemon.claim(ganesha(keeper.export / "program")) == k.EXECUTED
            assert daemon.claim(ganesha(keeper.export / "program"), mode=k.SHARED) == k.OK
            running.kill()


@tap.test
def an_immutable_file_is_locked_for_reading_only():
    """COH-01: it cannot be opened for writing."""
    with world() as (_, daemon, path):
        if subprocess.run(["chattr", "+i", path], stderr=subprocess.DEVNULL).returncode:
            raise tap.Skip("no immutable files here")
        try:
            assert daemon.claim(ganesha(path)) == k.READ_ONLY
            assert daemon.claim(ganesha(path), mode=k.SHARED) == k.OK
        finally:
            subprocess.run(["chattr", "-i", path], check=True)


@tap.test
def a_lease_makes_a_claim_wait():
    """COH-01: opening a file whose lease another program holds must break it: not yet, and soon after it is."""
    with world() as (_, daemon, path):
        fd = os.open(path, os.O_RDWR)
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        assert daemon.claim(ganesha(path)) == k.NOT_YET
        id_ = daemon.wait(ganesha(path))
        assert daemon.is_quiet(0.05)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        assert daemon.result(id_).status == k.OK
        os.close(fd)


@tap.test
def a_waiting_claim_is_made_at_the_release():
    """COH-03: behind a POSIX and an OFD lock; a waiter inside the same range does not keep a release or a claim beside it from being
    done."""
    for posix in (True, False):
        with world() as (_, daemon, path), Outside(path, posix) as outside:
            fh = ganesha(path)
            assert outside.lock(k.EXCLUSIVE, 0, 10)
            id_ = daemon.wait(fh, 0, 20)
            assert daemon.is_quiet(0.1)
            assert daemon.claim(fh, 12, 4, k.SHARED) == k.OK, "inside of what is waited for"
            assert daemon.release(fh, 12, 4) == k.OK
            before = time.monotonic()
            outside.unlock()
            assert daemon.result(id_).status == k.OK
            tap.note(f"made {(time.monotonic() - before) * 1000:.1f} ms after the release")
            assert daemon.list() == [(fh, 0, 20, k.EXCLUSIVE)]
            assert not outside.lock(k.SHARED, 19, 1)


@tap.test
def a_waiting_shared_claim_lowers_nothing():
    """COH-03: while a shared claim waits for one part, an exclusive one is made in another part of its range: that stays exclusive
    when the wait is over."""
    with world() as (_, daemon, path), Outside(path) as outside:
        fh = ganesha(path)
        assert daemon.claim(fh, 100, 1) == k.OK, "the description may write from the beginning"
        assert outside.lock(k.EXCLUSIVE, 0, 5)
        id_ = daemon.wait(fh, 0, 20, k.SHARED)
        assert daemon.is_quiet(0.05)
        assert daemon.claim(fh, 10, 5) == k.OK
        outside.unlock()
        assert daemon.result(id_).status == k.OK
        assert daemon.list() == [(fh, 0, 10, k.SHARED), (fh, 10, 5, k.EXCLUSIVE), (fh, 15, 5, k.SHARED), (fh, 100, 1, k.EXCLUSIVE)]
        assert not outside.lock(k.SHARED, 10, 1) and outside.lock(k.SHARED, 0, 10)


@tap.test
def a_shared_wait_does_not_wait_for_an_exclusive_one():
    """COH-03: readers outside hold up an exclusive wait; a shared one of the same range, which they do not hold up, is made at once."""
    with world() as (_, daemon, path), Outside(path) as outside:
        fh = ganesha(path)
        assert outside.lock(k.SHARED)
        first = daemon.wait(fh)
        assert daemon.is_quiet(0.1)
        second = daemon.wait(fh, mode=k.SHARED)
        assert daemon.result(second).status == k.OK
        outside.unlock()
        assert daemon.result(first).status == k.OK


@tap.test
def a_wait_is_cancelled():
    """COH-03: a wait that is cancelled has one result, leaves no lock and no file, and its thread serves the next."""
    with world("--set", "threads=1") as (keeper, daemon, path), Outside(path) as outside:
        fh = ganesha(path)
        assert outside.lock()
        for _ in range(50):
            id_ = daemon.wait(fh)
            daemon.begin(daemon.op(k.CANCEL, id_=id_))
            assert daemon.result(id_).status == k.CANCELLED
        wait_until_closed(keeper)
        daemon.begin(daemon.op(k.CANCEL, id_=4711))
        id_ = daemon.wait(fh)
        outside.unlock()
        assert daemon.result(id_).status == k.OK


@tap.test
def many_waits_cost_few_threads_and_no_time():
    """COH-03: 1,000 waits on one range need one thread; 40 files with two threads are tried again after pauses. While they wait the
    keeper uses no processor time to speak of."""
    with world("--set", "threads=2", files=41) as (keeper, daemon, paths), contextlib.ExitStack() as stack:
        outside = [stack.enter_context(Outside(path)) for path in paths]
        assert all(one.lock() for one in outside)
        ids = daemon.begin(*(daemon.op(k.WAIT, ganesha(paths[0]), i, 1 + i % 3, k.EXCLUSIVE) for i in range(1000)))
        ids += daemon.begin(*(daemon.op(k.WAIT, ganesha(path), 0, 0, k.EXCLUSIVE) for path in paths[1:]))
        assert daemon.is_quiet(2)

        def ticks():
            fields = Path(f"/proc/{keeper.worker()}/stat").read_text().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        before = ticks()
        assert daemon.is_quiet(2)
        used = (ticks() - before) / os.sysconf("SC_CLK_TCK")
        tap.note(f"1,040 waits used {used * 1000:.0f} ms of processor time in 2 s")
        for one in outside:
            one.unlock()
        assert {daemon.result(id_).status for id_ in ids} == {k.OK}
        assert used < 1.0, used


@tap.test
def too_many_waits_are_refused():
    """COH-03: the limit is told, and what waits is not hurt."""
    with world("--set", "waits=5") as (_, daemon, path), Outside(path) as outside:
        fh = ganesha(path)
        assert outside.lock()
        ids = [daemon.wait(fh) for _ in range(6)]
        assert daemon.result(ids[5]).status == k.TOO_MANY_WAITS
        outside.unlock()
        assert [daemon.result(id_).status for id_ in ids[:5]] == [k.OK] * 5


@tap.test
def results_leave_in_the_order_of_what_was_done():
    """COH-01: operations are done in their order, one message has the results of one message."""
    with world() as (_, daemon, path):
        fh = ganesha(path)
        ids = daemon.begin(*(daemon.op(k.CLAIM if i % 2 == 0 else k.SET, fh, 0, 10, k.EXCLUSIVE if i % 2 == 0 else k.NONE)
                             for i in range(500)))
        message, records = daemon.receive()
        assert message == k.RESULTS and [k.Result(record).id for record in records] == ids
        assert all(k.Result(record).status == k.OK for record in records)


@tap.test
def locks_stay_when_the_daemon_is_gone():
    """COH-04: the connection is cut 20 times in all possible places; claims stay and are told to the next daemon, waits are forgotten
    and never made."""
    with world() as (keeper, daemon, path), Outside(path) as outside:
        fh = ganesha(path)
        assert daemon.claim(fh, 0, 10) == k.OK
        assert outside.lock(k.EXCLUSIVE, 20, 10)
        life = daemon.hello[2]
        for _ in range(20):
            daemon.wait(fh, 20, 10)
            daemon.socket.close()
            assert not outside.lock(k.SHARED, 5, 1)
            daemon.__init__(keeper.path)
            assert daemon.hello[2] == life and daemon.hello[3:5] == (1, 1)
            assert daemon.list() == [(fh, 0, 10, k.EXCLUSIVE)]
        outside.unlock(20, 10)
        assert daemon.is_quiet(0.2) and outside.lock(k.EXCLUSIVE, 20, 10)


@tap.test
def locks_end_with_the_keeper():
    """COH-04: killed, the keeper holds nothing (systemd keeps copies where it may); the next one has another life."""
    with world() as (keeper, daemon, path), Outside(path) as outside:
        assert daemon.claim(ganesha(path)) == k.OK and not outside.lock()
        keeper.kill()
        assert outside.lock()
        with Keeper(keeper.export, path=keeper.path) as again, Daemon(again.path) as next_daemon:
            assert next_daemon.hello[2] != daemon.hello[2] and next_daemon.list() == []
        Path(keeper.path).touch()


@tap.test
def locks_outlive_a_worker_that_is_killed():
    """COH-04: the guard has the same files open, and starts another worker, which knows what is held: exclusive and shared, however short the
    lock was there, time after time. What was being opened or waited for is gone. A list tells of all of it."""
    with world(files=3) as (keeper, daemon, paths), Outside(paths[0]) as writer, Outside(paths[1]) as reader, Outside(paths[2]) as holder:
        handles = [ganesha(path) for path in paths]
        assert holder.lock(k.EXCLUSIVE, 0, 1)
        lives = {daemon.hello[2]}
        for turn in range(5):
            assert daemon.claim(handles[0], 0, 10) == k.OK and daemon.claim(handles[0], 100 + 2 * turn, 1, k.SHARED) == k.OK
            assert daemon.claim(handles[1], 5, 5, k.SHARED) == k.OK
            daemon.wait(handles[2])
            held = daemon.list()
            keeper.kill_worker()
            assert not writer.lock(k.SHARED, 9, 1) and not reader.lock(k.EXCLUSIVE, 5, 1)
            try:
                daemon.list()
                raise AssertionError("a connection to nobody")
            except (EOFError, ConnectionResetError, BrokenPipeError):
                pass
            daemon = Daemon(keeper.path)
            assert daemon.hello[2] not in lives, "another life"
            lives.add(daemon.hello[2])
            assert daemon.list() == held and len(held) == 3 + turn
            wait_until(lambda: sorted(descriptors(keeper)) == [str(paths[0]), str(paths[1])], "what nobody holds is closed")
        assert daemon.claim(handles[1], 5, 5) == k.OK, "shared to exclusive needs another description"
        keeper.kill_worker()
        assert not reader.lock(k.SHARED, 5, 1)
        with Daemon(keeper.path) as daemon:
            assert daemon.release(handles[0]) == k.OK and daemon.release(handles[1]) == k.OK and daemon.list() == []
            assert writer.lock() and reader.lock()
            wait_until_closed(keeper)
            guest = Daemon(keeper.path, greet=False)  # has the number that a file had
            assert daemon.list() == []
        guest.greet(1)
        keeper.kill_worker()
        assert guest.socket.recv(99) == b"", "the guard keeps files only"
        guest.socket.close()


@tap.test
def the_guard_ends_with_its_worker_and_the_worker_with_its_guard():
    """COH-04: a worker that ends in order ends the keeper, and so does one that is killed before it serves; a guard that is killed leaves no
    worker behind."""
    with world() as (keeper, _, path):
        worker = keeper.worker()
        os.kill(worker, signal.SIGTERM)
        assert keeper.process.wait(20) == 0
    with world() as (keeper, daemon, path), Outside(path) as outside:
        worker = keeper.worker()
        assert daemon.claim(ganesha(path)) == k.OK
        keeper.process.kill()
        keeper.process.wait()
        wait_until(lambda: k.is_gone(worker), "the worker ends")
        assert outside.lock()


@tap.test
def the_lease_outlives_a_worker_that_is_killed():
    """COH-06: the next worker holds for as long as the lease lasts, and no longer."""
    with world() as (keeper, daemon, path), Outside(path) as outside:
        boot_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000
        assert daemon.do(k.RENEW, offset=boot_ms + 3000).status == k.OK and daemon.claim(ganesha(path), 0, 10) == k.OK
        keeper.kill_worker()
        assert not outside.lock(k.SHARED, 0, 1) or time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000 >= boot_ms + 3000
        wait_until(lambda: outside.lock(k.EXCLUSIVE, 0, 10), "the lease is over")
        with Daemon(keeper.path) as daemon:
            assert daemon.list() == [] and daemon.claim(ganesha(path), 20, 1) == k.LEASE_OVER


@tap.test
def systemd_keeps_the_locks_over_a_crash():
    """COH-04: files that stay locked are kept by systemd. The keeper is killed: no program gets in. The next one has the same locks and
    can release them; what is released is not kept any longer."""
    with tempfile.TemporaryDirectory(prefix="holdfast-keeper-") as where:
        paths = [Path(where, f"file{i}") for i in range(3)]
        for path in paths:
            path.touch()
        handles = [ganesha(path) for path in paths]
        systemd = PlayedSystemd(where)
        with Outside(paths[0]) as writer, Outside(paths[1]) as reader:
            with systemd.start(Keeper(where, path=f"{where}/socket")) as keeper, Daemon(keeper.path) as daemon:
                wait_until(lambda: systemd.said, "ready")
                assert systemd.said[0].get("READY") == "1"
                assert daemon.claim(handles[0], 0, 10) == k.OK and daemon.claim(handles[0], 100, 0, k.SHARED) == k.OK
                assert daemon.claim(handles[1], 5, 5, k.SHARED) == k.OK
                assert daemon.claim(handles[2], 0, 1) == k.OK and daemon.release(handles[2], 0, 1) == k.OK, "too short to be kept"
                wait_until(lambda: len(systemd.kept) == 2, "two are kept")
                held = daemon.list()
                keeper.kill()
                assert not writer.lock(k.SHARED, 9, 1) and not writer.lock(k.EXCLUSIVE, 1000, 1) and not reader.lock(k.EXCLUSIVE, 5, 1)
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(f"{where}/socket")  # as a killed process leaves it
            with systemd.start(Keeper(where, path=f"{where}/socket")) as keeper, Daemon(keeper.path) as daemon:
                assert daemon.list() == held and len(held) == 3
                assert not writer.lock(k.SHARED, 9, 1)
                assert daemon.claim(handles[1], 5, 5) == k.OK, "shared to exclusive needs another description"
                assert not reader.lock(k.SHARED, 5, 1)
                assert daemon.release(handles[0]) == k.OK
                assert writer.lock(k.EXCLUSIVE), "released although systemd has a copy"
                wait_until(lambda: [name[:2] for name in systemd.kept] == ["w-"], "the one for writing is kept")
                assert daemon.release(handles[1]) == k.OK and reader.lock(k.EXCLUSIVE)
                wait_until(lambda: not systemd.kept, "nothing is kept")
        systemd.close()


@tap.test
def systemd_keeps_every_lock_over_a_restart():
    """COH-04: a keeper that is stopped gives systemd what it holds, also what was locked just now; systemd does not hear of it too late."""
    with tempfile.TemporaryDirectory(prefix="holdfast-keeper-") as where:
        path = Path(where, "file")
        path.touch()
        systemd = PlayedSystemd(where)
        with Outside(path) as outside:
            for turn in range(3):
                with systemd.start(Keeper(where, path=f"{where}/socket")) as keeper, Daemon(keeper.path) as daemon:
                    assert len(daemon.list()) == turn
                    assert daemon.claim(ganesha(path), 10 * turn, 5) == k.OK
                    if turn == 1:  # what the guard is to do is done by the worker, too
                        keeper.process.kill()
                        keeper.process.wait()
                        wait_until(lambda: systemd.said[-1].get("BARRIER"), "the worker ends in order")
                assert len(systemd.kept) == 1 and not outside.lock(k.SHARED, 10 * turn, 1), turn
        systemd.close()


@tap.test
def systemd_keeps_the_lease_over_a_crash():
    """COH-06: with standbys, a keeper that is started again holds what it got back until the lease of before ends, and no longer. A
    lease that ended meanwhile is over."""
    def boot_ms():
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000

    for lease_ms, still_held in ((60000, True), (3000, False)):
        with tempfile.TemporaryDirectory(prefix="holdfast-keeper-") as where:
            path = Path(where, "file")
            path.touch()
            systemd = PlayedSystemd(where)
            with Outside(path) as outside:
                with systemd.start(Keeper(where, path=f"{where}/socket")) as keeper, Daemon(keeper.path) as daemon:
                    until = boot_ms() + lease_ms
                    assert daemon.do(k.RENEW, offset=until).status == k.OK and daemon.claim(ganesha(path), 0, 10) == k.OK
                    wait_until(lambda: len(systemd.kept) == 2, "file and lease are kept")
                    assert "lease" in systemd.kept
                    keeper.kill()
                assert not outside.lock(k.SHARED, 0, 1)
                socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(f"{where}/socket")  # as a killed process leaves it
                if not still_held:
                    time.sleep(max(0, until - boot_ms()) / 1000)
                with systemd.start(Keeper(where, path=f"{where}/socket")) as keeper, Daemon(keeper.path) as daemon:
                    if still_held:
                        assert daemon.list() == [(ganesha(path), 0, 10, k.EXCLUSIVE)] and not outside.lock(k.SHARED, 0, 1)
                        assert daemon.do(k.RENEW, offset=boot_ms() + 1000).length == 0
                    else:
                        wait_until(lambda: outside.lock(k.EXCLUSIVE, 0, 10), "let go")
                        assert daemon.list() == [] and daemon.claim(ganesha(path), 20, 1) == k.LEASE_OVER
                        assert daemon.do(k.RENEW, offset=boot_ms() + 60000).length == 1, "the daemon is told"
                        assert daemon.claim(ganesha(path), 20, 1) == k.OK
            systemd.close()


@tap.test
def one_daemon_at_a_time():
    """COH-01: a second daemon is told BUSY while the first is there; another version and another user are refused."""
    with world() as (keeper, daemon, path):
        fh = ganesha(path)
        assert daemon.claim(fh) == k.OK
        for version, answer in ((1, k.BUSY), (7, k.OTHER_VERSION)):
            try:
                Daemon(keeper.path, version=version)
                raise AssertionError("welcomed")
            except k.Refused as why:
                assert why.args == (answer,)
        assert daemon.list() == [(fh, 0, 0, k.EXCLUSIVE)]
        os.chmod(keeper.path, 0o777)
        os.chmod(Path(keeper.path).parent, 0o755)
        code = f"import socket; s = socket.socket(1, 5); s.connect({keeper.path!r}); s.settimeout(9); print(s.recv(9))"
        done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "python3", "-c", code], stdout=subprocess.PIPE)
        assert done.stdout == b"b''\n", done.stdout
    with world("--user", "nobody") as (_, daemon, path):
        assert daemon.claim(ganesha(path)) == k.OK, "root is welcome whatever the user is"


@tap.test
def the_lease_ends_everything():
    """COH-04: with standbys the keeper lets go when the lease ends, whatever the daemon does, and claims nothing until it is renewed;
    a lease that is over is not revived for what was held."""
    with world() as (keeper, daemon, path), Outside(path) as outside, Outside(path) as holder:
        fh = ganesha(path)

        def renew(ms):
            return daemon.do(k.RENEW, offset=time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000 + ms).status

        assert holder.lock(k.EXCLUSIVE, 100, 1)
        assert renew(60000) == k.OK and daemon.claim(fh, 0, 10) == k.OK
        assert renew(-1) == k.OK, "never shortened"
        assert not outside.lock(k.EXCLUSIVE, 0, 10)
        daemon.do(k.RELEASE_ALL)
        assert outside.lock(k.EXCLUSIVE, 0, 10)
        outside.unlock()
    with world() as (keeper, daemon, path), Outside(path) as outside, Outside(path) as holder:
        fh = ganesha(path)
        assert holder.lock(k.EXCLUSIVE, 100, 1)
        assert renew(700) == k.OK and daemon.claim(fh, 0, 10) == k.OK
        id_ = daemon.wait(fh, 100, 1)
        os.kill(keeper.worker(), signal.SIGSTOP)  # a late turn of the keeper changes nothing
        os.kill(keeper.worker(), signal.SIGCONT)
        assert outside.lock(k.EXCLUSIVE, 0, 10, wait=True), "the lease has ended"
        assert daemon.result(id_).status == k.LEASE_OVER
        assert daemon.claim(fh, 50, 1) == k.LEASE_OVER and daemon.list() == []
        assert renew(60000) == k.OK and daemon.claim(fh, 50, 1) == k.OK


@tap.test
def a_file_system_is_let_go():
    """COH-01: the operator lets a directory go: its files are closed and refused until it is taken back, others stay."""
    with world(files=2) as (keeper, daemon, paths), Outside(paths[0]) as outside, Outside(paths[1]) as holder:
        other, alike = keeper.export / "other", keeper.export / "otherwise"
        for folder in (other, alike):
            folder.mkdir()
            (folder / "file").touch()
        handles = [ganesha(path) for path in paths]
        assert daemon.claim(handles[0]) == k.OK and daemon.claim(ganesha(other / "file")) == k.OK
        assert daemon.path(k.LET_GO, other).length == 1
        assert [os.path.basename(path) for path in descriptors(keeper)] == ["file0"]
        assert daemon.claim(ganesha(other / "file")) == k.WAS_LET_GO
        assert daemon.claim(ganesha(alike / "file")) == k.OK, "its name only begins alike"
        assert daemon.release(ganesha(alike / "file")) == k.OK
        assert holder.lock()
        id_ = daemon.wait(handles[1])
        assert daemon.path(k.LET_GO, keeper.export).status == k.OK
        assert daemon.result(id_).status == k.WAS_LET_GO
        assert not descriptors(keeper) and outside.lock()
        daemon.path(k.TAKE_BACK, keeper.export)
        daemon.path(k.TAKE_BACK, other)
        assert daemon.claim(ganesha(other / "file")) == k.OK


@tap.test
def handles_of_every_server_are_opened():
    """COH-01: Ganesha's, nfsd's and unfs3's; after a rename too."""
    with world() as (keeper, daemon, path), Outside(path) as outside:
        for make in (ganesha, lambda p: nfsd(p, 3), lambda p: nfsd(p, 6), unfs3):
            fh = make(path)
            renamed = path.with_name("renamed")
            os.rename(path, renamed)
            assert daemon.claim(fh) == k.OK, fh.hex()
            assert not outside.lock()
            assert daemon.release(fh) == k.OK
            wait_until_closed(keeper)
            os.rename(renamed, path)


@tap.test
def after_a_boot_files_are_claimed_by_handles_alone():
    """COH-01, COH-02: the kernel has not seen the directories of a file system that was just mounted. Where all of it is exported a file
    is claimed at once. Where a part is, the file is searched for; one outside that part is never claimed. Then it can be unmounted."""
    with tempfile.TemporaryDirectory(prefix="holdfast-keeper-") as where:
        image, mount = f"{where}/disk.img", Path(where, "disk")
        mount.mkdir()
        subprocess.run(["truncate", "-s", "64M", image], check=True)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)

        def again():
            subprocess.run(["umount", mount], stderr=subprocess.DEVNULL)
            if subprocess.run(["mount", "-o", "loop", image, mount], stderr=subprocess.DEVNULL).returncode:
                raise tap.Skip("no loop device")

        again()
        try:
            for name in ("in/a/b", "out/a/b"):
                (mount / name).mkdir(parents=True)
                (mount / name / "file").touch()
            inside, outside = ganesha(mount / "in/a/b/file"), ganesha(mount / "out/a/b/file")
            again()
            with Keeper(mount, path=f"{where}/socket") as keeper, Daemon(keeper.path) as daemon:
                assert daemon.claim(inside) == k.OK and daemon.claim(outside) == k.OK
            again()
            with Keeper(mount / "in", path=f"{where}/socket") as keeper, Daemon(keeper.path) as daemon:
                assert daemon.claim(outside) == daemon.claim(inside) == k.NOT_YET
                assert daemon.result(daemon.wait(inside)).status == k.OK
                assert daemon.result(daemon.wait(outside)).status == k.NOT_IN_EXPORT
                assert subprocess.run(["umount", mount], stderr=subprocess.DEVNULL).returncode, "a lock keeps it busy"
                assert daemon.path(k.LET_GO, mount).length == 1
                subprocess.run(["umount", mount], check=True)
        finally:
            subprocess.run(["umount", mount], stderr=subprocess.DEVNULL)


def in_the_kernel(keeper):
    """What the kernel says that the keeper holds: a sorted list of (path, offset, length, mode)."""
    held = []
    for fd in os.listdir(f"/proc/{keeper.process.pid}/fd"):
        path = os.readlink(f"/proc/{keeper.process.pid}/fd/{fd}")
        for line in Path(f"/proc/{keeper.process.pid}/fdinfo/{fd}").read_text().splitlines():
            if line.startswith("lock:"):
                _, _, kind, _, mode, _, _, first, last = line.split()
                assert kind == "OFDLCK", line
                length = 0 if last == "EOF" else int(last) - int(first) + 1
                held.append((path, int(first), length, k.EXCLUSIVE if mode == "WRITE" else k.SHARED))
    return sorted(held)


@tap.test
def what_it_says_is_what_the_kernel_has():
    """COH-01, COH-03: claims, releases, waits and cancellations at random, from fixed seeds, among programs outside that lock and unlock.
    After each burst LIST and the kernel agree, byte for byte; at the end all waits have had one result."""
    for seed in range(12):
        chance = random.Random(seed)
        with world("--set", "threads=2", files=2) as (keeper, daemon, paths), contextlib.ExitStack() as stack:
            outside = [stack.enter_context(Outside(path, posix)) for path in paths for posix in (True, False)]
            name = {ganesha(path): str(path) for path in paths}
            handles, waiting = list(name), set()
            if seed % 2:  # from the beginning by a description that may write
                assert [daemon.claim(fh, 1000, 1) for fh in handles] == [k.OK] * 2

            def some():
                """A range of a few bytes, so that ranges overlap."""
                return chance.randrange(12), chance.randrange(1, 8)

            def operation():
                kind = chance.choice((k.CLAIM, k.CLAIM, k.SET, k.SET, k.WAIT, k.WAIT, k.TEST, k.CANCEL))
                if kind == k.CANCEL:
                    return daemon.op(kind, id_=chance.choice(sorted(waiting) or [1 << 40]))
                mode = chance.choice((k.NONE, k.NONE, k.SHARED)) if kind == k.SET else chance.choice((k.SHARED, k.EXCLUSIVE))
                id_, record = daemon.op(kind, chance.choice(handles), *some(), mode)
                if kind == k.WAIT:
                    waiting.add(id_)
                return id_, record

            def agree():
                """False for a moment while a wait comes through."""
                return sorted((name[fh], *rest) for fh, *rest in daemon_list(daemon)) == in_the_kernel(keeper)

            for _ in range(25):
                for _ in range(chance.randrange(4)):
                    chance.choice(outside).lock(chance.choice((k.NONE, k.NONE, k.SHARED, k.EXCLUSIVE)), *some())
                daemon.begin(*(operation() for _ in range(chance.randrange(1, 12))))
                wait_until(agree, f"the list is what the kernel has, seed {seed}")
                waiting -= set(daemon.results)
            for one in outside:
                one.unlock()
            for id_ in list(waiting):
                assert daemon.result(id_).status in (k.OK, k.CANCELLED)
            assert agree(), seed
            assert daemon.do(k.RELEASE_ALL).status == k.OK and in_the_kernel(keeper) == []


def daemon_list(daemon):
    """LIST while results of waits may still come."""
    daemon.send(k.LIST)
    held = []
    while True:
        message, records = daemon.receive()
        for record in records:
            if message == k.RESULTS:
                result = k.Result(record)
                daemon.results[result.id] = result
            else:
                _, offset, length, _, mode, size, handle = k.OP.unpack(record)
                held.append((handle[:size], offset, length, mode))
        if message == k.HELD and len(records) < k.OPS_MAX:
            return sorted(held)


@tap.test
def a_malformed_message_ends_the_connection_only():
    """COH-01: locks stay, the next daemon is served."""
    with world() as (keeper, daemon, path):
        fh = ganesha(path)
        assert daemon.claim(fh) == k.OK
        op = daemon.op(k.CLAIM, fh, mode=k.EXCLUSIVE)[1]
        bad = [b"", b"x", struct.pack("=II", 2, 9) + op, struct.pack("=II", 99, 0), struct.pack("=II", 3, 1) + bytes(80),
               struct.pack("=II", 2, 1) + op[:24] + b"\x99" + op[25:], struct.pack("=II", 1, 1) + bytes(64), b"z" * 60000,
               struct.pack("=II", 6, 1) + bytes(16) + b"/" * 4096]
        for message in bad:
            daemon.socket.send(message)
            try:
                daemon.receive()
                raise AssertionError(message[:40])
            except (EOFError, ConnectionResetError):
                daemon.socket.close()
            daemon.__init__(keeper.path)
            assert daemon.list() == [(fh, 0, 0, k.EXCLUSIVE)]
        for message in (b"", struct.pack("=II", 4, 0), struct.pack("=II", 1, 1) + bytes(63)):
            with Daemon(keeper.path, greet=False) as guest:
                guest.socket.send(message)
                assert guest.socket.recv(100) == b"" or message == b""
        assert daemon.list() == [(fh, 0, 0, k.EXCLUSIVE)]


@tap.test
def a_local_program_never_gets_in():
    """COH-04: the daemon's connection is lost 200 times while a program on the server tries for the lock in a loop."""
    with world() as (keeper, daemon, path):
        fh = ganesha(path)
        assert daemon.claim(fh, 0, 10) == k.OK
        code = ("import fcntl, sys\nf = open(sys.argv[1], 'r+')\nprint('ready', flush=True)\nn = 0\nwhile True:\n    n += 1\n    try:\n"
                "        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 5)\n        print('in', n, flush=True)\n        break\n"
                "    except OSError:\n        pass\n")
        with subprocess.Popen(["python3", "-c", code, path], stdout=subprocess.PIPE) as thief:
            assert thief.stdout.readline() == b"ready\n"
            for _ in range(200):
                daemon.begin(daemon.op(k.CLAIM, fh, 0, 10, k.EXCLUSIVE), daemon.op(k.SET, fh, 20, 10, k.NONE))
                daemon.socket.close()
                daemon.__init__(keeper.path)
            assert thief.poll() is None
            daemon.release(fh, 0, 10)
            assert thief.stdout.readline().startswith(b"in")
            thief.wait(20)


if __name__ == "__main__":
    netns.enter()
    tap.main()

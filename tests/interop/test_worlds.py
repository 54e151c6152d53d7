#!/usr/bin/env python3
"""Each world as holder and each as requester of one file: NFSv3 by our daemon, NFSv4 by Ganesha, SMB by Samba, programs of the server
(COH-10 to COH-13). Every cell is as with one lock manager for all."""
import contextlib
import threading
import time

from holdfast_test import netns, tap
from holdfast_test.daemon import wait_until
from holdfast_test.keeper import EXCLUSIVE, SHARED
from holdfast_test.peer import add_addresses
from holdfast_test.worlds import KINDS, READY, Worlds


def check_pair(holder, asker, cell):
    assert holder.lock(EXCLUSIVE, 0, 10), cell
    assert not asker.lock(EXCLUSIVE, 0, 10), f"{cell}: exclusive behind exclusive"
    assert not asker.lock(SHARED, 9, 1), f"{cell}: shared behind exclusive"
    assert asker.lock(EXCLUSIVE, 10, 10), f"{cell}: disjoint"
    asker.unlock(10, 10)
    holder.unlock(0, 10)
    assert holder.lock(SHARED, 0, 10) and asker.lock(SHARED, 0, 10), f"{cell}: shared beside shared"
    asker.unlock(0, 10)
    assert not asker.lock(EXCLUSIVE, 5, 1), f"{cell}: exclusive behind shared"
    holder.unlock(0, 10)
    assert asker.lock(EXCLUSIVE, 0, 10), f"{cell}: what is unlocked is free"
    asker.unlock(0, 10)


def check_wait(holder, asker, cell):
    assert holder.lock(EXCLUSIVE, 0, 10), cell
    asker.begin(EXCLUSIVE, 0, 10, wait=True)
    holder.unlock(0, 10)
    assert asker.end(), f"{cell}: waits"
    assert not holder.lock(SHARED, 0, 1), f"{cell}: has what it waited for"
    asker.unlock(0, 10)


@tap.test
def every_world_meets_every_other():
    """COH-10, COH-11: exclusive and shared, disjoint ranges, waiting; each world with each, itself included."""
    with Worlds() as worlds:
        for first in KINDS:
            for second in KINDS:
                with worlds.requester(first) as holder, worlds.requester(second) as asker:
                    check_pair(holder, asker, f"{first} holds, {second} asks")
                    check_wait(holder, asker, f"{first} holds, {second} asks")


@tap.test
def test_names_the_holder_of_each_world():
    """COH-12: range and mode, and the process where the kernel knows it: not for Ganesha's and Samba's clients."""
    with Worlds() as worlds, worlds.requester("v3") as asker:
        for kind in KINDS[1:]:
            with worlds.requester(kind) as holder:
                assert asker.test(EXCLUSIVE, 0, 100) is None
                for mode in (SHARED, EXCLUSIVE):
                    assert holder.lock(mode, 20, 10), kind
                    found = asker.test(EXCLUSIVE, 0, 100)
                    assert (found.exclusive, found.offset, found.length) == (mode == EXCLUSIVE, 20, 10), (kind, found)
                    assert found.svid == (holder.process.pid if kind == "posix" else -1), (kind, found)
                    holder.unlock(20, 10)


# ---- counting under locks ----

KILLS = 4
LOSS = "a program of this host has a client's lock"


def increment(path):
    path.write_text(str(int(path.read_text()) + 1))


def insist(v3, action):
    """The daemon may be killed while it is asked: asks until there is an answer."""
    while True:
        try:
            return action()
        except (OSError, EOFError, AssertionError):
            v3.host.close_clients()
            time.sleep(0.02)


def count(worlds, asker, stop, times):
    """Increments the number in the file until stop; appends to `times` for each. A lock that NFSv3 asks for while the daemon is away, or
    in grace, is asked for again."""
    of_v3 = hasattr(asker, "host")
    while not stop.is_set():
        got = insist(asker, lambda: asker.lock(EXCLUSIVE, 0, 1)) if of_v3 else asker.lock(EXCLUSIVE, 0, 1)
        if not got:
            time.sleep(0.002)
            continue
        increment(worlds.path)
        times.append(1)
        if of_v3:
            insist(asker, lambda: asker.unlock(0, 1))
            time.sleep(0.01)  # the NFSv4 client polls
        else:
            asker.unlock(0, 1)


def count_together(worlds, kinds, trouble):
    """One program of each world increments the number, all at the same time, while trouble() happens again and again. None is lost."""
    worlds.path.write_text("0")
    stop, counts = threading.Event(), [[] for _ in kinds]
    with contextlib.ExitStack() as stack:
        askers = [stack.enter_context(worlds.requester(kind)) for kind in kinds]
        threads = [threading.Thread(target=count, args=(worlds, asker, stop, times)) for asker, times in zip(askers, counts)]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            time.sleep(0.7)
            trouble()
        so_far = [len(times) for times in counts]
        wait_until(lambda: all(len(times) > before for times, before in zip(counts, so_far)), "each world goes on")
        stop.set()
        for thread in threads:
            thread.join()
    sums = [len(times) for times in counts]
    tap.note(f"{', '.join(kinds)}: {', '.join(map(str, sums))} increments")
    assert int(worlds.path.read_text()) == sum(sums), (kinds, sums, worlds.path.read_text())
    assert LOSS not in worlds.daemon.log(), worlds.daemon.log()


@tap.test
def no_increment_is_lost_while_the_daemon_is_killed():
    """COH-13: NFSv3 beside each other world, and all worlds at once."""
    def trouble():
        worlds.kill()
        worlds.start()

    with Worlds() as worlds:
        for kinds in (*(("v3", kind) for kind in KINDS[1:4]), KINDS):
            count_together(worlds, kinds, trouble)


@tap.test
def no_increment_is_lost_while_the_keeper_is_killed():
    """COH-04, COH-13: its guard has the locks until the next worker is there. Also where both, daemon and worker, are killed."""
    def trouble():
        worlds.keeper.kill_worker()

    def both():
        worlds.kill()
        worlds.keeper.kill_worker()
        worlds.start()

    with Worlds() as worlds:
        for kinds in (*(("v3", kind) for kind in KINDS[1:4]), KINDS):
            count_together(worlds, kinds, trouble)
        count_together(worlds, KINDS, both)


@tap.test
def no_increment_is_lost_while_systemd_restarts_the_keeper():
    """COH-04: systemd keeps the files (FDSTORE) when the keeper is stopped and started again."""
    def trouble():
        worlds.keeper.__exit__(None, None, None)
        worlds.start_keeper()

    with Worlds(systemd=True) as worlds:
        count_together(worlds, KINDS, trouble)


@tap.test
def a_moment_without_the_kernel_is_told():
    """COH-13: guard and worker are killed together, and nobody has kept their files: a program can lock a client's bytes, and have
    unlocked them when the next keeper claims them. That is no conflict, but the client was not alone: it is told, and counted."""
    with Worlds(ganesha=False, samba=False) as worlds, worlds.requester("v3") as v3, worlds.requester("posix") as other:
        assert v3.lock(EXCLUSIVE, 0, 10)
        worlds.kill_keeper()
        assert other.lock(EXCLUSIVE, 0, 10)
        other.unlock(0, 10)
        worlds.start_keeper()
        worlds.daemon.wait_for_log("the kernel did not hold all locks for a while")
        worlds.daemon.wait_for_log(READY, 2)  # the warning is written when the claims are sent, this when the kernel has them
        assert not other.lock(EXCLUSIVE, 0, 10)
        worlds.keeper.kill_worker()
        worlds.daemon.wait_for_log(READY, 3)
        assert worlds.daemon.log().count("the kernel did not hold all locks") == 1, "the guard had them"


if __name__ == "__main__":
    netns.enter()
    add_addresses()
    tap.main()

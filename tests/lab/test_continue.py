#!/usr/bin/env python3
"""test_continue.py [WORD...]: restarts that no client notices (recovery.notify=needed), with real Linux clients.

Applications of three guests hold locks, wait for others, and use SQLite, while Holdfast is killed, stopped and started with another
binary. What passes the bridge is captured. HOLDFAST_LAB_RESTARTS=N restarts it so often (12); `make lab TESTS=continue RESTARTS=50`.
"""
import shutil
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "interop"), str(Path(__file__).parent)]

from holdfast_lab import story  # noqa: E402
from holdfast_lab.guest import bring_up  # noqa: E402
from holdfast_lab.lab import Lab, main  # noqa: E402
from holdfast_lab.unnoticed import NEEDED, TIMES, Applications  # noqa: E402
from holdfast_test import tap  # noqa: E402

lab = None
CONTINUED = "continuing where the last run ended"
AT_ONCE = 8    # seconds: no waiting in it but that of a machine with too much to do
AGAIN = 30     # after which a Linux client that waits asks again
CUT_S = 60


def guests(*names):
    found = [lab.guests[name] for name in names]
    bring_up(found)
    for guest in found:
        if not guest.mounted:
            lab.ganesha.wait()
            guest.mount()
    return found


def serve(*sets, binary=None):
    if lab.holdfast and lab.holdfast.process.poll() is None:
        lab.holdfast.stop()
    return lab.start(*sets, binary=binary)


@tap.test
def restarts_while_applications_lock_wait_and_use_sqlite():
    """REC-01a, REC-02, REC-03a: given a holder, a waiter, applications that take turns at a lock and SQLite in two guests, when Holdfast
    is killed or stopped and started again and again, then none sees an error, nothing is counted twice or lost, the waiter is
    still served in its turn; and the bridge carries no notice, no reclaim and no DENIED_GRACE_PERIOD."""
    serve(*NEEDED)
    apps = Applications(lab, *guests("alpha", "beta"), "s10")
    upgraded = lab.directory / "holdfastd-upgraded"
    shutil.copy(lab.holdfast.command[0], upgraded)
    for n in range(TIMES):
        apps.fault_begins()
        if n % 3 == 2:
            assert lab.holdfast.stop() == 0
        else:
            lab.holdfast.crash()
        lab.start(*NEEDED, binary=upgraded if n % 2 else None).await_log(CONTINUED, AT_ONCE)
        apps.fault_ends()
        assert not lab.holdfast.has_logged("grace period begins")
    apps.end("restarts")


@tap.test
def a_client_that_crashed_while_we_were_down():
    """REC-04a: given alpha's lock and beta waiting, when Holdfast is killed, alpha loses power, and Holdfast continues, then alpha's lock
    is held until alpha boots; its own sm-notify frees it, and beta has it."""
    serve(*NEEDED)
    alpha, beta = guests("alpha", "beta")
    a, b = alpha.app("a", "s11"), beta.app("b", "s11")
    a.ask("set w 0 100", "granted")
    b.wait_for("wait w 0 100")
    lab.holdfast.crash()
    alpha.crash()
    lab.start(*NEEDED).await_log(CONTINUED, AT_ONCE)
    b.still_waits(5)
    alpha.boot(wait=False)
    watch = story.Watch()
    b.expect("granted", 90)
    lab.holdfast.await_log("client has crashed client=alpha.example", 1)
    alpha.wait_until_up()
    tap.note(f"lab: granted {watch.took:.1f} s after the power on of a client that crashed while Holdfast was down")


def cut_off(*sets):
    """Alpha, which holds what beta waits for, is cut off for a minute while Holdfast restarts: their applications."""
    serve(*sets)
    alpha, beta = guests("alpha", "beta")
    file = f"s12-{sets[0]}"
    a, b = alpha.app("a", file), beta.app("b", file)
    a.ask("set w 0 100", "granted")
    b.wait_for("wait w 0 100")
    alpha.cable.cut()
    watch = story.Watch()
    lab.holdfast.crash()
    lab.start(*sets)
    return alpha, a, b, watch


@tap.test
def a_client_that_is_cut_off_keeps_its_lock():
    """REC-04: given alpha cut off for a minute around the restart, with notify.on_failure=release, then its lock is still its own."""
    alpha, a, b, watch = cut_off(*NEEDED)
    b.still_waits(CUT_S - watch.took)
    alpha.cable.mend()
    story.tell("network", "the link of alpha is back")
    b.still_waits(AT_ONCE)
    a.ask("free 0 100", "freed", AGAIN + AT_ONCE)
    b.expect("granted", AGAIN + AT_ONCE)


@tap.test
def with_always_it_loses_its_lock():
    """The same with recovery.notify=always: alpha counts as crashed, and beta has the lock while alpha is away."""
    alpha, _, b, _ = cut_off("recovery.notify=always", *NEEDED[1:])
    b.expect("granted", CUT_S)
    alpha.cable.mend()


def opened():
    global lab
    lab = Lab("continue")
    for name in ("alpha", "beta"):
        lab.guest(name).boot(wait=False)
    return lab


if __name__ == "__main__":
    main(opened, sys.argv[1:])

#!/usr/bin/env python3
"""test_statd.py [WORD...]: Holdfast in the place of rpc.statd on an NFS client.

delta is a server with the kernel's own nfsd and lockd, and rpc.statd. gamma is a client of it that runs
Holdfast (server.programs=nsm) as its status monitor; beta is a client with rpc.statd, to compare.
"""
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "interop"), str(Path(__file__).parent)]

from holdfast_lab import image, story  # noqa: E402
from holdfast_lab.lab import HOSTS, Lab, main  # noqa: E402
from holdfast_test import daemon, tap  # noqa: E402

lab = None
EXPORT = "/var/lib/nfs/export"
FIRST_GRACE, GRACE = 10, 20  # of delta's kernel, which has it after each boot


def monitor_log():
    return lab.guests["gamma"].run("cat /tmp/holdfastd.log")  # kept in the story's file


@tap.test
def s7_the_kernel_takes_holdfast_for_its_status_monitor():
    """NSM-08: given Holdfast alone as status monitor, when gamma's kernel locks for the first time, then it
    asks Holdfast to monitor the server, and program 100021 stays the kernel's."""
    beta, gamma, delta = (lab.guests[name] for name in ("beta", "gamma", "delta"))
    for guest in (delta, beta, gamma):
        guest.wait_until_up()
    for guest in (beta, gamma):
        guest.mount(delta.address, path=EXPORT)
    c = gamma.app("c", "s7-first")
    c.ask("set w 0 100", "granted", 3 * GRACE)  # delta has just booted
    assert "client registered" in monitor_log(), monitor_log()
    assert " 662 " not in gamma.run("rpcinfo -p | grep 100021"), "Holdfast serves NLM here"
    c.end()


@tap.test
def s7_the_server_reboots_and_the_client_reclaims():
    """NSM-08: given gamma's lock on delta, when delta loses power and boots, then its notice reaches Holdfast,
    Holdfast calls gamma's kernel, and that reclaims: after grace beta is still refused."""
    beta, gamma, delta = (lab.guests[name] for name in ("beta", "gamma", "delta"))
    c, b = gamma.app("c", "s7-server"), beta.app("b", "s7-server")
    c.ask("set w 0 100", "granted")
    b.ask("set w 0 100", "refused EAGAIN")
    delta.crash()
    delta.boot(grace=GRACE)
    watch = story.Watch()
    b.say("set w 0 100")  # its kernel asks on and on while delta is in grace
    b.expect("refused EAGAIN", 90)
    tap.note(f"lab: kernel server rebooted: still locked out {watch.took:.1f} s after it was up")
    b.ask("set w 200 100", "granted", 60)
    log = monitor_log()
    assert "client has crashed" in log, log
    c.ask("free 0 100", "freed")
    b.ask("set w 0 100", "granted")
    for app in (b, c):
        app.end()


@tap.test
def s7_the_client_reboots_and_the_server_hears_of_it():
    """NSM-07, NSM-08: given gamma's lock and beta waiting for it, when gamma loses power and boots, then
    Holdfast notifies delta, as rpc.statd would, and beta has the lock."""
    beta, gamma = lab.guests["beta"], lab.guests["gamma"]
    c, b = gamma.app("c", "s7-client"), beta.app("b", "s7-client")
    c.ask("set w 0 100", "granted")
    b.wait_for("wait w 0 100")
    gamma.crash()
    b.still_waits(2)
    gamma.boot()
    try:
        b.expect("granted", 60)
    finally:
        story.tell("gamma", monitor_log(), aloud=False)


def opened():
    global lab
    lab = Lab("statd", server=False)
    archive = image.initramfs(HOSTS, daemon.program())
    lab.guest("delta", role="server").boot(wait=False, grace=FIRST_GRACE)
    lab.guest("beta").boot(wait=False)
    lab.guest("gamma", role="statd", archive=archive).boot(wait=False)
    return lab


if __name__ == "__main__":
    main(opened, sys.argv[1:])

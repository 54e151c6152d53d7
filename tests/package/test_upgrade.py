#!/usr/bin/env python3
"""Debian 12 becomes Debian 13 under a daemon that holds locks (PKG-02): one machine, `apt-get full-upgrade`, then the package of
the new release, then a reboot into it. Each step keeps every lock. Only by `make boot`: it downloads and takes minutes."""
import contextlib
import os
import shutil
import tempfile
import time

from holdfast_test import netns, tap
from holdfast_test.peer import Network
from holdfast_package import packages
from holdfast_package.load import Load
from holdfast_package.machine import CLIENTS, Machine, refusal
from holdfast_package.root import mirror, root

BEFORE, AFTER = "bookworm", "trixie"
SERVICE = "holdfastd.service"
APT = ["apt-get", "-y", "-qq", "-o", "Dpkg::Options::=--force-confold", "-o", "Acquire::Check-Valid-Until=false"]


def with_archives(lower, new):
    """A root of the old release whose apt knows the new one, and has fetched all that an upgrade needs."""
    ready = packages.CACHE / f"root-upgrade-{lower.name}"
    if ready.exists():
        return ready
    fresh = packages.CACHE / "upgrade.new"
    shutil.rmtree(fresh, ignore_errors=True)
    packages.call("cp", "-a", lower, fresh)
    for old in (fresh / "etc/apt").glob("sources.list*/*"):
        old.unlink()
    (fresh / "etc/apt/sources.list").write_text("\n".join(mirror(AFTER)) + "\n")
    shutil.copy("/etc/resolv.conf", fresh / "etc/resolv.conf")
    shutil.copy(new, fresh / "srv")
    for command in (["update"], ["--download-only", "full-upgrade"], ["--download-only", "install", f"/srv/{new.name}"]):
        packages.call("unshare", "--mount", "chroot", fresh, "env", "DEBIAN_FRONTEND=noninteractive", *APT, *command)
    fresh.rename(ready)
    return ready


def install(package):
    machine.run(*APT, "install", f"/srv/{package.name}")
    machine.wait_active(SERVICE)


def release():
    return machine.run("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME")


def store_kept(what, step):
    """Runs the step, which restarts the daemon, under load: each client reclaims, and no lock is lost."""
    load.start_measuring()
    load.forget_notices()
    step()
    load.recover()
    tap.note(f"{what}: {load.check()} locks kept, longest time without an answer {load.longest()[0]:.1f} s")


@tap.test
def the_old_release_holds_locks():
    install(old)
    assert release() == BEFORE
    load.begin()
    tap.note(f"{load.check()} locks")


@tap.test
def the_upgrade_of_the_system_keeps_every_lock():
    """The daemon is still that of the old release; its libraries are replaced on the disk under it."""
    start = time.monotonic()
    machine.run(*APT, "--no-download", "full-upgrade")
    assert release() == AFTER
    machine.wait_active(SERVICE)
    tap.note(f"full-upgrade: {time.monotonic() - start:.0f} s, {load.check()} locks kept")


@tap.test
def the_old_package_starts_on_the_new_release():
    """Its libraries are the new release's now, libuv 1.50 among them."""
    store_kept("the old package on the new release", lambda: machine.run("systemctl", "restart", SERVICE))


@tap.test
def the_package_of_the_new_release_keeps_every_lock():
    store_kept("the new package", lambda: install(new))
    assert machine.run("dpkg-query", "-W", "-f", "${Version}", "holdfast") == version


@tap.test
def the_new_release_boots_with_every_lock():
    store_kept("after a reboot", lambda: machine.reboot().wait_active(SERVICE))
    load.serve_waiters()
    said = machine.run("holdfastctl", "doctor")
    assert "FAIL" not in said, said
    log = machine.run("journalctl", "-b", "--no-pager", "-u", SERVICE)
    assert "outside the filter" not in log, log


if __name__ == "__main__":
    if os.environ.get("HOLDFAST_BOOT") != "all":
        tap.skip_all("only by make boot: it downloads a release")
    if os.geteuid() != 0:
        tap.skip_all("needs root")
    try:
        was = packages.current(BEFORE)[1]["holdfast"]
        new = packages.current(AFTER)[1]["holdfast"]
        version = packages.call("dpkg-deb", "-f", new, "Version").strip()
        lower = with_archives(root("bare", was, BEFORE), new)
    except tap.Skip as why:
        tap.skip_all(str(why))
    netns.enter(addresses=())
    netns.run("ip", "route", "add", "local", CLIENTS, "dev", "lo")
    why_not = refusal(lower)
    if why_not:
        tap.skip_all(why_not)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-"))
        old = packages.renamed(was, version + "~deb12", folder)
        machine = stack.enter_context(Machine(lower, old, new)).boot()
        network = stack.enter_context(Network())
        load = Load(network)
        result = tap.run()
        load.end()
    raise SystemExit(result)

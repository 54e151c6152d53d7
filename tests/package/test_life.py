#!/usr/bin/env python3
"""The life of the package under a real systemd (PKG-01 to PKG-04): installed on a bare system, in the way of
obstacles, upgraded and downgraded under load, removed, purged. One machine goes through all of it, in this order."""
import contextlib
import json
import re
import tempfile
import threading
from pathlib import Path

from holdfast_test import nlm, rpcbind, tap
from holdfast_test.peer import Network
from holdfast_package import packages
from holdfast_package.load import Load
from holdfast_package.machine import SERVER, Machine, machine_setup, wait_until

SERVICE = "holdfastd.service"
# Beside what a package brings: dpkg's records, logs, caches, the user database, what systemd writes at each boot.
NOT_OURS = re.compile(r"(run|tmp|srv|root|proc|sys|dev|var/(log|cache|tmp|lib/(dpkg|apt|systemd|dbus|ucf|polkit-1|private)))(/|$)|"
                      r"etc/(passwd|shadow|group|gshadow|subuid|subgid|\.pwd.*|hostname|hosts|machine-id|mtab)-?$")


def install(machine, package, *options):
    return machine.run("apt-get", "install", "-y", "-qq", *options, f"/srv/{package.name}")


def version(machine):
    return machine.run("dpkg-query", "-W", "-f", "${Version}", "holdfast")


def leftovers(machine):
    """Files and directories that were not there before the package."""
    there = {name for name in machine.listing() if not NOT_OURS.match(name)}
    return {name for name in there if not (machine.lower / name).is_dir()}


@tap.test
def it_serves_when_installed_on_a_bare_system():
    """No rpcbind, no configuration: one command, and a lock is granted to another host."""
    before.update(leftovers(machine))
    install(machine, previous)
    machine.wait_active(SERVICE)
    assert machine.unit(SERVICE, "UnitFileState") == "enabled"
    wait_until(lambda: rpcbind.getport(nlm.PROG, 4, "tcp", SERVER) == 4045, "clients find it by port 111", 20)
    with Network() as network:
        alice = network.host("10.2.0.1", "alice")
        assert alice.stat(nlm.LOCK) == "GRANTED"
        assert "alice" in machine.run("holdfastctl", "locks")
        assert alice.stat(nlm.UNLOCK) == "GRANTED"
    machine.run("systemctl", "reload", SERVICE)
    wait_until(lambda: "configuration reloaded" in machine.ask("journalctl", "--no-pager", "-u", SERVICE), "it is reloaded", 20)


@tap.test
def what_cannot_mend_itself_is_not_started_again():
    """A wrong configuration: status 2. A store that is not ours: 3. systemd leaves it, and says why."""
    machine.write("/etc/systemd/system/holdfastd.service.d/bad.conf",
                  "[Service]\nExecStart=\nExecStart=/usr/sbin/holdfastd --set server.port=0\n")
    stays_failed(2)
    machine.write("/etc/systemd/system/holdfastd.service.d/bad.conf",
                  "[Service]\nExecStartPre=/bin/sh -c 'mkdir -p /var/lib/holdfast/foreign; "
                  "seq 9999 >/var/lib/holdfast/foreign/data.mdb'\n"
                  "ExecStart=\nExecStart=/usr/sbin/holdfastd --set store.path=/var/lib/holdfast/foreign\n")
    stays_failed(3, "until an operator repairs it", "the store")
    (machine.root / "etc/systemd/system/holdfastd.service.d/bad.conf").unlink()
    machine.run("rm", "-r", "/etc/systemd/system/holdfastd.service.d", "/var/lib/holdfast/foreign")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", SERVICE)


def stays_failed(status, *words):
    machine.run("systemctl", "daemon-reload")
    machine.ask("systemctl", "restart", SERVICE)
    state, sub, code, restarts = machine.unit(SERVICE, "ActiveState", "SubState", "ExecMainStatus", "NRestarts")
    assert (state, sub, code, restarts) == ("failed", "failed", str(status), "0"), machine.tell(SERVICE)
    shown = machine.ask("systemctl", "status", "--no-pager", "-l", SERVICE)
    for word in words:
        assert word in shown, shown


@tap.test
def systemd_never_gives_up_while_an_obstacle_may_go_away():
    """Another program has the port for longer than systemd's usual five attempts. The status line names it, and when
    it has gone the daemon serves without any command."""
    machine.run("systemctl", "stop", SERVICE)
    machine.run("systemd-run", "--unit=obstacle", "python3", "-c",
                "import socket, time; s = socket.socket(); s.bind(('0.0.0.0', 4045)); s.listen(); time.sleep(600)")
    wait_until(lambda: machine.unit("obstacle.service", "ActiveState") == "active", "the obstacle runs", 20)
    machine.ask("systemctl", "start", SERVICE)
    wait_until(lambda: int(machine.unit(SERVICE, "NRestarts")) > 6, lambda: machine.tell(SERVICE))
    seen = set()
    wait_until(lambda: seen.add(machine.unit(SERVICE, "StatusText")) or any("4045" in text for text in seen),
               lambda: f"the status line names the port: {seen}", 20)
    tap.note("while its port is taken: " + next(text for text in seen if "4045" in text))
    machine.run("systemctl", "stop", "obstacle.service")
    machine.wait_active(SERVICE)


def replace(package, *options, unnoticed=False):
    """Installs another version under load: what changed for clients. unnoticed: they are told nothing, and do not reclaim."""
    with Network() as network:
        load = Load(network)
        load.begin()
        load.start_measuring()
        load.forget_notices()
        result = []
        worker = threading.Thread(target=lambda: result.append(install(machine, package, *options)))
        worker.start()
        try:
            if not unnoticed:
                load.recover()
        finally:
            worker.join()
        assert result, "the installation failed"
        machine.wait_active(SERVICE)
        if unnoticed:
            load.reconnect()
            assert not load.told(), load.told()
        locks = load.check()
        waiters = load.serve_waiters()
        load.end()
        silence, pause = load.longest()
        rounds = sum(pulse.rounds for pulse in load.pulses)
        load.release()
    return f"{locks} locks and {waiters} waiters kept, under {rounds} locks of other clients: longest time without an " \
           f"answer {silence:.2f} s, without a granted lock {pause:.2f} s"


@tap.test
def an_upgrade_under_load_keeps_every_lock():
    assert version(machine) != wanted
    tap.note("upgrade: " + replace(current))
    assert version(machine) == wanted


@tap.test
def a_downgrade_under_load_keeps_every_lock():
    """The store has the same format in both."""
    tap.note("downgrade: " + replace(previous, "--allow-downgrades"))
    assert version(machine) != wanted


@tap.test
def upgrades_that_no_client_notices():
    """REC-01a, REC-03a: with recovery.notify=needed: to and fro. None is told, none reclaims, and waiters are served in
    their order. The first start with it still tells all, because the run before did not record waiters."""
    machine.write("/etc/systemd/system/holdfastd.service.d/needed.conf",
                  "[Service]\nExecStart=\nExecStart=/usr/sbin/holdfastd --set recovery.notify=needed\n")
    machine.run("systemctl", "daemon-reload")
    tap.note("noticed: " + replace(current))
    for package, options in ((previous, ("--allow-downgrades",)), (current, ()), (previous, ("--allow-downgrades",))):
        was = version(machine)
        tap.note("unnoticed: " + replace(package, *options, unnoticed=True))
        assert version(machine) != was
        assert json.loads(machine.run("holdfastctl", "--json", "status"))["continued"]
    machine.run("rm", "-r", "/etc/systemd/system/holdfastd.service.d")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", SERVICE)  # which records as an older version could read it
    machine.wait_active(SERVICE)


@tap.test
def a_store_of_a_newer_version_is_refused_with_a_reason():
    """After a downgrade over a change of the format: status 3, nothing is overwritten, the reason is shown."""
    machine.run("systemctl", "stop", SERVICE)
    change_format(+100)
    machine.ask("systemctl", "start", SERVICE)
    state, code = machine.unit(SERVICE, "ActiveState", "ExecMainStatus")
    shown = machine.ask("systemctl", "status", "--no-pager", "-l", SERVICE)
    assert (state, code) == ("failed", "3") and "run the newer" in shown, shown
    change_format(-100)
    machine.run("systemctl", "start", SERVICE)
    machine.wait_active(SERVICE)


def change_format(by):
    """Adds to the number of the format in the tree (entry 1 of the table "state"), by LMDB's own tools."""
    store = machine.root / "var/lib/holdfast"
    lines = packages.call("mdb_dump", "-s", "state", store).splitlines()
    at = lines.index(" " + (1).to_bytes(8, "little").hex()) + 1
    number = int.from_bytes(bytes.fromhex(lines[at].strip()), "little")
    lines[at] = " " + (number + by).to_bytes(8, "little").hex()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        Path(folder, "dump").write_text("\n".join(lines) + "\n")
        packages.call("mdb_load", "-s", "state", "-f", f"{folder}/dump", store)


@tap.test
def removal_keeps_the_store_and_a_new_installation_finds_it():
    with Network() as network:
        alice = network.host("10.2.0.1", "alice")
        assert alice.stat(nlm.LOCK) == "GRANTED"
        alice.close_clients()
        machine.run("apt-get", "remove", "-y", "-qq", "holdfast")
        assert machine.unit(SERVICE, "ActiveState") != "active"
        assert not (machine.root / "usr/sbin/holdfastd").exists() and (machine.root / "var/lib/holdfast").is_dir()
        install(machine, current)
        machine.wait_active(SERVICE)
        alice.wait_for(6, prog=100024, seconds=60)
        assert alice.stat(nlm.LOCK, reclaim=True) == "GRANTED"


@tap.test
def purge_leaves_nothing_but_the_user():
    machine.run("apt-get", "purge", "-y", "-qq", "holdfast")
    assert leftovers(machine) <= before, leftovers(machine) - before
    assert "holdfast" in machine.run("getent", "passwd", "holdfast")
    assert machine.unit(SERVICE, "LoadState") == "not-found", machine.ask("systemctl", "cat", SERVICE)
    assert SERVICE not in machine.ask("systemctl", "--failed", "--no-pager")


if __name__ == "__main__":
    current, roots = machine_setup("bare")
    wanted = packages.call("dpkg-deb", "-f", current, "Version").strip()
    before = set()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-"))
        previous = packages.renamed(current, wanted + "~previous", folder)
        machine = stack.enter_context(Machine(roots["bare"], previous, current)).boot()
        result = tap.run()
    raise SystemExit(result)

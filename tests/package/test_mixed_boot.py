#!/usr/bin/env python3
"""A machine that boots systemd with Ganesha (NFSv3 and NFSv4), Samba and the keeper: keeper and daemon start before them, and the kernel
holds what is recorded before one of them serves (COH-06, COH-13). Ganesha is restarted alone: new NFSv3 locks are held back (GRC-04). The
keeper's processes are killed, and it is restarted: no lock leaves the kernel (COH-04). holdfast-namesd, in its unit, names the file (NAM-01)."""
import json
import os
import time

from holdfast_test import nlm, tap
from holdfast_test.keeper import EXCLUSIVE, SHARED, Outside
from holdfast_test.nlm import LOCK, UNLOCK
from holdfast_test.peer import NSM, SM_NOTIFY, Network
from holdfast_package import packages
from holdfast_package.machine import Machine, machine_setup, wait_until
from test_boot import EXPORT, GANESHA, SERVICE, clients_find_it, file_of

KEEPER = "holdfast-keeper.service"
NAMESD = "holdfast-namesd.service"
KILLS = 8  # in a row; systemd gives up after 5 in 10 s, if the unit does not say otherwise
NEIGHBOURS = ("nfs-ganesha.service", "smbd.service")
SAMBA = f"""[global]
  security = user
  map to guest = bad user
  disable netbios = yes
  load printers = no
[share]
  path = {EXPORT}
  guest ok = yes
  read only = no
"""


def prepare(machine):
    machine.write("/etc/ganesha/ganesha.conf", GANESHA.replace("Protocols = 3;", "Protocols = 3, 4;"))
    machine.write("/etc/samba/smb.conf", SAMBA)
    machine.add_disk(EXPORT)
    machine.write(f"{EXPORT}/file", "")
    packages.call("systemctl", "--quiet", f"--root={machine.root}", "mask", "nmbd.service", "samba-ad-dc.service")


def install(machine):
    machine.write("/etc/holdfast/keeper.conf", f"[keeper]\nexport={EXPORT}\n")
    machine.write("/etc/holdfast/holdfast.conf", "[keeper]\nsocket=/run/holdfast-keeper/socket\n")
    machine.write("/etc/holdfast/names.conf", f"[names]\nexport={EXPORT}\n")
    machine.run("apt-get", "install", "-y", "-qq", "-o", "Dpkg::Options::=--force-confold", f"/srv/{package.name}")
    machine.run("systemctl", "enable", "--now", KEEPER, NAMESD)
    machine.run("systemctl", "restart", SERVICE)
    machine.wait_active(SERVICE)


def began(machine, unit):
    """When systemd began to start it, and when it was active: microseconds."""
    return [int(at) for at in machine.unit(unit, "InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic")]


def check_order(machine):
    """The daemon is active, which it says when the kernel holds what is recorded, before a neighbour begins to start."""
    keeper, daemon = began(machine, KEEPER), began(machine, SERVICE)
    assert keeper[1] <= daemon[0] <= daemon[1], (keeper, daemon)
    for unit in NEIGHBOURS:
        machine.wait_active(unit)
        assert began(machine, unit)[0] >= daemon[1], f"{unit} starts too early: {began(machine, unit)}, {daemon}"


def status(machine):
    return json.loads(machine.run("holdfastctl", "status", "--json"))


def paths(machine):
    """Of the files with locks, as holdfast-namesd names them."""
    return [lock.get("path") for lock in json.loads(machine.run("holdfastctl", "locks", "--json"))]


def held_seconds(machine):
    return json.loads(machine.run("holdfastctl", "grace", "--json")).get("held_seconds", 0)


def main_pid(machine, unit):
    return machine.unit(unit, "MainPID")


def worker_pid(machine):
    pid = main_pid(machine, KEEPER)
    return machine.run("cat", f"/proc/{pid}/task/{pid}/children").split()[0]


def is_coherent(machine):
    return status(machine).get("coherence", {}).get("state") == "up"


def check_keeper_killed_in_a_row(machine, refused):
    """All its processes, more often than systemd permits by default in so short a time. systemd keeps the file, and starts it again."""
    time.sleep(1.5)  # what is locked for a second has a copy in systemd
    for turn in range(KILLS):
        before = main_pid(machine, KEEPER)
        machine.run("systemctl", "kill", "--signal=KILL", KEEPER)
        wait_until(lambda before=before: main_pid(machine, KEEPER) not in (before, "0"),
                   lambda turn=turn: f"kill {turn + 1}: " + machine.tell(KEEPER))
        refused(f"kill {turn + 1}: the lock left the kernel")
    wait_until(lambda: is_coherent(machine), lambda: machine.tell(KEEPER))
    refused("killed in a row")


def check_keeper_killed(machine, outside):
    """The worker; then the guard, after which systemd restarts both; then an orderly restart. The lock is young: it is locked anew each time."""
    def refused(what):
        assert not outside.lock(SHARED, 0, 1), what

    for what, action in (("worker", lambda: machine.run("kill", "-9", worker_pid(machine))),
                         ("guard", lambda: machine.run("kill", "-9", main_pid(machine, KEEPER))),
                         ("restart", lambda: machine.run("systemctl", "restart", KEEPER))):
        before = main_pid(machine, KEEPER), worker_pid(machine)

        def is_new(before=before):
            refused(f"{what}: the lock left the kernel")
            machine_state = machine.unit(KEEPER, "ActiveState")
            return machine_state == "active" and worker_pid(machine) != before[1] and is_coherent(machine)

        action()
        wait_until(is_new, lambda: machine.tell(KEEPER))
        refused(what)
    check_keeper_killed_in_a_row(machine, refused)
    said = machine.ask("journalctl", "-u", SERVICE, "--no-pager", "-o", "cat")
    assert "did not hold all locks" not in said, said


@tap.test
def boots_with_ganesha_and_samba():
    """COH-04, COH-06, COH-13, GRC-04."""
    with Machine(roots["mixed"], package) as machine, Network() as network:
        prepare(machine)
        machine.boot()
        install(machine)
        alice, bob = network.host("10.2.0.1", "alice"), network.host("10.2.0.2", "bob")
        handle = file_of(machine)
        wait_until(clients_find_it, lambda: machine.tell(SERVICE))
        lock = alice.lock(fh=handle, offset=0, length=10)
        wait_until(lambda: alice.stat(LOCK, lock) == "GRANTED", lambda: machine.tell(SERVICE))
        wait_until(lambda: paths(machine) == [f"{EXPORT}/file"], lambda: machine.tell(NAMESD))
        path = machine.root / EXPORT.lstrip("/") / "file"  # the same kernel: a program here is a program of the server
        with Outside(path) as outside:
            assert not outside.lock(SHARED, 0, 1)
            check_keeper_killed(machine, outside)
        alice.close_clients()
        machine.power_off()  # no chance to say goodbye
        machine.boot()
        check_order(machine)
        with Outside(path) as outside:
            assert not outside.lock(SHARED, 0, 1), "the recorded lock is in the kernel before its client has reclaimed it"
            alice.wait_for(SM_NOTIFY, prog=NSM, seconds=60)
            assert alice.stat(LOCK, lock, reclaim=True) == "GRANTED"
            wait_until(lambda: paths(machine) == [f"{EXPORT}/file"], lambda: machine.tell(NAMESD))
            wait_until(lambda: bob.stat(LOCK, bob.lock(fh=handle, offset=0, length=10)) == "DENIED", "grace ends", 60)
            assert held_seconds(machine) <= 95
            machine.run("holdfastctl", "grace", "hold", "0")
            machine.run("systemctl", "restart", "nfs-ganesha.service")
            assert 0 < held_seconds(machine) <= 95, "the drop-in holds new locks back"
            assert bob.stat(LOCK, bob.lock(fh=handle, offset=50, length=10)) == "DENIED_GRACE_PERIOD"
            assert not outside.lock(EXCLUSIVE, 0, 1), "what is held stays"
            machine.run("holdfastctl", "grace", "hold", "0")
            assert bob.stat(LOCK, bob.lock(fh=handle, offset=50, length=10)) == "GRANTED"
            assert alice.stat(UNLOCK, lock) == "GRANTED" and outside.lock(EXCLUSIVE, 0, 1)
        order = machine.started(KEEPER, SERVICE, *NEIGHBOURS)
        tap.note("boot: " + ", ".join(f"{unit.removesuffix('.service')} {at:.1f} s" for unit, at in order.items()))


if __name__ == "__main__":
    if os.environ.get("HOLDFAST_BOOT") != "all":
        tap.skip_all("a part of make boot")
    package, roots = machine_setup("mixed")
    tap.main(["boots_with_ganesha_and_samba"])

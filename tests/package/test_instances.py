#!/usr/bin/env python3
"""holdfastd@SERVICE.service under a real systemd (HA-07, HA-12): a store on a disk that a cluster manager mounts, and the addresses
of a service whose processes are killed. One machine, one service after the other."""
from holdfast_test import tap
from holdfast_package.machine import Machine, machine_setup, wait_until

UNIT = "holdfastd@files.service"
DISK = "/var/lib/holdfast/files"
ADDRESS = "10.1.0.100"
CONF = """[server]
name=files.example
[cluster]
addresses=%s
%s
[admin]
listen=
"""
SHARED_DISK = CONF % (ADDRESS, "[store]\nbackend=lmdb")
STANDBY = CONF % (ADDRESS, "mode=standby\nnode=alpha\nrequire_sync=no\nhook=/usr/libexec/holdfast/addresses\n"
                  "[store]\nbackend=postgres\ndsn=host=/var/run/postgresql dbname=holdfast")


def journal():
    return machine.ask("journalctl", "--no-pager", "-o", "cat", "-u", UNIT)


def has_address():
    return bool(machine.ask("ip", "-o", "address", "show", "to", ADDRESS))


def start():
    """The unit; what it says if it does not."""
    machine.ask("systemctl", "start", UNIT)
    assert machine.unit(UNIT, "ActiveState") == "active", machine.tell(UNIT) + journal()


def install():
    machine.run("apt-get", "install", "-y", "-qq", f"/srv/{package.name}")
    machine.run("systemctl", "disable", "--now", "holdfastd.service", "nfs-ganesha.service")


@tap.test
def a_store_on_a_disk_of_its_own():
    """HA-12: given a disk that is root's, mounted where the documents say, and a unit that is not enabled, then the unit starts, its
    store is on the disk, and rpc.statd does not start beside it. When it was stopped, rpc.statd may. Purge keeps the disk."""
    install()
    machine.write("/etc/holdfast/files.conf", SHARED_DISK)
    machine.run("mkdir", "-p", DISK)
    machine.run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", DISK)
    start()
    machine.wait_active(UNIT)
    assert "data.mdb" in machine.run("ls", DISK), machine.run("ls", "-la", DISK)
    assert machine.run("stat", "-c", "%U", DISK, f"{DISK}/data.mdb").split() == ["holdfast", "holdfast"]
    machine.ask("systemctl", "start", "rpc-statd.service")
    assert machine.unit("rpc-statd.service", "ConditionResult", "ActiveState") == ["no", "inactive"]
    machine.run("systemctl", "stop", UNIT)
    machine.ask("systemctl", "start", "rpc-statd.service")
    assert machine.unit("rpc-statd.service", "ConditionResult") == "yes", machine.tell("rpc-statd.service")
    machine.ask("systemctl", "stop", "rpc-statd.service")
    machine.run("apt-get", "purge", "-y", "-qq", "holdfast")
    assert "data.mdb" in machine.run("ls", DISK)
    assert machine.run("ls", "/var/lib/holdfast").split() == ["files"]
    machine.run("umount", DISK)


@tap.test
def killed_processes_leave_no_address():
    """HA-07: given a service that has its address, when the process that handles it is killed, then systemd removes the address
    before it starts the service again."""
    install()
    machine.run("systemctl", "start", "postgresql")
    wait_until(lambda: machine.ask("runuser", "-u", "postgres", "--", "psql", "-Atc", "SELECT 1") == "1", "PostgreSQL answers")
    for tool in (["createuser", "holdfast"], ["createdb", "-O", "holdfast", "holdfast"]):
        machine.run("runuser", "-u", "postgres", "--", *tool)
    machine.write("/etc/holdfast/files.conf", STANDBY)
    start()
    wait_until(has_address, lambda: machine.tell(UNIT) + journal())
    main = machine.unit(UNIT, "MainPID")
    runner = machine.run("pgrep", "-P", main, "hf-addresses")
    machine.run("kill", "-9", runner)
    removed = f"address removed address={ADDRESS} prefix=32 interface=eth0"
    wait_until(lambda: machine.unit(UNIT, "MainPID") not in ("0", main) and has_address(), journal)
    said = journal()
    assert said.index("has ended: stopping") < said.index(removed) < said.rindex("standing by"), said
    assert said.index(removed) < said.index("Scheduled restart job"), said
    machine.run("systemctl", "stop", UNIT)
    assert not has_address() and machine.unit(UNIT, "Result") == "success", machine.tell(UNIT)


if __name__ == "__main__":
    package, roots = machine_setup("full")
    with Machine(roots["full"], package) as machine:
        machine.boot()
        result = tap.run()
    raise SystemExit(result)

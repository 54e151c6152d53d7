#!/usr/bin/env python3
"""The boot matrix (PKG-03): the package is installed beside other services of Debian, and the machine is rebooted. After
that holdfastd serves, the other services run, no rpc.statd does, and the client that held a lock has it again.

A row is a boot; without HOLDFAST_BOOT=all in the environment (make boot) only the rows of SHORT are run."""
import os
import re
import shutil
import sys

from holdfast_test import mount, nlm, rpcbind, tap
from holdfast_test.daemon import PORT
from holdfast_test.peer import NSM, SM_NOTIFY, Network
from holdfast_package import packages
from holdfast_package.machine import SERVER, Machine, for_ganesha, machine_setup, wait_until

SHORT = ["beside_ganesha_with_its_lock_manager_on", "beside_ganesha_statd_and_a_slow_postgresql"]
SERVICE = "holdfastd.service"
STATDS = ("rpc-statd.service", "nfs-ganesha-lock.service")
EXPORT = "/export"
# Fails in every container, because the kernel's sunrpc is not there.
FAILS_ANYWAY = {"run-rpc_pipefs.mount"}
GANESHA = for_ganesha("""NFS_CORE_PARAM { Enable_NLM = false; Enable_RQUOTA = false; NFS_Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; }
EXPORT { Export_Id = 1; Path = /export; Pseudo = /export; Access_Type = RW; Squash = No_Root_Squash; Protocols = 3;
         SecType = sys; FSAL { Name = VFS; } }
""")
SLOW = "[Service]\nExecStartPre=/bin/sleep %d\n"
table = []


# ---- which services a machine has ----

def only(machine, *units):
    """Of the services that can be in each other's way, these and no others start at boot."""
    for unit in {"nfs-ganesha.service", "rpcbind.service", "postgresql.service"} - set(units):
        packages.call("systemctl", "--quiet", f"--root={machine.root}", "mask", unit,
                      *(["rpcbind.socket"] if unit == "rpcbind.service" else []))


def want(machine, unit):
    """Some service of the boot wants it, as a mount from /etc/fstab wants rpc-statd.service."""
    wants = machine.root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / unit).symlink_to(f"/lib/systemd/system/{unit}")


def add_ganesha(machine):
    """With a file on a disk that outlives the reboot."""
    machine.write("/etc/ganesha/ganesha.conf", GANESHA)
    machine.add_disk(EXPORT)
    machine.write(f"{EXPORT}/file", "")


def add_store_in_postgresql(machine, seconds):
    """PostgreSQL, whose server is ready so many seconds after it was started."""
    machine.write("/etc/holdfast/holdfast.conf", "[store]\nbackend=postgres\ndsn=host=/var/run/postgresql dbname=holdfast\n")
    machine.write("/etc/systemd/system/postgresql@.service.d/slow.conf", SLOW % seconds)


def make_database(machine):
    clusters = os.listdir(machine.root / "etc/postgresql") if (machine.root / "etc/postgresql").exists() else []
    machine.wait_active(f"postgresql@{clusters[0]}-main.service" if clusters else "postgresql.service")
    machine.run("systemd-sysusers", "--inline", 'u holdfast - "Holdfast lock manager" /var/lib/holdfast')
    for tool in (["createuser", "holdfast"], ["createdb", "-O", "holdfast", "holdfast"]):
        machine.run("runuser", "-u", "postgres", "--", *tool)


# ---- a row ----

def install(machine):
    machine.run("apt-get", "install", "-y", "-qq", "-o", "Dpkg::Options::=--force-confold",
                f"/srv/{package.name}")
    machine.wait_active(SERVICE)


def file_of(machine):
    """The handle of a file that Ganesha exports; beside no file server any bytes will do."""
    if not (machine.root / EXPORT.lstrip("/")).exists():
        return b"a file handle"
    found = []

    def mounted():
        try:
            found.append(mount.file_handle(SERVER, EXPORT, "file"))
        except (OSError, AssertionError, EOFError):
            return False
        return True

    wait_until(mounted, lambda: machine.tell("nfs-ganesha.service"))
    return found[0]


def clients_find_it():
    """rpcbind, whichever it is, names our port."""
    try:
        return all(rpcbind.getport(program, 1, "udp", SERVER) == PORT for program in (nlm.PROG, NSM))
    except (OSError, TimeoutError):
        return False


def check_services(machine, services):
    for unit in STATDS:
        assert machine.unit(unit, "ActiveState") != "active", machine.tell(unit)
    running = [name for name in os.listdir("/proc") if name.isdigit() and in_machine(machine, name)]
    assert "rpc.statd" not in [command(name) for name in running], "an rpc.statd runs beside holdfastd"
    for unit in services:
        machine.wait_active(unit)
    failed = set(re.findall(r"(\S+\.\w+)\s+loaded\s+failed", machine.ask("systemctl", "--failed", "--no-legend", "--no-pager")))
    assert failed <= FAILS_ANYWAY, "\n".join(machine.tell(unit) for unit in failed - FAILS_ANYWAY)


def in_machine(machine, process):
    try:
        return os.readlink(f"/proc/{process}/ns/net") == os.readlink(f"/proc/{machine.leader}/ns/net")
    except OSError:
        return False


def command(process):
    try:
        with open(f"/proc/{process}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def row(name, *services, prepare=lambda machine: None, before=lambda machine: None, statd=None, late=None, kind="full"):
    """Boots, installs, locks, reboots, reclaims. prepare: what the machine is like; before: done before the
    installation; statd: the rpc.statd that runs until then; late: a unit that is started by hand when holdfastd
    has met an obstacle more than six times."""
    with Machine(roots[kind], package) as machine, Network() as network:
        if kind == "full":
            only(machine, *services, *([late] if late else []))
        prepare(machine)
        machine.boot()
        if statd:
            assert machine.unit(statd, "ActiveState") == "active", "without Holdfast it runs: " + machine.tell(statd)
        before(machine)
        install(machine)
        alice, bob = network.host("10.2.0.1", "alice"), network.host("10.2.0.2", "bob")
        handle = file_of(machine)
        wait_until(clients_find_it, lambda: machine.tell(SERVICE))
        assert alice.stat(nlm.LOCK, alice.lock(fh=handle)) == "GRANTED"
        alice.close_clients()
        if late:
            machine.run("systemctl", "disable", late)
        machine.reboot()
        if late:
            wait_until(lambda: int(machine.unit(SERVICE, "NRestarts")) > 6, lambda: machine.tell(SERVICE))
            status = wait_until(lambda: machine.unit(SERVICE, "StatusText"), "the status line names the obstacle", 20)
            tap.note(f"before {late} is started: {status}")
            assert status.startswith("waits to start again: "), status
            machine.run("systemctl", "start", late)
        machine.wait_active(SERVICE)
        wait_until(clients_find_it, lambda: machine.tell(SERVICE))
        alice.wait_for(SM_NOTIFY, prog=NSM, seconds=60)
        assert file_of(machine) == handle, "the file server gives the file another handle"
        assert alice.stat(nlm.LOCK, alice.lock(fh=handle), reclaim=True) == "GRANTED"
        wait_until(lambda: bob.stat(nlm.LOCK, bob.lock(fh=handle)) == "DENIED", "grace ends, and the lock is alice's", 30)
        assert alice.stat(nlm.UNLOCK, alice.lock(fh=handle)) == "GRANTED"
        assert bob.stat(nlm.LOCK, bob.lock(fh=handle)) == "GRANTED"
        check_services(machine, services)
        order = machine.started(SERVICE, *services, *([late] if late else []))
        restarts = machine.unit(SERVICE, "NRestarts")
        table.append((name, ", ".join(f"{unit.removesuffix('.service')} {at:.1f} s" for unit, at in order.items()), restarts))


@tap.test
def alone():
    """A bare system without rpcbind: holdfastd serves port 111 itself."""
    row("alone, without rpcbind", kind="bare")


@tap.test
def beside_rpcbind():
    row("rpcbind", "rpcbind.service")


@tap.test
def beside_statd():
    """rpc.statd runs when the package is installed, and the boot wants it."""
    row("rpc.statd (nfs-common), rpcbind", "rpcbind.service", statd="rpc-statd.service",
        prepare=lambda m: want(m, "rpc-statd.service"))


@tap.test
def beside_ganesha():
    """nfs-ganesha-lock, an rpc.statd that Debian's Ganesha wants, runs when the package is installed."""
    row("Ganesha with nfs-ganesha-lock, rpcbind", "rpcbind.service", "nfs-ganesha.service",
        statd="nfs-ganesha-lock.service", prepare=add_ganesha)


@tap.test
def beside_ganesha_with_its_lock_manager_on():
    """As Debian ships it. holdfastd waits, and its status line says what to do; what README says then is enough."""
    with Machine(roots["full"], package) as machine, Network() as network:
        only(machine, "rpcbind.service", "nfs-ganesha.service")
        add_ganesha(machine)
        machine.write("/etc/ganesha/ganesha.conf", GANESHA.replace("Enable_NLM = false;", ""))
        machine.boot()
        alice = network.host("10.2.0.1", "alice")
        handle = file_of(machine)
        machine.run("apt-get", "install", "-y", "-qq", f"/srv/{package.name}")
        status = wait_until(lambda: machine.unit(SERVICE, "StatusText"), lambda: machine.tell(SERVICE))
        assert status.startswith("waits to start again: ") and "Enable_NLM = false" in status, status
        machine.write("/etc/ganesha/ganesha.conf", GANESHA)
        machine.run("systemctl", "restart", "nfs-ganesha", SERVICE)
        wait_until(clients_find_it, lambda: machine.tell(SERVICE))
        assert alice.stat(nlm.LOCK, alice.lock(fh=handle)) == "GRANTED"
        check_services(machine, ["nfs-ganesha.service", SERVICE])


@tap.test
def beside_a_slow_postgresql():
    """PostgreSQL is the store, and needs 15 s at boot: holdfastd is ordered behind it."""
    row("PostgreSQL (the store) that needs 15 s", "postgresql.service", "rpcbind.service",
        prepare=lambda m: add_store_in_postgresql(m, 15), before=make_database)


@tap.test
def before_postgresql_is_started_by_hand():
    """PostgreSQL is the store, and does not start at boot: holdfastd waits for longer than systemd's five attempts."""
    row("PostgreSQL (the store) started by hand later", "rpcbind.service", late="postgresql.service",
        prepare=lambda m: add_store_in_postgresql(m, 0), before=make_database)


@tap.test
def beside_ganesha_statd_and_a_slow_postgresql():
    """All of them on one host."""
    def prepare(machine):
        want(machine, "rpc-statd.service")
        add_ganesha(machine)
        add_store_in_postgresql(machine, 8)

    row("Ganesha, rpc.statd, PostgreSQL (the store) that needs 8 s, rpcbind", "rpcbind.service", "nfs-ganesha.service",
        "postgresql.service", prepare=prepare, before=make_database)


@tap.test
def debian_runs_the_package_s_own_test():
    """autopkgtest, as Debian's machines do it: the packages are installed, then debian/tests are run. That of Debian 13 does not see that
    the machine around it is one that may be changed."""
    with Machine(roots["full"], package) as machine:
        only(machine)
        tree = machine.root / "srv/holdfast"
        shutil.copytree(packages.SOURCE / "debian", tree / "debian")
        machine.boot()
        said = machine.ask("autopkgtest", "--ignore-restrictions=isolation-container", "--no-built-binaries", f"/srv/{package.name}", "/srv/holdfast/",
                           "--", "null")
        assert re.search(r"^lock-survives-restart +PASS$", said, re.M), said
        tap.note("autopkgtest: " + re.search(r"^lock-survives-restart +PASS$", said, re.M)[0])


if __name__ == "__main__":
    rows = sys.argv[1:] or ([] if os.environ.get("HOLDFAST_BOOT") == "all" else SHORT)
    package, roots = machine_setup("full", *([] if rows == SHORT else ["bare"]))
    result = tap.run(rows)
    for services, order, restarts in table:
        tap.note(f"boot beside {services}: {order}; failed starts {restarts}")
    raise SystemExit(result)

#!/usr/bin/env python3
"""What the packages consist of besides programs, without building them (PKG-02, PKG-04, HA-12): maintainer scripts, units, the
configuration file, and what the documents say about them."""
import os
import re
import socket
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_test.daemon import program

SOURCE = Path(__file__).parents[2]
PACKAGING = SOURCE / "packaging"


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, **options)
    return done.returncode, done.stdout.decode()


# ---- purge ----

def purge(root):
    return run("sh", SOURCE / "debian/holdfast.postrm", "purge", env=os.environ | {"DPKG_ROOT": str(root)})


@tap.test
def purge_deletes_stores_and_nothing_that_is_mounted_there():
    """Given a store of this host, one on a disk of its own, and one that is mounted from elsewhere on the same disk, purge
    deletes the first, keeps the others, says so, and succeeds."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as name:
        root = Path(name)
        stores, elsewhere = root / "var/lib/holdfast", root / "elsewhere"
        for path in (stores / "own/deeper", stores / "disk", stores / "bound", elsewhere):
            path.mkdir(parents=True)
        for path in (stores / "journal", stores / "own/journal", elsewhere / "journal"):
            path.write_text("locks")
        netns.run("mount", "-t", "tmpfs", "tmpfs", str(stores / "disk"))
        netns.run("mount", "--bind", str(elsewhere), str(stores / "bound"))
        try:
            (stores / "disk/journal").write_text("locks")
            status, said = purge(root)
            left = {str(path.relative_to(stores)) for path in stores.rglob("*")}
            assert status == 0 and left == {"disk", "disk/journal", "bound", "bound/journal"}, (status, said, left)
            assert "stores/disk" in said.replace(str(stores), "stores"), said
        finally:
            netns.run("umount", str(stores / "disk"))
            netns.run("umount", str(stores / "bound"))
        assert purge(root)[0] == 0 and not stores.exists()
        assert purge(root)[0] == 0, "nothing is there"


# ---- the configuration file ----

@tap.test
def the_configuration_file_does_not_name_the_host_that_built_it():
    """PKG-04: two hosts make the same file."""
    def made_on(host):
        status, said = run("unshare", "--uts", "sh", "-c", f'hostname {host} && "$0" "$1"', PACKAGING / "default-config", program())
        assert status == 0, said
        return said

    assert made_on("alpha") == made_on("beta")
    assert "alpha" not in made_on("alpha") and "\n#node=\n" in made_on("alpha")


# ---- units ----

def settings(unit, name, instance="files"):
    text = (PACKAGING / unit).read_text()
    return [value.replace("%i", instance) for value in re.findall(f"^{name}=(.*)$", text, re.M)]


def conditions_hold():
    """As systemd judges them: whether an rpc.statd would be started."""
    wanted = re.findall("^Condition.*$", (PACKAGING / "replace-statd.conf").read_text(), re.M)
    assert wanted
    status, said = run("systemd-analyze", "condition", *wanted, env=os.environ | {"SYSTEMD_LOG_LEVEL": "err"})
    assert status in (0, 1), said
    return status == 0


@tap.test
def no_rpc_statd_starts_beside_a_unit_that_runs():
    """Given a unit that is not enabled, as a cluster manager wants it, rpc.statd is kept from starting while the unit runs, and
    only then."""
    if any(Path("/etc/systemd/system/multi-user.target.wants").glob("holdfastd*")):
        raise tap.Skip("this host runs holdfastd")
    for unit, folder in (("holdfastd.service.in", "/run/holdfast"), ("holdfastd@.service.in", "/run/holdfast/files")):
        os.makedirs(folder, exist_ok=True)  # RuntimeDirectory=
        assert conditions_hold(), unit
        for command in settings(unit, "ExecStartPre"):
            assert run(*command.lstrip("-").split()) == (0, "")
        assert not conditions_hold(), f"{unit}: rpc.statd would start although it runs"
        for command in settings(unit, "ExecStopPost"):
            if "holdfastd" not in command.split()[0]:
                assert run(*command.lstrip("-").split()) == (0, "")
        assert conditions_hold(), f"{unit}: rpc.statd would not start although it was stopped"


@tap.test
def systemd_never_gives_a_unit_up():
    """COH-04: systemd starts a unit 5 times in 10 s at most, if the unit does not say otherwise; after that it stays down, and systemd
    drops the files that it kept for it. A unit that is started again at once says otherwise, or pauses for so long that it never comes to that."""
    units = [path for path in PACKAGING.glob("*.service.in") if re.search("^Restart=always$", path.read_text(), re.M)]
    assert {"holdfastd.service.in", "holdfast-keeper.service.in"} <= {path.name for path in units}
    for path in units:
        pause, of = re.search(r"^RestartSec=(\d+)(ms)?$", path.read_text(), re.M).groups()
        slow = int(pause) / (1000 if of else 1) * 5 >= 10
        assert slow or re.search("^StartLimitIntervalSec=0$", path.read_text(), re.M), path.name


@tap.test
def a_neighbour_that_restarts_holds_new_locks_back():
    """GRC-04: its drop-in calls holdfastctl before it stops and before it starts, where the keeper runs and only there; not with a
    failure that keeps the neighbour from starting."""
    with tempfile.TemporaryDirectory(prefix="holdfast-grace-") as where:
        ctl = Path(where, "holdfastctl")
        ctl.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
        ctl.chmod(0o755)
        env = os.environ | {"PATH": f"{where}:{os.environ['PATH']}", "HOLDFAST_KEEPER_SOCKET": f"{where}/socket"}
        script = PACKAGING / "grace/grace-hold"
        assert run(script, "nfs-ganesha", env=env) == (0, "")
        with socket.socket(socket.AF_UNIX) as keeper:
            keeper.bind(f"{where}/socket")
            for service, seconds in (("nfs-ganesha", 95), ("nfs-server", 95), ("smbd", 10)):
                assert run(script, service, env=env) == (3, f"grace hold {seconds}\n")
            assert run(script, "smbd", env=env | {"HOLDFAST_GRACE_SECONDS": "7"}) == (3, "grace hold 7\n")
    assert settings("grace/neighbour.conf.in", "ExecStartPre") == ["-+@libexecdir@/holdfast/grace-hold %N"]
    assert settings("grace/neighbour.conf.in", "Wants") == ["holdfast-grace@%N.service"]
    unit = "grace/holdfast-grace@.service.in"
    assert settings(unit, "PartOf", "smbd") == ["smbd.service"] and "smbd.service" in settings(unit, "After", "smbd")[0]
    assert settings(unit, "ExecStop", "smbd") == ["-@libexecdir@/holdfast/grace-hold smbd"]


@tap.test
def the_documented_shared_disk_is_where_the_unit_may_write():
    """HA-12: ProtectSystem=strict makes everything else read-only."""
    writable = [f"/var/lib/{name}" for line in settings("holdfastd@.service.in", "StateDirectory") for name in line.split()]
    writable += [path.lstrip("-+") for line in settings("holdfastd@.service.in", "ReadWritePaths") for path in line.split()]
    assert settings("holdfastd@.service.in", "ProtectSystem") == ["strict"]
    named = []
    for name in ("docs/operating/HIGH-AVAILABILITY.md", "packaging/pacemaker/holdfast-standby"):
        text = (SOURCE / name).read_text()
        named += re.findall(r"files-disk .*directory=(\S+)", text) + re.findall("^path=(.*)$", text, re.M)
    assert len(named) >= 2, named
    for path in named:
        assert any(path == one or path.startswith(one + "/") for one in writable), f"{path} is not below one of {writable}"


@tap.test
def units_and_profile_allow_the_sockets_that_the_daemon_makes():
    """SEC-02, SEC-12: the daemon learns by netlink which user of this host a connection belongs to; without it all local users are
    strangers with one quota. Each unit of the daemon, and its AppArmor profile, has these families and no packet socket but for the hook."""
    for unit, hook in (("holdfastd.service.in", set()), ("holdfastd@.service.in", {"AF_PACKET"})):
        line = re.search(r"^RestrictAddressFamilies=(.*)$", (PACKAGING / unit).read_text(), re.M)[1]
        assert set(line.split()) == {"AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"} | hook, (unit, line)
    profile = (PACKAGING / "apparmor/holdfastd").read_text()
    families = {tuple(words.split()) for words in re.findall(r"^ +network (.*),$", profile, re.M)}
    assert families == {(family, kind) for family in ("inet", "inet6", "unix") for kind in ("dgram", "stream")} | {("unix", "seqpacket"), ("netlink", "raw")}, families


if __name__ == "__main__":
    netns.enter()
    tap.main()

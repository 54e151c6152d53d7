#!/usr/bin/env python3
"""The Debian packages (PKG-01, PKG-02): built from a clean tree, installed into a copy of this system that is thrown
away, booted on paper, removed."""
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_package import packages
from holdfast_package.packages import SOURCE, call

UNITS = Path("lib/systemd/system")
# Beside our files: dpkg's own records, the user database, the index of manual pages, and an empty directory of AppArmor's that
# debhelper's code removes on purge.
NOT_OURS = re.compile(r"(var/lib/dpkg|etc/apparmor\.d/disable$|var/log|var/cache|etc/(passwd|shadow|group|gshadow|subuid|subgid|\.pwd))")

built = {}  # name of the package: its file


def package(name):
    if name not in built:
        raise tap.Skip("the packages were not built")
    return built[name]


# ---- the packages ----

@tap.test
def they_build_from_a_clean_tree():
    """From the tracked files alone, in a directory of its own."""
    said, made = packages.current()
    assert made.keys() == {"holdfast", "holdfast-doc", "holdfast-dbgsym"}, made
    built.update(made)
    for line in said.splitlines():
        tap.note(line.strip())


@tap.test
def lintian_has_nothing_to_say():
    """PKG-01: No error, warning, information or pedantic remark."""
    package("holdfast")
    said = call("lintian", "--pedantic", "--display-info", "--allow-root", "--fail-on",
                "error,warning,info,pedantic", *package("holdfast").parent.glob("*.changes"))
    assert not re.search("^[EWIP]:", said, re.M), said


@tap.test
def they_are_reproducible():
    """PKG-04: another directory, time, time zone, language and umask give the same bytes."""
    first, other = package("holdfast").parent, folder / "a directory with another name"
    (folder / "temporary").mkdir()
    before = os.umask(0o002)
    try:
        packages.build(other, TMPDIR=str(folder / "temporary"), TZ="Asia/Tokyo", LC_ALL="C", DEB_BUILD_OPTIONS="parallel=1")
    finally:
        os.umask(before)
    for name in ("holdfast", "holdfast-doc", "holdfast-dbgsym"):
        one, two = packages.by_name(first)[name], packages.by_name(other)[name]
        assert one.name == two.name and one.read_bytes() == two.read_bytes(), f"{name} differs: " + differences(one, two)
    tap.note(f"built twice: {hashlib.sha256(package('holdfast').read_bytes()).hexdigest()}  {package('holdfast').name}")


def differences(one, two):
    """Which files of two packages differ."""
    listings = []
    for number, path in enumerate((one, two)):
        target = folder / f"unpacked-{number}"
        call("dpkg-deb", "--raw-extract", path, target)
        listings.append({str(file.relative_to(target)): file.read_bytes() for file in target.rglob("*")
                         if file.is_file() and not file.is_symlink()})
        shutil.rmtree(target)
    return ", ".join(sorted(name for name in listings[0].keys() | listings[1].keys()
                            if listings[0].get(name) != listings[1].get(name))) or "only the archives themselves"


# ---- a copy of this system ----

class Copy:
    """This system as the lower layer: what changes goes into memory and is seen in `changed()`."""

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        base = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-")))
        self.mount("tmpfs", base, "mode=755")
        self.root, self.upper = base / "root", base / "upper"
        for path in (self.root, self.upper, base / "work"):
            path.mkdir()
        self.mount("overlay", self.root, f"lowerdir=/,upperdir={self.upper},workdir={base}/work")
        self.mount("tmpfs", self.root / "run", "mode=755")  # no /run/systemd: nothing is started
        self.mount("proc", self.root / "proc", "ro")
        netns.run("mount", "--bind", "/dev", str(self.root / "dev"))
        self.stack.callback(netns.run, "umount", str(self.root / "dev"))
        return self

    def mount(self, kind, where, options):
        netns.run("mount", "-t", kind, "-o", options, kind, str(where))
        self.stack.callback(netns.run, "umount", str(where))

    def __exit__(self, *_):
        self.stack.close()

    def run(self, *command):
        return call("chroot", self.root, *command)

    def install(self, *names):
        for name in names:
            shutil.copy(package(name), self.root / "run")
        return self.run("dpkg", "--install", *(f"/run/{package(name).name}" for name in names))

    def changed(self):
        """Files that are not as in this system, and not of the kinds that every installation changes."""
        found = (path.relative_to(self.upper).as_posix() for path in self.upper.rglob("*")
                 if path.is_symlink() or not path.is_dir())
        return {name for name in found if not NOT_OURS.match(name)}


@contextlib.contextmanager
def installed():
    package("holdfast")
    with Copy() as copy:
        copy.install("holdfast", "holdfast-doc")
        yield copy


@tap.test
def installed_it_has_all_it_needs():
    """User, programs, units, manual pages, completions, rules, dashboard, documents; and it is enabled."""
    with installed() as copy:
        there = copy.changed()
        for name in ("usr/sbin/holdfastd", "usr/bin/holdfastctl", "etc/holdfast/holdfast.conf",
                     "usr/sbin/holdfast-namesd", "etc/holdfast/names.conf", "usr/share/man/man8/holdfast-namesd.8.gz",
                     f"usr/{UNITS}/holdfast-namesd.service",
                     "usr/sbin/holdfast-keeper", "etc/holdfast/keeper.conf", "usr/share/man/man8/holdfast-keeper.8.gz",
                     f"usr/{UNITS}/holdfast-keeper.service", "etc/apparmor.d/holdfast-keeper",
                     "etc/ufw/applications.d/holdfast", "etc/apparmor.d/holdfastd", "usr/lib/tmpfiles.d/holdfast.conf",
                     "usr/share/man/man8/holdfastd.8.gz",
                     "usr/share/man/man8/holdfastctl.8.gz", "usr/share/man/man5/holdfast.conf.5.gz",
                     "usr/share/bash-completion/completions/holdfastctl", "usr/share/zsh/vendor-completions/_holdfastctl",
                     "usr/share/holdfast/holdfast.rules.yml", "usr/share/holdfast/holdfast.json",
                     "usr/share/doc/holdfast/README.Debian.gz", "usr/share/doc/holdfast/pictures/page.png",
                     f"usr/{UNITS}/holdfastd@.service", "usr/libexec/holdfast/addresses", "usr/libexec/holdfast/holdfast-announce",
                     "usr/libexec/holdfast/keepalived-notify", "usr/libexec/holdfast/pacemaker-fenced", "usr/share/holdfast/keepalived/standby.conf",
                     "usr/share/holdfast/keepalived/shared-disk.conf", "usr/lib/ocf/resource.d/holdfast/holdfast-standby",
                     "etc/systemd/system/multi-user.target.wants/holdfastd.service"):
            assert name in there, f"{name} is missing in {sorted(there)}"
        documents = {Path(name).name.removesuffix(".gz") for name in there if name.startswith("usr/share/doc/holdfast")}
        missing = {path.name for path in (SOURCE / "docs").glob("**/*.md")} - documents
        assert not missing, f"{missing} not among the documents"
        assert "/var/lib/holdfast" in copy.run("getent", "passwd", "holdfast")
        assert "/etc/holdfast/holdfast.conf" in copy.run("dpkg-query", "-W", "-f", "${Conffiles}", "holdfast")
        assert "/nonexistent" in copy.run("getent", "passwd", "holdfast-names")
        assert "etc/systemd/system/multi-user.target.wants/holdfast-namesd.service" not in there, "names are optional"
        assert "/nonexistent" in copy.run("getent", "passwd", "holdfast-keeper")
        assert "etc/systemd/system/multi-user.target.wants/holdfast-keeper.service" not in there, "coherence is asked for"
        said = copy.run("systemd-analyze", "verify", "--man=no", "holdfastd.service", "holdfastd@files.service",
                        "holdfast-replace-statd.service", "holdfast-namesd.service", "holdfast-keeper.service")
        assert "holdfast" not in said, said
        copy.run("apparmor_parser", "--skip-kernel-load", "--skip-cache", "/etc/apparmor.d/holdfastd")
        copy.run("apparmor_parser", "--skip-kernel-load", "--skip-cache", "/etc/apparmor.d/holdfast-keeper")


@tap.test
def the_configuration_names_every_key_and_sets_none():
    """PKG-02: as installed it is good; each key is there, commented out, with the default that a daemon without a
    file has."""
    with installed() as copy:
        assert "is good" in copy.run("runuser", "-u", "holdfast", "--", "holdfastd", "--check-config")
        text = (copy.root / "etc/holdfast/holdfast.conf").read_text()
        assert not re.search("^[^#[\n]", text, re.M), text
        defaults = copy.run("holdfastd", "--config", "/dev/null", "--set", "server.name=us", "--print-config")
        wanted = re.findall(r"^(\[.*\]|\w+=.*)$", defaults, re.M)
        assert len(wanted) > 30 and "port=4045" in wanted
        assert re.findall(r"^#?(\[.*\]|\w+=.*)$", text, re.M) == [
            re.sub("^(name|node)=.*", r"\1=", line) for line in wanted]
        everything = re.sub("^#(?=[a-z_]+=)", "", text, flags=re.M).replace("name=\n", "name=server.example\n").replace("node=\n", "node=server\n")
        (copy.root / "run/all.conf").write_text(everything)
        copy.run("holdfastd", "--config", "/run/all.conf", "--check-config")


@tap.test
def removed_it_keeps_locks_and_purged_it_leaves_nothing():
    """PKG-01: Removal keeps the store and a changed configuration; an installation after it finds both. Purge deletes them."""
    with installed() as copy:
        conf = copy.root / "etc/holdfast/holdfast.conf"
        conf.write_text(conf.read_text() + "\n[grace]\nseconds=30\n")
        store = copy.root / "var/lib/holdfast"
        store.mkdir(exist_ok=True)
        (store / "journal").write_text("locks")
        enabled = copy.root / "etc/systemd/system/multi-user.target.wants/holdfastd@files.service"
        enabled.symlink_to("/lib/systemd/system/holdfastd@.service")
        copy.run("dpkg", "--remove", "holdfast", "holdfast-doc")
        left = copy.changed()
        kept = {name for name in left if not name.startswith(("etc/", "var/lib/systemd/"))}
        assert kept == {"var/lib/holdfast/journal"}, left
        copy.install("holdfast", "holdfast-doc")
        assert "seconds=30" in conf.read_text() and (store / "journal").exists() and enabled.is_symlink()
        copy.run("dpkg", "--purge", "holdfast", "holdfast-doc")
        assert copy.changed() == set(), copy.changed()
        assert not store.exists() and not conf.parent.exists()


# In the place of systemctl: notes each call, and whether the daemon's program and the address hook are there at that moment.
SYSTEMCTL = """#!/bin/sh
[ -x /usr/sbin/holdfastd ] && [ -x /usr/libexec/holdfast/addresses ] && files=there || files=gone
echo "$files: $*" >>/run/calls
case "$*" in *is-enabled*) echo enabled ;; esac
"""


@tap.test
def an_upgrade_restarts_every_service_and_removal_stops_them():
    """PKG-04: also the instances of holdfastd@.service. Nothing is stopped before the new files are in place, and on removal all
    are stopped while their address hook is still there."""
    with installed() as copy:
        (copy.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
        systemctl, calls = copy.root / "usr/bin/systemctl", copy.root / "run/calls"
        if (copy.root / "bin/systemctl").resolve() != systemctl.resolve():
            systemctl = copy.root / "bin/systemctl"
        systemctl.unlink()
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o755)
        (copy.root / "run/systemd/system").mkdir(parents=True)

        copy.install("holdfast")
        said = [line.replace("--quiet ", "").replace("--system ", "") for line in calls.read_text().splitlines()]
        assert not any(": stop " in line for line in said), said
        reload, restart, instances, namer = (said.index(f"there: {call}") for call in (
            "daemon-reload", "restart holdfastd.service", "try-restart holdfastd@*.service", "try-restart holdfast-keeper.service holdfast-namesd.service"))
        assert reload < min(restart, instances, namer), said

        calls.unlink()
        copy.run("dpkg", "--remove", "holdfast")
        said = calls.read_text().splitlines()
        for unit in ("holdfastd.service", "holdfastd@*.service", "holdfast-namesd.service", "holdfast-keeper.service"):
            assert any(line.startswith("there: stop ") and unit in line.split() for line in said), (unit, said)


# ---- the unit's restrictions ----

# Runs the program behind "--" under a filter that allows the named system calls and refuses all others, as systemd does.
FILTERED = """
import ctypes, os, sys
end = sys.argv.index("--")
lib = ctypes.CDLL("libseccomp.so.2")
lib.seccomp_init.restype = ctypes.c_void_p
filter = ctypes.c_void_p(lib.seccomp_init(0x00050000 | 1))  # EPERM
for name in sys.argv[1:end]:
    number = lib.seccomp_syscall_resolve_name(name.encode())
    if number >= 0:
        assert lib.seccomp_rule_add_array(filter, 0x7fff0000, number, 0, None) == 0, name
assert lib.seccomp_load(filter) == 0
os.execvp(sys.argv[end + 1], sys.argv[end + 1:])
"""


def system_calls(words):
    """The calls that a list of names and @groups stands for."""
    found = set()
    for word in words:
        if word.startswith("@"):
            said = call("systemd-analyze", "syscall-filter", word, env=os.environ | {"SYSTEMD_COLORS": "0"})
            found |= system_calls(re.findall(r"^    (@?[\w-]+)$", said, re.M))
        else:
            found.add(word)
    return found


def allowed_calls(unit):
    allowed = system_calls(["@default"])
    for line in re.findall("^SystemCallFilter=(.*)$", unit, re.M):
        if line.startswith("~"):
            allowed -= system_calls(line[1:].split())
        else:
            allowed |= system_calls(line.split())
    return allowed


@tap.test
def the_unit_lets_the_daemon_serve_and_restrict_itself():
    """As user holdfast, with the unit's one capability and under its system call filter."""
    with installed() as copy:
        calls = allowed_calls((copy.root / UNITS / "holdfastd.service").read_text())
        assert "read" in calls and "mount" not in calls
        (copy.root / "run/filtered.py").write_text(FILTERED)
        said = call("chroot", copy.root, "setpriv", "--reuid=holdfast", "--regid=holdfast", "--clear-groups",
                    "--inh-caps=-all,+net_bind_service", "--ambient-caps=-all,+net_bind_service",
                    "--bounding-set=-all,+net_bind_service", "--no-new-privs",
                    "python3", "/run/filtered.py", *sorted(calls), "--",
                    "timeout", "--preserve-status", "3", "holdfastd", "--set", "store.backend=memory",
                    "--set", "rpcbind.mode=embedded", "--set", "admin.socket=")
        assert " ready " in said and "system_calls=own" in said, said
        assert "by=Landlock" not in said or not has_landlock(), said


@tap.test
def the_unit_lets_the_namer_serve_and_restrict_itself():
    """NAM-02: as user holdfast-names, with its one capability and under the unit's system call filter. Without exports it
    says what to do, with the status after which systemd does not start it again."""
    with installed() as copy:
        unit = (copy.root / UNITS / "holdfast-namesd.service").read_text()
        calls = allowed_calls(unit)
        assert "open_by_handle_at" in calls and "mount" not in calls
        (copy.root / "run/filtered.py").write_text(FILTERED)
        (copy.root / "run/holdfast-names").mkdir()
        copy.run("chown", "holdfast-names:holdfast", "/run/holdfast-names")
        confined = ["chroot", copy.root, "setpriv", "--reuid=holdfast-names", "--regid=holdfast", "--clear-groups",
                    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
                    "--bounding-set=-all,+dac_read_search", "--no-new-privs",
                    "python3", "/run/filtered.py", *sorted(calls), "--", "timeout", "--preserve-status", "3",
                    "holdfast-namesd"]
        said = call(*confined, "--export", "/srv")
        assert " ready " in said and "system_calls=own" in said and " stopped" in said, said
        assert 'files="no content"' in said or not has_landlock(), said
        mode = (copy.root / "run/holdfast-names/socket").stat()
        assert mode.st_mode & 0o777 == 0o660, oct(mode.st_mode)
        done = subprocess.run(confined, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 2 and b"export=DIR" in done.stdout, done
        assert "RestartPreventExitStatus=2" in unit
        for name in ("keeper", "namesd"):
            unit = (copy.root / UNITS / f"holdfast-{name}.service").read_text()
            assert not re.search("(?m)^RestrictSUIDSGID=", unit), "systemd refuses openat2 then, and no export can be opened"


@tap.test
def the_unit_lets_the_keeper_serve_and_restrict_itself():
    """COH-02: as user holdfast-keeper, with its two capabilities and under the unit's system call filter. Without exports it says what
    to do, with the status after which systemd does not start it again."""
    with installed() as copy:
        unit = (copy.root / UNITS / "holdfast-keeper.service").read_text()
        calls = allowed_calls(unit)
        assert "open_by_handle_at" in calls and "mount" not in calls
        (copy.root / "run/filtered.py").write_text(FILTERED)
        (copy.root / "run/holdfast-keeper").mkdir()
        copy.run("chown", "holdfast-keeper:holdfast", "/run/holdfast-keeper")
        confined = ["chroot", copy.root, "setpriv", "--reuid=holdfast-keeper", "--regid=holdfast", "--clear-groups",
                    "--inh-caps=-all,+dac_read_search,+dac_override", "--ambient-caps=-all,+dac_read_search,+dac_override",
                    "--bounding-set=-all,+dac_read_search,+dac_override", "--no-new-privs",
                    "python3", "/run/filtered.py", *sorted(calls), "--", "timeout", "--preserve-status", "3",
                    "holdfast-keeper"]
        said = call(*confined, "--export", "/srv")
        assert " ready " in said and "system_calls=own" in said and " stopped" in said, said
        assert "not by Landlock" not in said or not has_landlock(), said
        mode = (copy.root / "run/holdfast-keeper/socket").stat()
        assert mode.st_mode & 0o777 == 0o660, oct(mode.st_mode)
        done = subprocess.run(confined, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 2 and b"export=DIR" in done.stdout, done
        assert "RestartPreventExitStatus=2" in unit
        for name in ("keeper", "namesd"):
            unit = (copy.root / UNITS / f"holdfast-{name}.service").read_text()
            assert not re.search("(?m)^RestrictSUIDSGID=", unit), "systemd refuses openat2 then, and no export can be opened"


def has_landlock():
    return "landlock" in Path("/sys/kernel/security/lsm").read_text() if Path("/sys/kernel/security/lsm").exists() else False


# ---- the boot, as systemd plans it ----

def plan(copy, *services):
    """The units that `systemd --test` would start at boot with these services enabled: Debian's own units."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as name:
        units = Path(name, "units")
        shutil.copytree(copy.root / UNITS, units, symlinks=True, ignore=lambda where, names: [
            n for n in names if n not in ("system",) and not re.match("holdfast|nfs-ganesha|rpc|postgresql", n)])
        for target in ("multi-user", "network-online", "remote-fs-pre", "rpcbind", "nss-lookup", "shutdown", "umount",
                       "basic"):
            (units / f"{target}.target").write_text("[Unit]\nDescription=here for its name\n")
        # Debian's unit has lost its ExecStart= (it included nfs-lock.service); what it is meant to run:
        lock = units / "nfs-ganesha-lock.service"
        lock.write_text(lock.read_text().replace("ExecStartPre=\n", "ExecStart=/sbin/rpc.statd\n"))
        wants = units / "multi-user.target.wants"
        wants.mkdir(exist_ok=True)
        for service in services:
            (wants / service).symlink_to(f"../{service}")
        call("chmod", "-R", "a+rX", name)
        shutil.chown(name, "nobody")
        said = call("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/lib/systemd/systemd", "--test",
                    "--user", "--unit=multi-user.target",
                    env={"SYSTEMD_UNIT_PATH": str(units), "XDG_RUNTIME_DIR": name, "HOME": name, "PATH": os.environ["PATH"],
                         "SYSTEMD_LOG_TARGET": "console"})
    return set(re.findall(r"Action: (\S+) -> start", said))


@tap.test
def the_boot_beside_ganesha_starts_no_rpc_statd():
    """Whatever wants an rpc.statd, systemd drops its start in favour of holdfastd, and starts all else."""
    if not (Path("/") / UNITS / "nfs-ganesha.service").exists():
        raise tap.Skip("nfs-ganesha is not installed")
    with installed() as copy:
        without = plan(copy, "nfs-ganesha.service", "rpc-statd.service")
        assert {"nfs-ganesha.service", "nfs-ganesha-lock.service", "rpc-statd.service"} <= without, without
        for beside in (["nfs-ganesha.service"], ["rpc-statd.service"], ["nfs-ganesha.service", "rpc-statd.service"]):
            started = plan(copy, "holdfastd.service", *beside)
            assert "holdfastd.service" in started, started
            assert not started & {"nfs-ganesha-lock.service", "rpc-statd.service"}, started
            assert ("nfs-ganesha.service" in started) == ("nfs-ganesha.service" in beside)


@tap.test
def a_restart_of_ganesha_does_not_stop_holdfastd():
    """Conflicts= works in both directions: it must not be in holdfastd.service."""
    with installed() as copy:
        unit = (copy.root / UNITS / "holdfastd.service").read_text()
        assert not re.search("^Conflicts=", unit, re.M)
        for statd in ("rpc-statd", "nfs-ganesha-lock"):
            condition = (copy.root / UNITS / f"{statd}.service.d/holdfast.conf").read_text()
            link = re.search("^ConditionPathIsSymbolicLink=!/(.*)$", condition, re.M)[1]
            assert (copy.root / link).is_symlink(), f"{statd} would start although holdfastd is enabled"


if __name__ == "__main__":
    for tool in ("dpkg-buildpackage", "dh", "lintian"):
        if not shutil.which(tool):
            tap.skip_all(f"{tool} is not installed (scripts/bootstrap deb)")
    if not (SOURCE / ".git").exists():
        tap.skip_all("not a checkout of the repository")
    netns.enter()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        folder = Path(scratch)
        result = tap.run()
    raise SystemExit(result)

"""A machine that boots systemd: a container (systemd-nspawn) with a network of its own, over a root that stays as it is.

    with Machine(root("full", package)) as machine:
        machine.boot()
        machine.run("apt-get", "install", "-y", "/run/holdfast.deb")
        machine.reboot()

The test itself is the other host: SERVER is the machine's address, CLIENTS are addresses here, on the other end of a
cable. What the machine writes is in memory and gone with it. Needs root, inside netns.enter().
"""
import contextlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from holdfast_test import netns
from holdfast_test.tap import Skip, skip_all

from . import packages
from .packages import call
from .root import root

SERVER, CLIENTS = "10.1.0.1", "10.2.0.0/16"
BOOT_S, COMMAND_S = 120, 300  # beyond any healthy boot or command on a busy machine
_count = itertools.count(1)


def cgroups():
    """Where the unified hierarchy of control groups is mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.split()[2] == "cgroup2":
            return Path(line.split()[1])
    raise Skip("no unified control groups (cgroup2) here")


def new_group():
    """A control group for the processes of one machine: by it they end together, and none of the host's is touched."""
    group = cgroups() / f"holdfast-{os.getpid()}-{next(_count)}-{os.urandom(3).hex()}"
    group.mkdir()
    return group


def remove_group(group):
    for path, *_ in os.walk(group, topdown=False):
        wait_until(lambda: _removed(path), f"control group {path} is empty", 20)


def spawn(group, output, *arguments):
    return subprocess.Popen(
        ["sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', group, "systemd-nspawn", "--quiet", "--register=no", "--keep-unit",
         "--resolv-conf=off", "--timezone=off", *arguments],
        stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        env=os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"})


def refusal(lower):
    """Why there can be no containers here; None if there can."""
    if not shutil.which("systemd-nspawn"):
        return "systemd-nspawn is not installed (scripts/bootstrap test)"
    try:
        group = new_group()
    except (OSError, Skip) as why:
        return f"no control group of our own: {why}"
    process = spawn(group, subprocess.PIPE, "--private-network", "--read-only", "--console=pipe", "--as-pid2",
                    f"--directory={lower}", "/bin/true")
    said = process.communicate(timeout=BOOT_S)[0].decode(errors="replace").strip()
    remove_group(group)
    return f"systemd-nspawn: {said}" if process.returncode else None


def wait_until(condition, what, seconds=BOOT_S):
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"not so within {seconds} s: {what() if callable(what) else what}"
        time.sleep(0.05)
    return result


def for_ganesha(text):
    """A configuration for the Ganesha of the machines' release. Ganesha 6 ends where it may not tell the kernel that it flushes, which takes
    CAP_SYS_RESOURCE; Ganesha 4 knows no such key."""
    if packages.RELEASE == "bookworm":
        return text
    return text.replace("NFS_CORE_PARAM {", "NFS_CORE_PARAM { allow_set_io_flusher_fail = true;")


@contextlib.contextmanager
def server_network():
    """The network namespace of the server, SERVER, and a cable to it: its path. It outlives a reboot, as a network does."""
    with contextlib.ExitStack() as stack:
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        stack.callback(holder.wait)
        stack.callback(holder.kill)
        assert holder.stdout.readline() == b"ready\n"
        path = f"/proc/{holder.pid}/ns/net"
        cable = f"hf{holder.pid}"
        netns.run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        stack.callback(netns.run, "ip", "link", "del", cable)
        netns.run("ip", "address", "add", "10.1.0.2/16", "dev", cable)
        netns.run("ip", "link", "set", cable, "up")
        for command in (["address", "add", SERVER + "/16", "dev", "eth0"], ["link", "set", "eth0", "up"],
                        ["link", "set", "lo", "up"], ["route", "add", CLIENTS, "via", "10.1.0.2"]):
            netns.run("nsenter", f"--net={path}", "ip", *command)
        yield path


class Machine:
    def __init__(self, lower, *files):
        """files: put into /srv."""
        self.lower, self.files = lower, files
        self.leader = self.spawned = None

    # ---- life ----

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        try:
            base = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-")))
            self._mount("tmpfs", base, "mode=755")
            self.root, self.upper = base / "root", base / "upper"
            for path in (self.root, self.upper, base / "work"):
                path.mkdir()
            self._mount("overlay", self.root, f"lowerdir={self.lower},upperdir={self.upper},workdir={base}/work")
            self.console = base / "console"
            self.netns = self.stack.enter_context(server_network())
            self.stack.callback(self.power_off)
            (self.root / "etc/hostname").write_text("server\n")
            (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{SERVER} server.example server\n")
            (self.root / "etc/machine-id").write_text("")
            for file in self.files:
                shutil.copy(file, self.root / "srv")
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_):
        self.stack.close()

    def _mount(self, kind, where, options):
        netns.run("mount", "-t", kind, "-o", options, kind, str(where))
        self.stack.callback(netns.run, "umount", str(where))

    def boot(self):
        """Starts systemd, and waits until it has started everything it will."""
        self.group = new_group()
        with open(self.console, "ab") as console:
            self.spawned = spawn(self.group, console, "--console=read-only", "--machine=server", "--boot",
                                 f"--network-namespace-path={self.netns}",
                                 "--system-call-filter=open_by_handle_at",  # a file server in user space needs it
                                 "--capability=CAP_NET_ADMIN",  # of its own network: addresses of services
                                 f"--directory={self.root}")
        procs = self.group / "payload/init.scope/cgroup.procs"
        self.leader = wait_until(lambda: self._alive() and procs.exists() and procs.read_text().split()[:1], self._last_words)[0]
        wait_until(lambda: self.ask("systemctl", "is-system-running") in ("running", "degraded"),
                   lambda: "it has booted\n" + self.ask("systemctl", "list-jobs") + self._last_words())
        return self

    def _last_words(self):
        return "the machine runs; its console:\n" + self.console.read_text(errors="replace")[-3000:]

    def _alive(self):
        assert self.spawned.poll() is None, self._last_words()
        return True

    def reboot(self):
        self.ask("systemctl", "--no-block", "reboot")
        self._ended()
        return self.boot()

    def power_off(self):
        """Without warning: every process of the machine is killed at once."""
        if self.spawned:
            with contextlib.suppress(OSError):
                (self.group / "cgroup.kill").write_text("1")
            self._ended()

    def _ended(self):
        try:
            self.spawned.wait(BOOT_S)
        finally:
            if self.spawned.poll() is None:
                self.spawned.kill()
                self.spawned.wait()
            self.spawned = None
            remove_group(self.group)

    # ---- in it ----

    def ask(self, *command):
        """What a command prints, whether it succeeds or not."""
        done = subprocess.run(["nsenter", "-t", self.leader, "-a", *command], stdin=subprocess.DEVNULL, timeout=COMMAND_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self._environment())
        return done.stdout.decode(errors="replace").strip()

    def run(self, *command):
        """The same, of a command that must succeed."""
        return call("nsenter", "-t", self.leader, "-a", *command, env=self._environment()).strip()

    def _environment(self):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "HOME": "/root"}

    def write(self, path, text):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def add_disk(self, path):
        """A directory of the host's disk, with stable file handles, which an overlay has not; Ganesha 6 exports no tmpfs."""
        disk = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="disk-", dir=packages.CACHE))
        os.chmod(disk, 0o755)
        target = self.root / path.lstrip("/")
        target.mkdir()
        netns.run("mount", "--bind", disk, str(target))
        self.stack.callback(netns.run, "umount", str(target))

    def unit(self, name, *properties):
        """Properties of a unit, as systemctl show prints them."""
        said = self.run("systemctl", "show", "-p", ",".join(properties), name)
        found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        return [found.get(key, "") for key in properties] if len(properties) > 1 else found.get(properties[0], "")

    def wait_active(self, name):
        wait_until(lambda: self.unit(name, "ActiveState") == "active", lambda: self.tell(name))

    def tell(self, name):
        """What an operator would look at."""
        return (f"{name} is active\n" + self.ask("systemctl", "status", "--no-pager", "-l", "-n", "30", name)
                + "\n" + self.ask("systemctl", "--failed", "--no-pager"))

    def started(self, *names):
        """{unit: seconds after the start of systemd at which it became active}, in that order; without those that did not."""
        zero = int(re.search(r"=(\d+)", self.run("systemctl", "show", "-p", "UserspaceTimestampMonotonic"))[1])
        times = {name: int(self.unit(name, "ActiveEnterTimestampMonotonic") or 0) for name in names}
        return {name: (at - zero) / 1e6 for name, at in sorted(times.items(), key=lambda item: item[1]) if at}

    def listing(self):
        """Files of this machine that its root does not have, directories without files included."""
        return {path.relative_to(self.upper).as_posix() for path in self.upper.rglob("*")}


def _removed(path):
    with contextlib.suppress(FileNotFoundError):
        try:
            os.rmdir(path)
        except OSError:
            return False
    return True


def machine_setup(*kinds):
    """Enters the private network; there, the package and the roots by kind. What is missing of them is made before, with
    the network of the host, because mmdebstrap downloads."""
    if os.geteuid() != 0:
        skip_all("needs root")
    try:
        package = packages.current()[1]["holdfast"]
        roots = {kind: root(kind, package) for kind in kinds}
    except Skip as why:
        skip_all(str(why))
    netns.enter(addresses=())
    netns.run("ip", "route", "add", "local", CLIENTS, "dev", "lo")
    why = None if kinds == ("apparmor",) else refusal(next(iter(roots.values())))
    if why:
        skip_all(why)
    return package, roots

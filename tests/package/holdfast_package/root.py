"""Root directories that machines start from: made by mmdebstrap from the Debian mirror that apt is configured for, and
kept in build/boot. A machine never writes to one (see machine.py).

`bare` is what a minimal installation with systemd has, and the libraries that holdfast depends on; `full` has
everything that wants to be a status monitor, a file server or a store on the same host as well; `mixed` has servers of the same
files by NFSv4 and SMB; `apparmor` is for a virtual
machine with Debian's kernel.
"""
import fcntl
import hashlib
import re
import shutil
import subprocess

from holdfast_test.tap import Skip

from .packages import CACHE, RELEASE, SOURCE, call

BARE = ["systemd", "systemd-sysv", "dbus", "iproute2", "netbase", "init-system-helpers", "python3-minimal"]
FULL = [*BARE, "rpcbind", "nfs-common", "nfs-ganesha", "nfs-ganesha-vfs", "postgresql", "autopkgtest",
        "dpkg-dev"]
MIXED = [*BARE, "rpcbind", "nfs-ganesha", "nfs-ganesha-vfs", "samba"]
APPARMOR = [*BARE, "apparmor", "kmod"]
KINDS = {"bare": BARE, "full": FULL, "mixed": MIXED, "apparmor": APPARMOR}


def mirror(release):
    """Debian's own sources, as this machine's apt has them: lines for a sources.list."""
    try:
        return call(SOURCE / "packaging/debian-mirror", release).splitlines()
    except AssertionError as why:
        raise Skip(str(why)) from None


def proxies():
    """What apt goes through to reach it."""
    found = re.findall(r'^(Acquire::[\w:.-]*Proxy[\w:.-]* ".+";)$', call("apt-config", "dump", "Acquire"), re.M)
    return [f"--aptopt={line}" for line in found]


def libraries(package):
    """The packages that a .deb depends on, of each alternative the first."""
    depends = call("dpkg-deb", "-f", package, "Depends")
    return sorted(re.match(r"[a-z0-9.+-]+", part.strip())[0] for part in depends.split(","))


def bootstrap(target, include, *options, release=RELEASE):
    if not shutil.which("mmdebstrap"):
        raise Skip("mmdebstrap is not installed (scripts/bootstrap test)")
    try:
        return call("mmdebstrap", "--variant=minbase", "--include=" + ",".join(include), *proxies(), *options,
                    release, target, *mirror(release))
    except (AssertionError, subprocess.TimeoutExpired) as why:
        if re.search("Failed to fetch|Could not resolve|Unable to connect|timed out", str(why)):
            raise Skip("the Debian mirror cannot be reached") from None
        raise


def root(kind, package, release=RELEASE):
    """The directory of such a root; the first time a minute, then at once."""
    include = sorted(set(KINDS[kind]) | set(libraries(package)))
    seen = hashlib.sha256(" ".join(include).encode()).hexdigest()[:12]
    directory = CACHE / f"root-{release}-{kind}-{seen}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{release}-{kind}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            for old in CACHE.glob(f"root-{release}-{kind}-*"):
                shutil.rmtree(old, ignore_errors=True)
            fresh = CACHE / f"{release}-{kind}.new"
            shutil.rmtree(fresh, ignore_errors=True)
            bootstrap(fresh, include, "--mode=root", "--format=directory", release=release)
            fresh.rename(directory)
    return directory

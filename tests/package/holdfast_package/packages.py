"""The Debian packages of this tree: built once for each state of the tracked files and each release of Debian, and kept.

`renamed()` gives the same package under another version: what an upgrade and a downgrade need, without a second compilation.
HOLDFAST_BOOT_RELEASE (make boot RELEASE=trixie) chooses the release that machines have; else it is this host's.
"""
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("HOLDFAST_BOOT_CACHE", SOURCE / "build/boot"))
LIMIT_S = 900


def host_release():
    with open("/etc/os-release") as release:
        return re.search(r"^VERSION_CODENAME=(\w+)$", release.read(), re.M)[1]


RELEASE = os.environ.get("HOLDFAST_BOOT_RELEASE") or host_release()


def call(*command, **options):
    """Runs a program that must succeed; what it printed."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=LIMIT_S, **options)
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{said[-6000:]}"
    return said


def by_name(folder):
    return {path.name.split("_")[0]: path for path in Path(folder).glob("*.deb")}


def build(folder, release=None, **environment):
    """What build-deb said, and the packages by name. For another release than the host's: in a root of that."""
    clean = ["--clean", release] if release not in (None, host_release()) else []
    said = call(SOURCE / "packaging/build-deb", *clean, folder, env=os.environ | environment)
    return said, by_name(folder)


def _fingerprint():
    """Of every tracked file that can change a package."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=SOURCE, check=True, stdout=subprocess.PIPE).stdout.split(b"\0")
    seen = hashlib.sha256()
    for name in sorted(names):
        path = SOURCE / os.fsdecode(name)
        if name and not name.startswith((b"tests/", b"bench/", b"demo/")) and path.exists():
            seen.update(b"%s\0%o\0" % (name, path.stat().st_mode))
            seen.update(path.read_bytes())
    return seen.hexdigest()[:16]


def current(release=RELEASE):
    """(what the build said, the packages by name). The build's output is kept beside them."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"packages-{release}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = CACHE / f"packages-{release}-{_fingerprint()}"
        if not (folder / "said").exists():
            for old in CACHE.glob(f"packages-{release}-*"):
                shutil.rmtree(old, ignore_errors=True)
            said, _ = build(folder, release)
            (folder / "said").write_text(said)
        return (folder / "said").read_text(), by_name(folder)


def renamed(package, version, folder):
    """The same package under another version, in the folder."""
    scratch = Path(folder, "unpacked")
    call("dpkg-deb", "--raw-extract", package, scratch)
    control = scratch / "DEBIAN/control"
    control.write_text(re.sub("(?m)^Version: .*$", f"Version: {version}", control.read_text()))
    made = Path(folder, f"holdfast_{version}.deb")
    call("dpkg-deb", "--root-owner-group", "-Znone", "--build", scratch, made)
    shutil.rmtree(scratch)
    return made

"""The Debian packages of this tree: built once for each state of the tracked files, and kept.

`previous()` gives the same package under a lower version, `next()` under a higher one: what an upgrade and a downgrade
need, without a second compilation.
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


def call(*command, **options):
    """Runs a program that must succeed; what it printed."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=LIMIT_S, **options)
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{said[-6000:]}"
    return said


def by_name(folder):
    return {path.name.split("_")[0]: path for path in Path(folder).glob("*.deb")}


def build(folder, **environment):
    """What build-deb said, and the packages by name."""
    said = call(SOURCE / "packaging/build-deb", folder, env=os.environ | environment)
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


def current():
    """(what the build said, the packages by name). The build's output is kept beside them."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "packages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = CACHE / f"packages-{_fingerprint()}"
        if not (folder / "said").exists():
            for old in CACHE.glob("packages-*"):
                shutil.rmtree(old, ignore_errors=True)
            said, _ = build(folder)
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

"""What the guests boot: Debian's kernel, unpacked and not installed, and an initramfs around busybox.

Both are kept in build/lab and made again only when something they are made of has changed. HOLDFAST_LAB_KERNEL (make lab
KERNEL=6.12) chooses the kernel of another release of Debian, HOLDFAST_LAB_UDP (UDP=yes) builds its NFS client anew (udp.py).
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from holdfast_test.tap import Skip

from . import udp

ROOT = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("HOLDFAST_LAB_CACHE", ROOT / "build/lab"))
GUEST = Path(__file__).resolve().parents[1] / "guest"
SCRIPTS = ["add-with-sqlite", "deliver-mail", "show-waits", "take-jobs"]
OLD_S = 3600
KERNELS = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie", "newest": "sid"}
KERNEL = os.environ.get("HOLDFAST_LAB_KERNEL") or ""
UDP = bool(os.environ.get("HOLDFAST_LAB_UDP"))
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"

PROGRAMS = ["rpcbind", "rpcinfo", "rpc.statd", "sm-notify", "mount.nfs", "rpc.mountd", "rpc.nfsd",
            "exportfs", "sqlite3", "flock", "procmail"]
MODULES = ["virtio_pci", "virtio_net", "virtio_blk", "nfs", "nfsv3", "nfsv4", "nfsd", "nfs_acl"]
LIBRARIES = ["libnss_files.so.2"]
FILES = {
    "etc/passwd": "root:x:0:0::/:/bin/sh\n_rpc:x:101:65534::/run/rpcbind:/bin/false\n"
                  "statd:x:102:65534::/var/lib/nfs:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\n"
                         "protocols: files\nrpc: files\nnetgroup: files\n",
}
COPIED = ["etc/netconfig", "etc/services", "etc/protocols", "etc/rpc"]


def find(name):
    path = shutil.which(name, path=PATH)
    if not path:
        raise Skip(f"{name} is not installed: scripts/bootstrap lab")
    return path


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=900,
                          **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.stderr.decode()[-2000:]}")
    return done.stdout


# ---- the kernel ----

def _apt(directory):
    """Options by which apt sees the release of the wanted kernel and nothing else; none for the kernel of this host's release."""
    if not KERNEL:
        return []
    if KERNEL not in KERNELS:
        raise AssertionError(f"KERNEL={KERNEL}: one of {', '.join(KERNELS)}")
    release = KERNELS[KERNEL]
    apt = directory / "apt"
    (apt / "lists/partial").mkdir(parents=True)
    (apt / "sources.list").write_bytes(run(ROOT / "packaging/debian-mirror", release))
    options = ["-o", f"Dir::Etc::SourceList={apt}/sources.list", "-o", "Dir::Etc::SourceParts=/dev/null", "-o",
               f"Dir::State::Lists={apt}/lists", "-o", f"Dir::Cache={apt}", "-o", "Acquire::Check-Valid-Until=false", "-o",
               "APT::Sandbox::User=root"]
    try:
        run("apt-get", *options, "-qq", "update")
    except AssertionError as why:
        raise Skip(f"the Debian mirror does not have {release}: {why}") from None
    return options


def _download(directory):
    """The package that linux-image-cloud-amd64 depends on in that release today; from Debian 14 on it is empty, and depends on
    others of its version that have the kernel and its modules."""
    options = _apt(directory)
    depends = run("apt-cache", *options, "depends", "linux-image-cloud-amd64").decode()
    package = re.search(r"Depends: (linux-image-\S+)", depends)
    if not package:
        raise Skip("apt knows no linux-image-cloud-amd64")
    version = package[1].removeprefix("linux-image")
    parts = re.findall(rf"Depends: (linux-\w+{re.escape(version)})$", run("apt-cache", *options, "depends", package[1]).decode(), re.M)
    try:
        run("apt-get", *options, "-o", "APT::Sandbox::User=root", "download", package[1], *parts, cwd=directory)
    except AssertionError as why:
        raise Skip(f"the kernel package cannot be downloaded: {why}") from None
    return directory.glob("linux-*.deb")


def _unpack(packages, directory):
    """Later releases have modules under usr/lib, compressed, which the guests' busybox does not read."""
    for package in packages:
        run("dpkg-deb", "-x", package, directory)
        package.unlink()
    if not (directory / "lib").exists():
        (directory / "lib").symlink_to("usr/lib")
    packed = [str(path) for path in directory.glob("lib/modules/*/kernel/**/*.ko.xz")]
    if packed:
        run(find("xz"), "-d", *packed)


def _vmlinuz(directory):
    """None, if there is none yet. Debian 14 keeps it with the modules."""
    return next((path for pattern in ("boot/vmlinuz-*", "lib/modules/*/vmlinuz") for path in directory.glob(pattern)), None)


def kernel():
    """Downloaded once: (vmlinuz, directory of its modules)."""
    if UDP and KERNEL:
        raise AssertionError("UDP=yes works with the kernel of this host's release only, so without KERNEL=")
    directory = CACHE / ("kernel" + (f"-{KERNEL}" if KERNEL else "") + ("-udp" if UDP else ""))
    if not _vmlinuz(directory):
        fresh = CACHE / f"{directory.name}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        _unpack(_download(fresh), fresh)
        if UDP:
            udp.rebuild(run, next(fresh.glob("lib/modules/*")), CACHE / "udp.new")
        shutil.rmtree(directory, ignore_errors=True)
        fresh.rename(directory)
    return _vmlinuz(directory), next(directory.glob("lib/modules/*"))


def processor():
    """The emulated one. Linux 6.12 and later does not boot on it with its cmpxchg16b."""
    return "qemu64,-cx16" if KERNEL in ("6.12", "newest") else "qemu64"


# ---- the initramfs ----

def _libraries(program):
    """The shared libraries of a program, and its loader, as ldd finds them."""
    done = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return re.findall(r"(?:=>\s*|^\s*)(/\S+)", done.stdout.decode(), re.MULTILINE)


def _copy(source, root, target=None):
    target = root / (target or str(source).lstrip("/"))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _copy_program(name_or_path, root):
    path = name_or_path if os.sep in str(name_or_path) else find(name_or_path)
    target = "bin/" + os.path.basename(path)
    if (root / target).is_symlink():  # busybox has a program of that name
        (root / target).unlink()
    _copy(path, root, target)
    for library in _libraries(path):
        _copy(library, root)


def _copy_modules(modules, root):
    """The modules, and what each needs, by modules.dep of the whole tree."""
    where = Path("lib/modules") / modules.name
    run(find("depmod"), "-b", modules.parents[2], modules.name)
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[Path(path).name.removesuffix(".ko").replace("-", "_")] = [path, *rest.split()]
    for name in MODULES:
        for path in needs.get(name, []):
            _copy(modules / path, root, where / path)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        _copy(modules / name, root, where / name)
    run(find("depmod"), "-b", root, modules.name)


def _fill(root, programs, daemons, modules):
    for name in ("bin", "proc", "sys", "dev", "tmp", "run", "mnt", "etc", "var/lib/nfs"):
        (root / name).mkdir(parents=True)
    (root / "sbin").symlink_to("bin")
    (root / "var/run").symlink_to("/run")
    busybox = find("busybox")
    _copy_program(busybox, root)
    for applet in run(busybox, "--list").decode().split():
        if not (root / "bin" / applet).exists():
            (root / "bin" / applet).symlink_to("busybox")
    (root / "usr").mkdir()
    (root / "usr/sbin").symlink_to("/bin")
    (root / "usr/bin").symlink_to("/bin")
    for name in PROGRAMS:
        _copy_program(name, root)
    for program in programs:
        _copy(program, root, "bin/" + program.name.removeprefix("lab-"))
    for daemon in daemons:
        _copy_program(daemon, root)
    for name in LIBRARIES:
        for found in Path("/lib/x86_64-linux-gnu").glob(name):
            _copy(found, root)
    for name in COPIED:
        _copy("/" + name, root)
    for name, text in FILES.items():
        (root / name).write_text(text)
    _copy_modules(modules, root)
    for name, target in (("init", "init"), *((name, "bin/" + name) for name in SCRIPTS)):
        _copy(GUEST / name, root, target)
        (root / target).chmod(0o755)


def _pack(root, archive):
    names = run("find", ".", "-mindepth", "1", cwd=root)
    data = run(find("cpio"), "-o", "-H", "newc", "--quiet", "-R", "0:0", cwd=root, input=names)
    archive.write_bytes(data)  # not compressed: that would cost an emulated processor a second


def guest_programs():
    """What meson built for the guests: the agent, and the applications."""
    built = ROOT / "build/tests/lab"
    return [Path(os.environ.get(f"LAB_{name.upper()}", built / f"lab-{name}"))
            for name in ("agent", "locker", "stress")]


def _fingerprint(paths, hosts):
    seen = [(os.path.realpath(p), os.stat(p).st_size, os.stat(p).st_mtime_ns) for p in paths]
    return hashlib.sha256(json.dumps([seen, hosts, FILES, MODULES]).encode()).hexdigest()[:16]


def initramfs(hosts, *daemons):
    """The root file system of every guest; with daemons, of those that run them."""
    programs = guest_programs()
    vmlinuz, modules = kernel()
    FILES["etc/hosts"] = "127.0.0.1 localhost\n" + hosts
    made_of = [*programs, *(GUEST / name for name in ("init", *SCRIPTS)), Path(__file__), find("busybox"), vmlinuz,
               *map(find, PROGRAMS), *daemons]
    name = "daemon" if daemons else "client"
    archive = CACHE / f"{name}-{_fingerprint(made_of, hosts)}.cpio"
    if not archive.exists():
        for old in CACHE.glob(f"{name}-*.cpio"):
            if time.time() - old.stat().st_mtime > OLD_S:  # another lab may run on it
                old.unlink()
        root = CACHE / f"{name}-{os.getpid()}.root"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        _fill(root, programs, daemons, modules)
        _pack(root, archive.with_suffix(".new"))
        archive.with_suffix(".new").rename(archive)
        shutil.rmtree(root)
    return archive


def disk(path, mib=64):
    """An empty file system for what must outlive a guest."""
    with open(path, "wb") as file:
        file.truncate(mib << 20)
    run(find("mke2fs"), "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0", path)

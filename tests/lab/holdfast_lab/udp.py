"""NFS over UDP for the guests: Debian's kernels are built without it (CONFIG_NFS_DISABLE_UDP_SUPPORT).

The modules nfs and nfsv3 are built again from Debian's kernel source and headers, of the version that the guests boot, with the
two places that ask for that option changed. A compiler of the release is needed, so this works with the kernel of this host's
release only (make lab UDP=yes). It takes a minute of processor time, once: the modules stay with the kernel in build/lab.
"""
import re
import shutil

CHANGES = {"client.c": ("#ifndef CONFIG_NFS_DISABLE_UDP_SUPPORT", "#if 1"),
           "fs_context.c": ("#ifdef CONFIG_NFS_DISABLE_UDP_SUPPORT", "#if 0")}
MODULES = ("nfs.ko", "nfsv3.ko")
# The headers know each other by paths below /usr.
BUILD = """mount -t overlay overlay -o lowerdir="$1/root/usr:/usr" /usr
exec make -C "/usr/src/linux-headers-$2" M="$1/nfs" -j2 nfs.ko nfsv3.ko"""


def _packages(run, version):
    """What builds modules for this kernel, and its source."""
    headers = f"linux-headers-{version}"
    needed = re.findall(r"Depends: (linux-\S+)", run("apt-cache", "depends", headers).decode())
    series = re.match(r"\d+\.\d+", version)[0]
    return [headers, *(name for name in needed if not name.startswith("linux-image-")), f"linux-source-{series}"], series


def _source(run, work, series):
    """fs/nfs of the kernel's source, changed."""
    archive = work / f"root/usr/src/linux-source-{series}.tar.xz"
    run("tar", "-C", work, "-xf", archive, "--strip-components=2", f"linux-source-{series}/fs/nfs")
    archive.unlink()
    for name, (old, new) in CHANGES.items():
        file = work / "nfs" / name
        text = file.read_text()
        assert text.count(old) == 1, f"{name} of Linux {series} has not the place that is to be changed"
        file.write_text(text.replace(old, new))


def rebuild(run, modules, work):
    """Puts modules that can mount by UDP into the place of those in this directory of modules."""
    shutil.rmtree(work, ignore_errors=True)
    (work / "root").mkdir(parents=True)
    names, series = _packages(run, modules.name)
    run("apt-get", "-o", "APT::Sandbox::User=root", "download", *names, cwd=work)
    for package in work.glob("*.deb"):
        run("dpkg-deb", "-x", package, work / "root")
        package.unlink()
    _source(run, work, series)
    run("unshare", "--mount", "--propagation", "private", "sh", "-ec", BUILD, "sh", work, modules.name)
    for name in MODULES:
        run("strip", "-g", work / "nfs" / name)
        shutil.copy(work / "nfs" / name, modules / "kernel/fs/nfs" / name)
    shutil.rmtree(work)

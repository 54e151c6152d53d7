#!/usr/bin/env python3
"""test_names.py [WORD...]: files have names, with real kernels (NAM-01, NAM-02).

alpha is a Linux client of Ganesha and Holdfast: what it locks is shown by path. delta is a server with the kernel's
own nfsd, and has holdfast-namesd: the handles that its nfsd gives out are named there, for each way in which nfsd
names a file system.
"""
import os
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "interop"), str(Path(__file__).parent)]

from holdfast_lab import image  # noqa: E402
from holdfast_lab.lab import HOSTS, Lab, main  # noqa: E402
from holdfast_test import mount, names, rpcbind, tap  # noqa: E402
from holdfast_test.daemon import wait_until  # noqa: E402

lab = None
NAMESD = image.ROOT / "build/src/namesd/holdfast-namesd"
CTL = image.ROOT / "build/src/ctl/holdfastctl"


def ctl(*arguments):
    done = subprocess.run([CTL, *arguments], stdin=subprocess.DEVNULL, timeout=60, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@tap.test
def what_a_linux_client_locks_is_shown_by_path():
    """NAM-01: given alpha's lock through Ganesha, then holdfastctl finds it by the path on the server; when alpha
    renames the file, by the new one; released by path, another owner gets it."""
    alpha = lab.guests["alpha"]
    lab.start("grace.seconds=0")
    alpha.wait_until_up()
    lab.ganesha.wait()
    alpha.mount()
    with names.Namesd(lab.export):
        alpha.run("mkdir /mnt/mail")
        a = alpha.app("a", "mail/ann")
        a.ask("set w 0 100", "granted")
        path = lab.export / "mail/ann"
        status, out, err = ctl("locks", "--file", str(path))
        assert status == 0 and str(path) in out and "alpha.example" in out, f"{status} {out} {err}"
        for line in out.splitlines():
            tap.note(f"lab: {line.rstrip()}")
        alpha.run("mv /mnt/mail/ann /mnt/mail/bob")
        wait_until(lambda: str(lab.export / "mail/bob") in ctl("locks")[1], "the new name")
        status, out, err = ctl("release", "--yes", "--file", str(lab.export / "mail/bob"))
        assert status == 0 and "Released 1" in out, f"{status} {out} {err}"
        b = alpha.app("b", "mail/bob")
        a.end()
        b.ask("set w 0 100", "granted")


def handle(server, export, path):
    """By MOUNT and LOOKUP, from the host."""
    ports = [rpcbind.getport(program, 3, "tcp", host=server) for program in (100005, 100003)]
    return mount.file_handle(server, export, path, mount_port=ports[0], nfs_port=ports[1])


@tap.test
def handles_of_the_kernel_s_nfsd_have_their_paths():
    """NAM-02: by fsid=, by uuid, and with subtree_check, which puts the directory into the handle; also when the kernel
    has forgotten the directories; nothing outside the export."""
    delta = lab.guests["delta"]
    delta.wait_until_up()
    kinds = set()
    for number, options in enumerate(("fsid=7,no_subtree_check", "no_subtree_check", "subtree_check"), 1):
        export = f"/var/lib/nfs/names{number}"
        delta.run(f"mkdir -p {export}/deep/er; touch {export}/deep/er/plan.txt")
        delta.run(f"exportfs -i -o rw,insecure,no_root_squash,{options} '*:{export}'")
        fh = handle(delta.address, export, "deep/er/plan.txt")
        tap.note(f"lab: nfsd, {options}: {fh.hex()}")
        kinds.add((fh[2], fh[3]))
        path = f"{export}/deep/er/plan.txt"
        ask = f"holdfast-namesd --config '' --log-level error --export {export} --resolve {fh.hex()}"
        assert delta.run(ask) == path
        delta.run(f"mv {path} {export}/deep/moved")
        assert delta.run(ask) == f"{export}/deep/moved"
        delta.run("echo 2 >/proc/sys/vm/drop_caches")
        assert delta.run(ask) == f"{export}/deep/moved"
        other = f"holdfast-namesd --config '' --log-level error --export /var/lib/nfs/sm --resolve {fh.hex()}"
        assert "unknown" in delta.run(other, check=False)
        assert fh[0] == 1 and fh[1] == 0, fh.hex()
    tap.note(f"lab: fsid and fileid types of nfsd: {sorted(kinds)}")
    assert len(kinds) == 3, kinds


def opened():
    global lab
    if not NAMESD.exists() or not CTL.exists():
        raise tap.Skip("needs build/, without sanitizers: make build")
    os.environ["HOLDFAST_NAMESD"] = str(NAMESD)
    lab = Lab("names")
    lab.guest("delta", role="server", archive=image.initramfs(HOSTS, str(NAMESD))).boot(wait=False, grace=10)
    lab.guest("alpha").boot(wait=False)
    return lab


if __name__ == "__main__":
    main(opened, sys.argv[1:])

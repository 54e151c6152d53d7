#!/usr/bin/env python3
"""The AppArmor profile, enforced: Debian's own kernel in a virtual machine boots a root with the package installed. The
daemon is confined, serves, is restarted, backed up, and AppArmor denies it nothing; what the profile does not name is denied."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "lab"))
os.environ.setdefault("HOLDFAST_LAB_CACHE", str(Path(__file__).resolve().parents[2] / "build/lab"))
KERNELS = {"trixie": "6.12", "sid": "newest"}  # of the release that the machine has
os.environ.setdefault("HOLDFAST_LAB_KERNEL", KERNELS.get(os.environ.get("HOLDFAST_BOOT_RELEASE"), ""))

from holdfast_lab import image  # noqa: E402
from holdfast_test import netns, nlm, tap  # noqa: E402
from holdfast_test.peer import NSM, SM_NOTIFY, Network  # noqa: E402
from holdfast_package import packages  # noqa: E402
from holdfast_package.machine import CLIENTS, SERVER, machine_setup, wait_until  # noqa: E402

BOOT_S = 400  # an emulated processor on a busy machine
MEMORY_MIB = 1536
MODULES = ["virtio_pci", "virtio_net"]

NETWORK = f"""[Unit]
DefaultDependencies=no
Before=network-pre.target network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/modprobe -a {" ".join(MODULES)}
ExecStart=/bin/sh -c 'until [ -e /sys/class/net/eth0 ]; do sleep 0.2; done'
ExecStart=/sbin/ip link set eth0 up
ExecStart=/sbin/ip address add {SERVER}/16 dev eth0
ExecStart=/sbin/ip route add {CLIENTS} via 10.1.0.2
[Install]
WantedBy=sysinit.target
"""
# What is asked of the daemon in there, and what comes of it, on the second serial line.
REPORT = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
StandardOutput=file:/dev/ttyS1
StandardError=inherit
ExecStart=/bin/sh /srv/report
[Install]
WantedBy=multi-user.target
"""
SCRIPT = """
state() { systemctl is-active holdfastd; }
until [ "$(state)" = active ]; do echo "waits: $(systemctl show -p StatusText,ActiveState,Result holdfastd | paste -sd' ')"; sleep 1; done
echo "profile: $(cat /proc/$(systemctl show --value -p MainPID holdfastd)/attr/current)"
echo first start
until holdfastctl locks | grep -q alice; do sleep 0.5; done
holdfastctl backup /root/backup && echo backed up
systemctl reload holdfastd && echo reloaded
systemctl restart holdfastd && echo restarted
echo "profile: $(cat /proc/$(systemctl show --value -p MainPID holdfastd)/attr/current)"
until holdfastctl locks | grep -q bob; do sleep 0.5; done
echo end of service
mkdir -p /etc/systemd/system/holdfastd.service.d
printf '[Service]\\nProtectSystem=no\\nExecStart=\\nExecStart=/usr/sbin/holdfastd --set store.path=/opt\\n' >/etc/systemd/system/holdfastd.service.d/opt.conf
chown holdfast /opt
systemctl daemon-reload
systemctl restart holdfastd || echo "not allowed: $(systemctl show --value -p StatusText holdfastd)"
echo end
"""


def make_initramfs(lower, package, folder):
    """The root with the package, Debian's modules and our two units, as the kernel's first root: nothing to mount."""
    root = Path(folder, "root")
    packages.call("cp", "-a", lower, root)
    vmlinuz, modules = image.kernel()
    image._copy_modules.__globals__["MODULES"] = MODULES
    image._copy_modules(modules, root)
    shutil.copy(package, root / "srv/holdfast.deb")
    for unit, text in (("lab-network.service", NETWORK), ("lab-report.service", REPORT)):
        (root / "etc/systemd/system" / unit).write_text(text)
    (root / "srv/report").write_text(SCRIPT)
    (root / "etc/hostname").write_text("server\n")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{SERVER} server\n")
    packages.call("chroot", root, "dpkg", "--install", "/srv/holdfast.deb", env={
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})
    packages.call("chroot", root, "systemctl", "enable", "lab-network.service", "lab-report.service")
    for path in ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(root / path, ignore_errors=True)
    (root / "init").symlink_to("lib/systemd/systemd")
    image._pack(root, Path(folder, "initramfs"))
    shutil.rmtree(root)
    return vmlinuz, Path(folder, "initramfs")


@contextlib.contextmanager
def guest(folder, vmlinuz, initramfs):
    netns.run("ip", "tuntap", "add", "dev", "tap0", "mode", "tap")
    netns.run("ip", "address", "add", "10.1.0.2/16", "dev", "tap0")
    netns.run("ip", "link", "set", "tap0", "up")
    process = subprocess.Popen(
        [image.find("qemu-system-x86_64"), "-accel", "tcg", "-cpu", image.processor(), "-m", str(MEMORY_MIB), "-nodefaults", "-display", "none", "-no-reboot",
         "-kernel", vmlinuz, "-initrd", initramfs, "-append",
         "console=ttyS0 loglevel=6 panic=1 apparmor=1 lsm=landlock,apparmor mitigations=off nokaslr random.trust_cpu=on "
         "net.ifnames=0 systemd.show_status=no",
         "-serial", f"file:{folder}/console", "-serial", f"file:{folder}/report",
         "-netdev", "tap,id=net,ifname=tap0,script=no,downscript=no", "-device", "virtio-net-pci,netdev=net"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if os.environ.get("HOLDFAST_KEEP"):
            packages.call("cp", f"{folder}/console", f"{folder}/report", os.environ["HOLDFAST_KEEP"])


@tap.test
def the_profile_is_enforced_and_denies_the_daemon_nothing_it_needs():
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-"))
        report, console = Path(folder, "report"), Path(folder, "console")
        for path in (report, console):
            path.touch()
        vmlinuz, initramfs = make_initramfs(roots["apparmor"], package, folder)
        process = stack.enter_context(guest(folder, vmlinuz, initramfs))

        def said(line):
            def look():
                assert process.poll() is None, "the machine has ended\n" + console.read_text(errors="replace")[-3000:]
                return line in report.read_text(errors="replace").splitlines()
            wait_until(look, lambda: f"{line}\n{report.read_text(errors='replace')}\n"
                       + console.read_text(errors="replace")[-3000:], BOOT_S)

        said("first start")
        network = stack.enter_context(Network())
        alice, bob = network.host("10.2.0.1", "alice"), network.host("10.2.0.2", "bob")
        assert alice.stat(nlm.LOCK) == "GRANTED"
        for line in ("backed up", "reloaded", "restarted"):
            said(line)
        alice.wait_for(SM_NOTIFY, prog=NSM, seconds=120)
        alice.close_clients()
        assert alice.stat(nlm.LOCK, reclaim=True) == "GRANTED"
        assert alice.stat(nlm.UNLOCK) == "GRANTED"
        wait_until(lambda: bob.stat(nlm.LOCK) == "GRANTED", "bob has the lock", 120)
        said("end of service")
        denied = [line for line in console.read_text(errors="replace").splitlines() if 'apparmor="DENIED"' in line]
        assert not denied, "\n".join(denied)
        assert report.read_text().count("profile: holdfastd (enforce)") == 2, report.read_text()
        said("end")
        denied = [line for line in console.read_text(errors="replace").splitlines() if 'apparmor="DENIED"' in line]
        assert "not allowed: " in report.read_text() and any("/opt" in line for line in denied), report.read_text()


if __name__ == "__main__":
    if os.environ.get("HOLDFAST_BOOT") != "all":
        tap.skip_all("takes minutes: make boot")
    try:
        image.find("qemu-system-x86_64")
        image.kernel()
    except tap.Skip as why:
        tap.skip_all(str(why))
    package, roots = machine_setup("apparmor")
    tap.main()

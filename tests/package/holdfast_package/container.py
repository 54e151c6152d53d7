"""The container image (packaging/build-oci), unpacked and run by crun in a network that is there already, as engines and kubelets do
it. Needs root, inside netns.enter(), and a mounted cgroup2 (mount_groups)."""
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from holdfast_test import netns, tap

from . import packages
from .machine import wait_until

TOOLS = ("crun", "umoci", "mmdebstrap")
# What the daemon needs until it has become its own user.
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETPCAP", "SETUID"]
_count = itertools.count(1)


def lacking():
    """The capabilities that root does not have on this machine, among those that file servers use."""
    own = int(re.search(r"^CapBnd:\s*(\w+)$", Path("/proc/self/status").read_text(), re.M)[1], 16)
    return [name for name, bit in (("DAC_READ_SEARCH", 2), ("SYS_RESOURCE", 24)) if not own >> bit & 1]


def missing():
    """Why no container can run here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    return next((f"{tool} is not installed (scripts/bootstrap test)" for tool in TOOLS if not shutil.which(tool)), None)


def mount_groups():
    netns.run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")  # crun refuses a mixture of both versions


def image():
    """Made once for each package: the OCI layout."""
    package = packages.current()[1]["holdfast"]
    layout = package.parent / "oci"
    if not (layout / "index.json").exists():
        tap.note("image: " + packages.call(packages.SOURCE / "packaging/build-oci", package, layout, packages.RELEASE).strip().split(": ", 1)[1])
    return layout


def unpack(layout, folder, network):
    """The image as a bundle of crun in the given network, with few capabilities; its configuration, to be changed and saved."""
    packages.call("umoci", "unpack", "--image", f"{layout}:latest", folder)
    config = json.loads(Path(folder, "config.json").read_text())
    config["process"]["terminal"] = False
    for namespace in config["linux"]["namespaces"]:
        if namespace["type"] == "network":
            namespace["path"] = network
    set_capabilities(config, CAPABILITIES)
    return config


def set_capabilities(config, names):
    """Those that this machine has itself: a container cannot get others."""
    allowed = ["CAP_" + name for name in names if name not in lacking()]
    config["process"]["capabilities"] = {kind: allowed for kind in ("bounding", "effective", "permitted")}


def mount(config, source, destination, *options):
    config["mounts"] = [one for one in config["mounts"] if one["destination"] != destination]
    config["mounts"].append({"destination": destination, "type": "bind", "source": str(source), "options": ["rbind", *(options or ("rw",))]})


def store_like(bundle, folder):
    """An empty directory with the owner that the image gives its store's: a volume."""
    inside = Path(bundle, "rootfs/var/lib/holdfast").stat()
    Path(folder).mkdir(mode=0o700)
    os.chown(folder, inside.st_uid, inside.st_gid)
    return folder


def save(config, bundle):
    Path(bundle, "config.json").write_text(json.dumps(config))


class Container:
    """A container that runs until it is stopped; what it writes is in a file."""

    def __init__(self, bundle, log):
        self.log = Path(log)
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                ["crun", "--cgroup-manager=disabled", "run", "--bundle", bundle, f"holdfast-{os.getpid()}-{next(_count)}"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def said(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, condition, what):
        wait_until(lambda: self.process.poll() is not None or condition(), what)
        assert self.process.poll() is None, self.said()

    def kill(self):
        """As a crash of its first process, which crun tells by its own status."""
        inside = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(inside[0]), signal.SIGKILL)
        assert self.process.wait(60) != 0

    def stop(self):
        """SIGTERM, which crun passes on; it must end well."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        assert status == 0, f"exit status {status}\n{self.said()}"

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

#!/usr/bin/env python3
"""The container image (packaging/build-oci), made from the package and run by crun in namespaces of its own: it grants a
lock, keeps it over a restart of the container, and stops when told to."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import netns, nlm, tap
from holdfast_test.peer import NSM, SM_NOTIFY, Network
from holdfast_package import packages
from holdfast_package.machine import CLIENTS, server_network, wait_until


def image():
    """Made once for each package: the OCI layout."""
    package = packages.current()[1]["holdfast"]
    layout = package.parent / "oci"
    if not (layout / "index.json").exists():
        tap.note("image: " + packages.call(packages.SOURCE / "packaging/build-oci", package, layout).strip().split(": ", 1)[1])
    return layout


@contextlib.contextmanager
def running(bundle, log):
    """The container, until it has stopped by SIGTERM with status 0."""
    with open(log, "wb") as output:
        process = subprocess.Popen(["crun", "--cgroup-manager=disabled", "run", "--bundle", bundle, f"holdfast-{os.getpid()}"],
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        wait_until(lambda: process.poll() is not None or " ready " in Path(log).read_text(errors="replace"), "it is ready")
        assert process.poll() is None, Path(log).read_text(errors="replace")
        yield
    finally:
        process.send_signal(signal.SIGTERM)  # crun passes it on
        status = process.wait(60)
    assert status == 0, f"exit status {status}\n" + Path(log).read_text(errors="replace")


def make_bundle(layout, folder, network):
    """The image unpacked, with the network of the server, and the rest as engines do it: few capabilities, and a volume with
    the owner that the image gives its directory."""
    packages.call("umoci", "unpack", "--image", f"{layout}:latest", folder)
    path = Path(folder, "config.json")
    config = json.loads(path.read_text())
    config["process"]["terminal"] = False
    for namespace in config["linux"]["namespaces"]:
        if namespace["type"] == "network":
            namespace["path"] = network
    allowed = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_NET_BIND_SERVICE", "CAP_SETGID", "CAP_SETPCAP",
               "CAP_SETUID"]
    config["process"]["capabilities"] = {kind: allowed for kind in ("bounding", "effective", "permitted")}
    store, inside = Path(folder, "store"), Path(folder, "rootfs/var/lib/holdfast").stat()
    store.mkdir(mode=0o700)
    os.chown(store, inside.st_uid, inside.st_gid)
    config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] != "/var/lib/holdfast"]
    config["mounts"].append({"destination": "/var/lib/holdfast", "type": "bind", "source": str(store), "options": ["rbind", "rw"]})
    path.write_text(json.dumps(config))


@tap.test
def a_container_keeps_its_locks():
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-")))
        network_path = stack.enter_context(server_network())
        make_bundle(layout, folder / "bundle", network_path)
        network = stack.enter_context(Network())
        alice, bob = network.host("10.2.0.1", "alice"), network.host("10.2.0.2", "bob")
        with running(folder / "bundle", folder / "first.log"):
            assert alice.stat(nlm.LOCK) == "GRANTED"
            assert bob.stat(nlm.LOCK) == "DENIED"
            assert (folder / "bundle/store/data.mdb").stat().st_uid != 0, "it runs as root"
        for host in (alice, bob):
            host.close_clients()
        with running(folder / "bundle", folder / "second.log"):
            alice.wait_for(SM_NOTIFY, prog=NSM, seconds=60)
            assert alice.stat(nlm.LOCK, reclaim=True) == "GRANTED"
            wait_until(lambda: bob.stat(nlm.LOCK) == "DENIED", "the lock is alice's", 30)


if __name__ == "__main__":
    if os.environ.get("HOLDFAST_BOOT") != "all":
        tap.skip_all("takes a minute: make boot")
    if os.geteuid() != 0:
        tap.skip_all("needs root")
    for tool in ("crun", "umoci", "mmdebstrap"):
        if not shutil.which(tool):
            tap.skip_all(f"{tool} is not installed (scripts/bootstrap test)")
    layout = image()
    netns.enter(addresses=())
    netns.run("ip", "route", "add", "local", CLIENTS, "dev", "lo")
    netns.run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")  # crun refuses a mixture of both versions
    tap.main()

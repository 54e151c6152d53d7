#!/usr/bin/env python3
"""The pods of packaging/kubernetes, with crun in the place of a container engine and this test in that of the kubelet: containers are
started as the manifests say, in their order, in one network; probes decide; what ends is started again. The image is ours; Ganesha runs
in a root of Debian."""
import contextlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

import manifests
from holdfast_test import netns, nlm, tap
from holdfast_test.mount import file_handle
from holdfast_test.peer import NSM, SM_NOTIFY, Network
from holdfast_package import container, packages
from holdfast_package.machine import CLIENTS, SERVER, for_ganesha, server_network, wait_until
from holdfast_package.root import root

NODE = "node-7.example"


class Pod:
    """Containers of one manifest in the network of a node, which is SERVER. Volumes outlive the containers."""

    def __init__(self, stack, name):
        self.stack, self.folder = stack, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-")))
        self.spec, self.data = manifests.pod_of(manifests.read()[name])
        self.network = stack.enter_context(server_network())
        self.starts = 0
        self.started = []
        stack.callback(lambda: [one.end() for one in reversed(self.started)])
        (self.folder / "config").mkdir(mode=0o755)
        for file, text in self.data.items():
            (self.folder / "config" / file).write_text(for_ganesha(text) if "SYS_RESOURCE" in container.lacking() else text)

    def volume(self, name, bundle):
        """A directory for a volume: the files of the ConfigMap, or an empty one; locks and registrations with the image's owner."""
        path = self.folder / name
        if name == "config":
            return path
        if not path.exists() and name in ("locks", "registrations"):
            container.store_like(bundle, path)
        path.mkdir(exist_ok=True)
        return path

    def bundle(self, name, rootfs=None):
        """The container as a kubelet would ask for it: arguments, capabilities, volumes, a root that cannot be written."""
        wanted, bundle = manifests.container_of(self.spec, name), self.folder / f"bundle-{name}-{self.starts}"
        config = container.unpack(image, bundle, self.network)
        if rootfs:
            config["root"]["path"] = str(rootfs)
            config["process"]["args"] = ["/usr/bin/ganesha.nfsd"]
        config["process"]["args"] += manifests.arguments(wanted, NODE)
        config["root"]["readonly"] = wanted["securityContext"].get("readOnlyRootFilesystem", False)
        config["process"]["noNewPrivileges"] = not wanted["securityContext"].get("allowPrivilegeEscalation", True)
        container.set_capabilities(config, wanted["securityContext"]["capabilities"]["add"])
        for mount in wanted["volumeMounts"]:
            container.mount(config, self.volume(mount["name"], bundle), mount["mountPath"], "ro" if mount.get("readOnly") else "rw")
        container.save(config, bundle)
        return bundle

    def start(self, name, **options):
        self.starts += 1
        one = container.Container(self.bundle(name, **options), self.folder / f"{name}-{self.starts}.log")
        self.started.append(one)
        return one

    def start_holdfast(self):
        """Started, and waited for as the kubelet does: by the startup probe."""
        one = self.start("holdfast")
        one.wait_for(lambda: self.probed("startupProbe") == 200, "its startup probe succeeds")
        assert self.probed("readinessProbe") == self.probed("livenessProbe") == 200
        return one

    def probed(self, kind):
        """The status that a probe gets. A kubelet probes a pod in the host's network from the host."""
        address, port, path = manifests.probe(manifests.container_of(self.spec, "holdfast"), kind)
        done = subprocess.run(["nsenter", f"--net={self.network}", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
                               f"http://{address}:{port}{path}"], capture_output=True, text=True, timeout=20)
        return int(done.stdout or 0)


@tap.test
def ganesha_with_holdfast_beside_it():
    """Holdfast is ready before Ganesha starts, which registers with its rpcbind; an exported file is locked; the lock outlives a crash,
    and an upgrade, which is a stop and a container of a newer image in its place
    (here of the same; tests/package/test_life.py has the versions)."""
    with contextlib.ExitStack() as stack:
        pod = Pod(stack, "ganesha.yaml")
        network = stack.enter_context(Network())
        alice, bob = network.host("10.2.0.1", "alice"), network.host("10.2.0.2", "bob")
        holdfast = pod.start_holdfast()
        rootfs = Path(stack.enter_context(overlay(root("full", packages.current()[1]["holdfast"]))))
        ganesha = pod.start("ganesha", rootfs=rootfs)
        (pod.folder / "export/file").write_text("a file of the export\n")
        (pod.folder / "export/file").chmod(0o666)

        def handle():
            with contextlib.suppress(Exception):
                return file_handle(SERVER, "/export", "file")
            return None

        ganesha.wait_for(lambda: handle() is not None, lambda: f"Ganesha exports the file\n{ganesha.said()[-3000:]}\n{holdfast.said()[-3000:]}")
        fh = handle()
        assert alice.stat(nlm.LOCK, alice.lock(fh=fh)) == "GRANTED"
        assert bob.stat(nlm.LOCK, bob.lock(fh=fh)) == "DENIED"

        def again():
            """A new container in the place of the one that ended; alice is told, and reclaims."""
            seen = len(alice.calls)
            for host in (alice, bob):
                host.close_clients()
            fresh = pod.start_holdfast()
            wait_until(lambda: any((call.prog, call.proc) == (NSM, SM_NOTIFY) for call in alice.calls[seen:]), "alice is told", 60)
            assert alice.stat(nlm.LOCK, alice.lock(fh=fh), reclaim=True) == "GRANTED"
            wait_until(lambda: bob.stat(nlm.LOCK, bob.lock(fh=fh)) == "DENIED", "the lock is alice's", 60)
            return fresh

        holdfast.kill()
        holdfast = again()
        holdfast.stop()
        holdfast = again()
        assert ganesha.process.poll() is None, ganesha.said()[-2000:]
        assert handle() == fh


@tap.test
def a_status_monitor_on_a_node():
    """The registrations of a node's kernel outlive a new pod, and in the same boot no host is told anything."""
    with contextlib.ExitStack() as stack:
        pod = Pod(stack, "status-monitor.yaml")
        monitor = pod.start_holdfast()
        said = subprocess.run(["nsenter", f"--net={pod.network}", "rpcinfo", "-T", "tcp", "127.0.0.1", "100024"],
                              capture_output=True, text=True, timeout=30)
        assert "ready and waiting" in said.stdout, said
        monitor.kill()
        monitor = pod.start_holdfast()
        assert re.search(r" state=1$", monitor.said(), re.M), "a new state number tells servers of a boot that was none\n" + monitor.said()
        assert (pod.folder / "registrations/data.mdb").stat().st_uid != 0, "it runs as root"
        monitor.stop()


@contextlib.contextmanager
def overlay(lower):
    """The root, to be written to in memory."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as base:
        netns.run("mount", "-t", "tmpfs", "tmpfs", base)
        try:
            for name in ("root", "upper", "work"):
                Path(base, name).mkdir()
            netns.run("mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={base}/upper,workdir={base}/work", "overlay", f"{base}/root")
            try:
                for needed in ("export", "etc/nfs", "run", "var/lib/nfs"):
                    Path(base, "root", needed).mkdir(parents=True, exist_ok=True)
                yield f"{base}/root"
            finally:
                netns.run("umount", f"{base}/root")
        finally:
            netns.run("umount", base)


if __name__ == "__main__":
    if os.environ.get("HOLDFAST_BOOT") != "all":
        tap.skip_all("takes a minute: make boot")
    if netns.INSIDE not in os.environ:
        refusal = container.missing() or manifests.prepare()
        if refusal:
            tap.skip_all(refusal)
    image = container.image()
    netns.enter(addresses=())
    netns.run("ip", "route", "add", "local", CLIENTS, "dev", "lo")
    container.mount_groups()
    if container.lacking():
        tap.note("this machine, and so the containers, lack " + ", ".join(container.lacking()))
    tap.main()

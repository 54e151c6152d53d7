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
        elif not path.exists():
            path.mkdir()
            path.chmod(0o777)  # as a kubelet makes an emptyDir
        return path

    def bundle(self, name, rootfs=None, runs_as_user=False):
        """The container as a kubelet would ask for it: arguments, capabilities, volumes, a root that cannot be written. With runAsUser,
        which the manifests do not set, it is the user holdfast from the beginning, without a capability."""
        wanted, bundle = manifests.container_of(self.spec, name), self.folder / f"bundle-{name}-{self.starts}"
        config = container.unpack(image, bundle, self.network)
        if rootfs:
            config["root"]["path"] = str(rootfs)
            config["process"]["args"] = ["/usr/bin/ganesha.nfsd"]
        config["process"]["args"] += manifests.arguments(wanted, NODE)
        config["root"]["readonly"] = wanted["securityContext"].get("readOnlyRootFilesystem", False)
        config["process"]["noNewPrivileges"] = not wanted["securityContext"].get("allowPrivilegeEscalation", True)
        container.set_capabilities(config, [] if runs_as_user else wanted["securityContext"]["capabilities"]["add"])
        if runs_as_user:
            owner = Path(bundle, "rootfs/var/lib/holdfast").stat()
            config["process"]["user"] = {"uid": owner.st_uid, "gid": owner.st_gid}
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

    def start_ganesha(self):
        """Started, and waited for until it exports a file."""
        rootfs = Path(self.stack.enter_context(overlay(root("full", packages.current()[1]["holdfast"]))))
        ganesha = self.start("ganesha", rootfs=rootfs)
        (self.folder / "export/file").write_text("a file of the export\n")
        (self.folder / "export/file").chmod(0o666)
        ganesha.wait_for(lambda: handle() is not None,
                         lambda: "Ganesha exports the file\n" + "\n".join(one.said()[-3000:] for one in self.started))
        return ganesha

    def inside(self, *command):
        return subprocess.run(["nsenter", f"--net={self.network}", *command], capture_output=True, text=True, timeout=30)

    def answered(self, kind):
        """What a probe gets: the status, 0 without an answer, and the text. A kubelet probes a pod in the host's network from the host."""
        address, port, path = manifests.probe(manifests.container_of(self.spec, "holdfast"), kind)
        text, _, status = self.inside("curl", "-s", "-w", "\n%{http_code}", f"http://{address}:{port}{path}").stdout.rpartition("\n")
        return int(status), text

    def probed(self, kind):
        return self.answered(kind)[0]


def handle():
    """The handle of the exported file, or None."""
    with contextlib.suppress(Exception):
        return file_handle(SERVER, "/export", "file")
    return None


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
        ganesha = pod.start_ganesha()
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

        for end in ("kill", "stop"):
            getattr(holdfast, end)()
            assert pod.probed("readinessProbe") == pod.probed("livenessProbe") == 0
            holdfast = again()
        assert ganesha.process.poll() is None, ganesha.said()[-2000:]
        assert handle() == fh


@tap.test
def as_another_user_from_the_beginning():
    """ADM-10: given runAsUser and no capability: alive, and not ready, because port 111 is root's, with the reason in the answer of the
    probe. Where the node gives users such ports, it is ready, is the node's rpcbind, with which Ganesha registers, and grants locks."""
    with contextlib.ExitStack() as stack:
        pod = Pod(stack, "ganesha.yaml")
        alice = stack.enter_context(Network()).host("10.2.0.1", "alice")
        holdfast = pod.start("holdfast", runs_as_user=True)
        holdfast.wait_for(lambda: "ready version=" in holdfast.said() and pod.probed("livenessProbe") == 200, "it is alive")
        status, text = pod.answered("readinessProbe")
        assert status == 503 and "rpcbind" in text, (status, text, holdfast.said())
        holdfast.stop()
        done = pod.inside("sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start")
        assert done.returncode == 0, done
        holdfast = pod.start("holdfast", runs_as_user=True)
        holdfast.wait_for(lambda: pod.probed("startupProbe") == 200, lambda: f"it is ready {pod.answered('startupProbe')}\n{holdfast.said()}")
        pod.start_ganesha()
        assert {"100003", "100021", "100024"} <= set(pod.inside("rpcinfo", "-p", "127.0.0.1").stdout.split())
        assert alice.stat(nlm.LOCK, alice.lock(fh=handle())) == "GRANTED"
        holdfast.stop()


@tap.test
def a_status_monitor_on_a_node():
    """The registrations of a node's kernel outlive a new pod, and in the same boot no host is told anything."""
    with contextlib.ExitStack() as stack:
        pod = Pod(stack, "status-monitor.yaml")
        monitor = pod.start_holdfast()
        said = pod.inside("rpcinfo", "-T", "tcp", "127.0.0.1", "100024")
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

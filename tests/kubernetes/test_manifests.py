#!/usr/bin/env python3
"""The manifests for Kubernetes and the compose file (packaging/kubernetes): they fit the schemas, and the daemon, started with what
they say, answers the probes that they name. tests/package/test_pods.py runs their containers."""
import os
import re
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import manifests
from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon, program, wait_until

NODE = "node-7.example"
PROBES = {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
# What Kubernetes knows of a container, as far as ours use it: the schemas let an unknown key pass, and so would a misspelt probe.
KEYS = {"name", "image", "args", "env", "restartPolicy", *PROBES, "securityContext", "resources", "volumeMounts"}


def answer(address, port, path):
    try:
        return urllib.request.urlopen(f"http://{address}:{port}{path}", timeout=5).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


@tap.test
def they_fit_the_schemas():
    """Each document is one that Kubernetes would take; a misspelt field is noticed by the test itself."""
    assert set(manifests.read()) == {"compose.yaml", "ganesha.yaml", "status-monitor.yaml"}
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        text = (manifests.SOURCE / "packaging/kubernetes/ganesha.yaml").read_text()
        for old, new, says in (("replicas: 1", "replicas: one", "must be integer"), ("port: 8049, ", "", "required property")):
            Path(folder, "bad.yaml").write_text(text.replace(old, new, 1))
            try:
                manifests.read(Path(folder, "bad.yaml"))
            except AssertionError as error:
                assert says in str(error), error
            else:
                raise AssertionError(f"{new!r} passes")


@tap.test
def each_container_has_what_a_kubelet_needs():
    """Known keys only; the three probes; no capability beyond those that the image is tested with; the host's network."""
    documents = manifests.read()
    for name in ("ganesha.yaml", "status-monitor.yaml"):
        pod, _ = manifests.pod_of(documents[name])
        assert pod["hostNetwork"] is True, "locks belong to the clients' own addresses"
        for container in pod.get("initContainers", []) + pod["containers"]:
            assert set(container) <= KEYS, set(container) - KEYS
        holdfast = manifests.container_of(pod, "holdfast")
        for kind, path in PROBES.items():
            assert manifests.probe(holdfast, kind)[2] == path, kind
        rights = holdfast["securityContext"]
        assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"] and rights["capabilities"]["drop"] == ["ALL"]
        named = {volume["name"] for volume in pod["volumes"]} | {"export", "locks"}
        for container in pod.get("initContainers", []) + pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= named
    compose, = documents["compose.yaml"]
    service = compose["services"]["holdfast"]
    assert service["network_mode"] == "host" and service["cap_add"] == rights["capabilities"]["add"]
    assert [volume.split(":") for volume in service["volumes"]] == [[name, "/var/lib/holdfast"] for name in compose["volumes"]]


@tap.test
def the_configuration_is_good():
    """holdfastd takes the file of the ConfigMap, and each container's arguments."""
    documents = manifests.read()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        _, data = manifests.pod_of(documents["ganesha.yaml"])
        config = Path(folder, "holdfast.conf")
        config.write_text(data["holdfast.conf"])
        pod, _ = manifests.pod_of(documents["status-monitor.yaml"])
        compose, = documents["compose.yaml"]
        for arguments in (["--config", config], manifests.arguments(manifests.container_of(pod, "holdfast"), NODE),
                          ["--config", "/dev/null", *compose["services"]["holdfast"]["command"]]):
            done = subprocess.run([program(), *arguments, "--set", "server.user=", "--check-config"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        assert re.search(r"Enable_NLM = false", data["ganesha.conf"])


@tap.test
def the_probes_are_answered():
    """The status monitor, started with the arguments of its DaemonSet: ready and alive at the address of its probes; and it monitors
    only."""
    pod, _ = manifests.pod_of(manifests.read()["status-monitor.yaml"])
    holdfast = manifests.container_of(pod, "holdfast")
    settings = [value for key, value in zip(holdfast["args"], manifests.arguments(holdfast, NODE)[1:]) if key == "--set"]
    with Daemon(*settings) as daemon:
        for kind in PROBES:
            wait_until(lambda: answer(*manifests.probe(holdfast, kind)) == 200, f"{kind} is answered\n{daemon.log()}")
        assert f'"{NODE}"' in urllib.request.urlopen("http://127.0.0.1:8049/api/v1/status").read().decode()


if __name__ == "__main__":
    if netns.INSIDE not in os.environ:
        refusal = manifests.prepare()
        if refusal:
            tap.skip_all(refusal)
    netns.enter()
    tap.main()

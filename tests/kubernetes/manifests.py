"""The manifests of packaging/kubernetes, read and checked by tests/kubernetes/read.mjs, and what a kubelet makes of a container in
them: arguments with their variables filled in, files of a ConfigMap, probes."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("HOLDFAST_BUILD", "/tmp")) / "kubernetes-test"
FILES = sorted((SOURCE / "packaging/kubernetes").glob("*.yaml"))


def prepare():
    """Before the network is private: installs the schemas as the lock file has them. The reason why not, or None."""
    here = SOURCE / "tests/kubernetes"
    if not shutil.which("node") or not shutil.which("npm"):
        return "node or npm is not installed"
    FOLDER.mkdir(exist_ok=True)
    changed = not (FOLDER / "node_modules/kubernetes-models").is_dir()
    for name in ("package.json", "package-lock.json"):
        if not (FOLDER / name).exists() or (FOLDER / name).read_bytes() != (here / name).read_bytes():
            shutil.copy(here / name, FOLDER / name)
            changed = True
    if changed:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            (FOLDER / "package-lock.json").unlink()
            return "npm cannot install the schemas: " + done.stdout.decode().strip().splitlines()[-1]
    return None


def read(*files):
    """{name of the file: its documents}; raises an AssertionError with what the schema says."""
    done = subprocess.run(["node", SOURCE / "tests/kubernetes/read.mjs", *(files or FILES)], cwd=FOLDER, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {Path(one["file"]).name: one["documents"] for one in json.loads(done.stdout)}


def pod_of(documents):
    """The pod's specification of the one workload, and the data of its ConfigMap."""
    workload, = (one for one in documents if one["kind"] != "ConfigMap")
    data = next((one["data"] for one in documents if one["kind"] == "ConfigMap"), {})
    return workload["spec"]["template"]["spec"], data


def container_of(pod, name):
    return next(one for one in pod.get("initContainers", []) + pod["containers"] if one["name"] == name)


def arguments(container, node):
    """With $(NAME) filled in; the only variable is the node's name."""
    names = {one["name"]: node for one in container.get("env", ()) if one["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    return [re.sub(r"\$\((\w+)\)", lambda found: names[found[1]], one) for one in container["args"]]


def probe(container, kind):
    """Its address, port and path."""
    get = container[kind]["httpGet"]
    return get["host"], get["port"], get["path"]

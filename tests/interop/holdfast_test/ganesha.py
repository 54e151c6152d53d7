"""NFS-Ganesha with its own lock manager, to be measured beside ours: by default in a network of its own
behind a veth, because it needs the system's rpcbind on port 111, and so does every host of peer.py.
"""
import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from . import netns, rpc
from .daemon import PORT
from .mount import file_handle
from .tap import Skip

ADDRESS, OURS = "10.3.0.1", "10.3.0.2"
INTERFACE = "hf-ganesha"  # our end of the veth

CONFIG = """
NFS_CORE_PARAM {{ Enable_NLM = {nlm}; Enable_RQUOTA = false; NFS_Protocols = {protocols}; NFS_Port = 2049;
                  MNT_Port = 20048; NLM_Port = {port}; Plugins_Dir = /usr/lib/x86_64-linux-gnu/ganesha; }}
{exports}
NFSV4 {{ Graceless = true; }}
LOG {{ Default_Log_Level = EVENT; }}
"""


EXPORT = """
EXPORT {{ Export_Id = {id}; Path = {path}; Pseudo = {path}; Access_Type = RW; Squash = No_Root_Squash;
          Protocols = {protocols}; SecType = sys; FSAL {{ Name = VFS; }} }}
"""


class Ganesha:
    """with Ganesha(folder) as ganesha: ganesha.fh is the handle of a file, ganesha.fhs those of all; NLM is
    at ganesha.address and ganesha.port. With apart=False it is at 127.0.0.1, like any other server here.
    more: further directories to export; protocols: versions of NFS, "3" or "3, 4"; nlm=False: as beside our daemon."""

    def __init__(self, folder, apart=True, port=PORT, files=1, more=(), protocols="3", nlm=True):
        self.folder = Path(folder)
        self.port = port
        self.more = more
        self.protocols = protocols
        self.nlm = nlm
        self.files = [f"file{i}" for i in range(files)]
        self.address = ADDRESS if apart else "127.0.0.1"
        self.apart = apart
        self.inside = []  # what leads into its network
        self.processes = []

    def _wait_for(self, port, process, name):
        for _ in range(300):
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended by itself ({process.returncode})")
            with contextlib.suppress(OSError), rpc.Tcp(self.address, port, timeout=1):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{name} does not listen on port {port}")

    def _start(self, *command, port):
        if not shutil.which(command[0]):
            raise Skip(f"{command[0]} is not installed")
        process = subprocess.Popen([*self.inside, *command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        self._wait_for(port, process, command[0])

    def _network(self):
        self.processes.append(subprocess.Popen(["unshare", "--net", "sleep", "600"]))
        pid = str(self.processes[0].pid)
        ours = os.readlink("/proc/self/ns/net")
        for _ in range(100):
            if os.readlink(f"/proc/{pid}/ns/net") != ours:
                break
            time.sleep(0.02)
        self.inside = ["nsenter", "-t", pid, "-n"]
        netns.run("ip", "link", "add", INTERFACE, "type", "veth", "peer", "name", "eth0", "netns", pid)
        netns.run("ip", "address", "add", OURS + "/24", "dev", INTERFACE)
        netns.run("ip", "link", "set", INTERFACE, "up")
        for command in (["address", "add", ADDRESS + "/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                        ["link", "set", "lo", "up"], ["route", "add", "10.2.0.0/16", "via", OURS]):
            netns.run(*self.inside, "ip", *command)

    def __enter__(self):
        try:
            return self._enter()
        except BaseException:
            self.__exit__()
            raise

    def _enter(self):
        export = self.folder / "export"
        export.mkdir()
        for name in self.files:
            (export / name).write_bytes(b"x")
        config = self.folder / "ganesha.conf"
        exports = "".join(EXPORT.format(id=i, path=path, protocols=self.protocols) for i, path in enumerate((export, *self.more), 1))
        config.write_text(CONFIG.format(exports=exports, port=self.port, protocols=self.protocols, nlm=str(self.nlm).lower()))
        for needed in ("/run/ganesha", "/run/rpcbind", "/var/lib/nfs/ganesha", "/var/lib/nfs/sm",
                       "/var/lib/nfs/sm.bak"):
            os.makedirs(needed, exist_ok=True)
        if self.apart:
            self._network()
        self._start("rpcbind", "-f", "-w", port=111)
        self._start("rpc.statd", "-F", "-L", "-p", "4060", port=4060)
        self._serve()
        return self

    def _serve(self):
        self._start("ganesha.nfsd", "-F", "-f", str(self.folder / "ganesha.conf"), "-L", str(self.folder / "log"),
                    "-p", str(self.folder / "pid"), port=self.port if self.nlm else 2049)
        for _ in range(100):  # the export comes a little later
            with contextlib.suppress(AssertionError, OSError):
                self.fhs = [file_handle(self.address, self.folder / "export", name) for name in self.files]
                self.fh = self.fhs[0]
                return
            time.sleep(0.1)
        raise RuntimeError("Ganesha exports nothing")

    def restart(self):
        """Ganesha itself, as its service is restarted; rpcbind and rpc.statd run on."""
        process = self.processes.pop()
        process.terminate()
        process.wait(60)
        self._serve()

    def handle(self, export, path):
        """The handle of a file of one of the exports."""
        return file_handle(self.address, export, path)

    def __exit__(self, *_):
        if self.inside:  # the kernel would do it, but some time after the last process there has ended
            subprocess.run(["ip", "link", "delete", INTERFACE], stderr=subprocess.DEVNULL)
        for process in reversed(self.processes):
            process.kill()
            process.wait()

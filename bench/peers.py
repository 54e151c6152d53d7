"""The servers that are measured beside Holdfast: started in this namespace, stopped by process id."""
import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/interop"))
from holdfast_test import rpc  # noqa: E402
from holdfast_test.xdr import Encoder  # noqa: E402

GANESHA = """
NFS_CORE_PARAM {{ Enable_NLM = true; Enable_RQUOTA = false; NFS_Protocols = 3; NFS_Port = 2049;
                  MNT_Port = 20048; NLM_Port = 4050; Plugins_Dir = /usr/lib/x86_64-linux-gnu/ganesha; }}
EXPORT {{ Export_Id = 1; Path = {path}; Pseudo = {path}; Access_Type = RW; Squash = No_Root_Squash;
          Protocols = 3; SecType = sys; FSAL {{ Name = VFS; }} }}
NFSV4 {{ Graceless = true; }}
LOG {{ Default_Log_Level = WARN; }}
"""


def wait_for_port(port, process):
    for _ in range(200):
        if process.poll() is not None:
            raise RuntimeError(f"{process.args[0]} ended by itself ({process.returncode})")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"{process.args[0]} does not listen on port {port}")


@contextlib.contextmanager
def running(*command, port):
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, process)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def statd():
    """rpcbind and rpc.statd, with an empty state directory; yields the port of the latter."""
    os.makedirs("/var/lib/nfs/sm", exist_ok=True)
    os.makedirs("/var/lib/nfs/sm.bak", exist_ok=True)
    with running("rpcbind", "-f", "-w", port=111):
        with running("rpc.statd", "-F", "-L", "-p", "4060", port=4060):
            yield 4060


def file_handle(directory, name):
    """The NFSv3 handle of a file, from the server's own MOUNT and NFS."""
    sys_cred = rpc.auth_sys()
    with rpc.Tcp("127.0.0.1", 20048) as mount:
        d = mount.call(100005, 3, 1, Encoder().string(str(directory)).bytes(), cred=sys_cred).decode()
        assert d.uint() == 0, "MNT refused"
        root = d.opaque()
    with rpc.Tcp("127.0.0.1", 2049) as nfs:
        args = Encoder().opaque(root).string(name).bytes()
        d = nfs.call(100003, 3, 3, args, cred=sys_cred).decode()
        assert d.uint() == 0, "LOOKUP refused"
        return d.opaque().hex()


@contextlib.contextmanager
def ganesha(directory):
    """Ganesha with its own lock manager; yields (port of NLM, a file handle)."""
    export = Path(directory, "export")
    export.mkdir()
    Path(export, "file").write_bytes(b"x")
    config = Path(directory, "ganesha.conf")
    config.write_text(GANESHA.format(path=export))
    os.makedirs("/run/ganesha", exist_ok=True)
    with statd():
        with running("ganesha.nfsd", "-F", "-f", str(config), "-L", str(Path(directory, "log")),
                     "-p", str(Path(directory, "pid")), port=4050):
            for _ in range(300):  # its own grace period, and the export, come a little later
                with contextlib.suppress(AssertionError, OSError):
                    yield 4050, file_handle(export, "file")
                    return
                time.sleep(0.2)
            raise RuntimeError("Ganesha exports nothing")

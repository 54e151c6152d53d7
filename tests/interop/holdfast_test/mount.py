"""The handle of a file on an NFSv3 server, by the server's own MOUNT and NFS."""
from . import rpc
from .xdr import Encoder

MOUNT, NFS = 100005, 100003
MNT, LOOKUP = 1, 3


def _ask(address, port, prog, proc, args, what):
    with rpc.Tcp(address, port, timeout=3) as client:
        d = client.call(prog, 3, proc, args, cred=rpc.auth_sys()).decode()
        status = d.uint()
        assert status == 0, f"{what}: refused with {status}"
        return d.opaque()


def file_handle(address, export, path, mount_port=20048, nfs_port=2049):
    """MNT of the export, then a LOOKUP for each part of the path."""
    handle = _ask(address, mount_port, MOUNT, MNT, Encoder().string(str(export)).bytes(), export)
    for name in path.strip("/").split("/"):
        handle = _ask(address, nfs_port, NFS, LOOKUP, Encoder().opaque(handle).string(name).bytes(), name)
    return handle

"""A Samba server in directories of its own, and SMB clients that lock one file of its share (python3-impacket)."""
import contextlib
import shutil
import socket
import subprocess
import time
from pathlib import Path

from .keeper import Outside
from .tap import Skip

PYTHON = "/usr/bin/python3"  # the one that Debian's modules belong to
FOLDERS = ("private", "lock", "state", "cache", "pid", "ncalrpc")
CONFIG = """
[global]
  security = user
  map to guest = bad user
  guest account = root
  interfaces = lo
  bind interfaces only = yes
  smb ports = 445
  disable netbios = yes
  load printers = no
  disable spoolss = yes
  private dir = {where}/private
  lock directory = {where}/lock
  state directory = {where}/state
  cache directory = {where}/cache
  pid directory = {where}/pid
  ncalrpc dir = {where}/ncalrpc
  log file = {where}/log
[share]
  path = {export}
  guest ok = yes
  guest only = yes
  read only = no
  force user = root
  oplocks = no
"""


class Samba:
    """with Samba(folder, export): smbd serves the directory `export` as //127.0.0.1/share; its own files are in `folder`."""

    def __init__(self, folder, export):
        self.folder, self.export = Path(folder), export

    def __enter__(self):
        if not shutil.which("smbd"):
            raise Skip("smbd is not installed")
        if subprocess.run([PYTHON, "-c", "import impacket"], stderr=subprocess.DEVNULL).returncode:
            raise Skip("python3-impacket is not installed")
        for name in FOLDERS:
            (self.folder / name).mkdir(parents=True)
        (self.folder / "smb.conf").write_text(CONFIG.format(where=self.folder, export=self.export))
        # In a session of its own: at its end smbd ends its whole process group, which else has the runner of all tests in it.
        self.process = subprocess.Popen(["smbd", "-F", "--no-process-group", "-s", self.folder / "smb.conf"], start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(400):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", 445), timeout=1):
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.__exit__()
        raise RuntimeError("smbd does not listen:\n" + (self.folder / "log").read_text())

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)


CLIENT = """
import sys
from impacket import smb3structs as s, nt_errors
from impacket.smbconnection import SMBConnection
connection = SMBConnection("127.0.0.1", "127.0.0.1")
connection.login("guest of the tests", "")
tree = connection.connectTree("share")
file = connection.openFile(tree, sys.argv[1], desiredAccess=s.FILE_READ_DATA | s.FILE_WRITE_DATA, shareMode=7)
server = connection.getSMBServer()
SHARED, EXCLUSIVE, UNLOCK, AT_ONCE = 1, 2, 4, 16
KINDS = {0: SHARED, 1: EXCLUSIVE, 2: UNLOCK}  # F_RDLCK, F_WRLCK, F_UNLCK
def call(wait, kind, offset, length):
    packet, lock, element = server.SMB_PACKET(), s.SMB2Lock(), s.SMB2_LOCK_ELEMENT()
    element["Offset"], element["Length"] = offset, length
    element["Flags"] = KINDS[kind] | (AT_ONCE if not wait and kind != 2 else 0)
    lock["FileID"], lock["LockCount"], lock["LockSequence"], lock["Locks"] = file, 1, 0, element.getData()
    packet["Command"], packet["TreeID"], packet["Data"] = s.SMB2_LOCK, tree, lock
    status = server.recvSMB(server.sendSMB(packet))["Status"]
    return "ok" if status == 0 else nt_errors.ERROR_MESSAGES[status][0]
print("ready", flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "increment":
        number = int(connection.readFile(tree, file, 0, 20)) + 1
        connection.writeFile(tree, file, b"%020d" % number, 0)
        print("ok", flush=True)
    else:
        print(call(*map(int, rest)), flush=True)
"""


class Smb(Outside):
    """An SMB client that locks one file of the share. SMB has no conversion: each range is unlocked as it was locked."""

    def __init__(self, name):  # pylint: disable=super-init-not-called
        self.posix = True
        self.process = subprocess.Popen([PYTHON, "-c", CLIENT, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

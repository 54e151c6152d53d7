"""The server's side, in the namespace: rpcbind, Ganesha without its lock manager, Holdfast, PostgreSQL."""
import os
import pwd
import signal
import subprocess
import time
from pathlib import Path

from holdfast_test import daemon, rpc, rpcbind
from holdfast_test.tap import Skip

from . import image, network, story

GANESHA = """
NFS_CORE_PARAM {{
    Enable_NLM = false;      # locks are Holdfast's
    Enable_RQUOTA = false;
    NFS_Protocols = {versions};
    NFS_Port = 2049;
    MNT_Port = 20048;
    {core}
}}
NFSv4 {{ {grace} }}
EXPORT {{
    Export_Id = 1;
    Path = {export};
    Pseudo = /export;
    Access_Type = RW;
    Squash = No_Root_Squash;
    Protocols = {versions};
    Transports = TCP, UDP;
    SecType = sys;
    FSAL {{ Name = VFS; }}
    {more}
}}
LOG {{ Default_Log_Level = EVENT; }}
"""


# Of another release of Debian, unpacked and not installed, if HOLDFAST_LAB_GANESHA (make lab GANESHA=6.5) says so.
RELEASES = {"4.3": "bookworm", "6.5": "trixie", "newest": "sid"}
VERSION = os.environ.get("HOLDFAST_LAB_GANESHA") or ""
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def ganesha_root():
    """Where the wanted version is; None: it is this host's. Downloads it once."""
    if not VERSION:
        return None
    if VERSION not in RELEASES:
        raise AssertionError(f"GANESHA={VERSION}: one of {', '.join(RELEASES)}")
    root = image.CACHE / f"ganesha-{VERSION}"
    if not root.exists():
        for tool in ("mmdebstrap", "patchelf"):
            image.find(tool)
        image.run(image.ROOT / "scripts/unpack-release", RELEASES[VERSION], root, "nfs-ganesha,nfs-ganesha-vfs",
                  "usr/bin/ganesha.nfsd", "usr/lib/ganesha/libganesha_nfsd.so")
    return root


# Two Ganeshas change one directory, in turns: neither may believe what it knew of a file when it had the service last.
SHARED = "Attr_Expiration_Time = 0;"
# Clients of version 4 reclaim their locks after its restart (test_mixed.py); without them there is nothing to wait for.
GRACE = {"3": "Graceless = true;", "3, 4": "Lease_Lifetime = 15; Grace_Period = 15;"}


class Ganesha:
    """In this namespace, or in that of a node (tests/ha/wires.py)."""

    def __init__(self, directory, export, node=None, versions="3"):
        name = f"ganesha-{node.name}" if node else "ganesha"
        self.under, self.host = (node.inside, node.address) if node else ([], "127.0.0.1")
        self.config, self.log = directory / f"{name}.conf", directory / f"{name}.log"
        root = ganesha_root()
        self.program = root / "usr/bin/ganesha.nfsd" if root else image.find("ganesha.nfsd")
        core = f'Plugins_Dir = "{root / LIBRARIES / "ganesha"}";' if root else ""
        if root and VERSION != "4.3":
            core += " allow_set_io_flusher_fail = true;"  # later ones end without a capability that a container need not have
        self.config.write_text(GANESHA.format(export=export, core=core, versions=versions, grace=GRACE[versions], more=SHARED if node or versions != "3" else ""))
        story.tell("ganesha", image.run(str(self.program), "-v").decode())
        subprocess.run([*self.under, "mkdir", "-p", "/run/ganesha", "/var/lib/nfs/ganesha"], check=True)
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.under, str(self.program), "-F", "-f", str(self.config), "-L", str(self.log),
             "-p", "/run/ganesha/ganesha.pid"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self):
        end = time.monotonic() + 40
        while True:
            try:
                if all(rpcbind.getport(program, 3, "tcp", self.host) for program in (100003, 100005)):
                    with rpc.Tcp(self.host, 2049) as client:
                        client.call(100003, 3, 0)
                    return self
            except OSError:
                pass
            assert self.process.poll() is None and time.monotonic() < end, \
                f"Ganesha does not serve: {self.log}"
            time.sleep(0.1)

    def stop(self):
        self.process.kill()
        self.process.wait()


class Told(daemon.Daemon):
    """A daemon whose log goes into a file, and into the story's as well."""
    who = "holdfastd"

    def _read_log(self):
        with open(self.file, "a", encoding="utf-8") as file:
            for line in self.process.stderr:
                text = line.decode(errors="replace").rstrip("\n")
                file.write(text + "\n")
                file.flush()
                story.tell(self.who, text.partition(" ")[2], aloud=False)
                with self.news:
                    self.lines.append(text)
                    self.news.notify_all()
        with self.news:
            self.lines.append("(end of log)")
            self.news.notify_all()

    def await_log(self, text, within):
        """Waits for a line that an operator would look for; returns it."""
        with self.news:
            found = self.news.wait_for(
                lambda: [line for line in self.lines if text in line]
                or self.lines[-1:] == ["(end of log)"], within)
        assert found and found is not True, f'no "{text}" in the log of {self.who} within {within} s'
        story.tell(self.who, "log: " + found[0].partition(" ")[2])
        return found[0]


class Holdfast(Told):
    """The daemon under test."""

    def __init__(self, directory, store, *sets, binary=None):
        super().__init__(*store, "rpcbind.mode=system", "server.name=server.example",
                         "log.level=debug", *sets)
        if binary:
            self.command[0] = str(binary)
        self.sets = sets
        self.file = directory / "holdfastd.log"

    def start(self, wait=True):
        self.watch = story.Watch()
        story.tell("holdfastd", "is started")
        return super().start(wait)

    def crash(self):
        story.tell("holdfastd", "kill -9")
        self.stop(signal.SIGKILL)

    def has_logged(self, text):
        return text in self.log()


class Postgres:
    """A server of the lab's own, on memory, reached by its socket only."""

    def __init__(self):
        try:
            user = pwd.getpwnam("postgres")
            bindir = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        except (KeyError, IndexError):
            raise Skip("PostgreSQL is not installed: scripts/bootstrap lab") from None
        self.directory = Path("/run/postgres")
        self.directory.mkdir()
        os.chown(self.directory, user.pw_uid, user.pw_gid)
        as_user = {"user": "postgres", "group": "postgres", "cwd": self.directory}
        data = self.directory / "data"
        subprocess.run([bindir / "initdb", "-D", data, "-N", "-A", "trust", "-U", "holdfast",
                        "--locale=C"], check=True, stdout=subprocess.DEVNULL, **as_user)
        self.process = subprocess.Popen(
            [bindir / "postgres", "-D", data, "-k", self.directory, "-c", "listen_addresses="],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            **as_user)
        for _ in range(300):
            if not subprocess.run([bindir / "pg_isready", "-q", "-h", self.directory]).returncode:
                return
            time.sleep(0.1)
        raise AssertionError("PostgreSQL does not start")

    def settings(self):
        return ("store.backend=postgres",
                f"store.dsn=host={self.directory} user=holdfast dbname=postgres")

    def stop(self):
        self.process.terminate()
        self.process.wait()

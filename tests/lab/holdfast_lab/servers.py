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
    NFS_Protocols = 3;
    NFS_Port = 2049;
    MNT_Port = 20048;
}}
NFSv4 {{ Graceless = true; }}
EXPORT {{
    Export_Id = 1;
    Path = {export};
    Pseudo = /export;
    Access_Type = RW;
    Squash = No_Root_Squash;
    Protocols = 3;
    Transports = TCP, UDP;
    SecType = sys;
    FSAL {{ Name = VFS; }}
}}
LOG {{ Default_Log_Level = EVENT; }}
"""


class Ganesha:
    def __init__(self, directory, export):
        config = directory / "ganesha.conf"
        config.write_text(GANESHA.format(export=export))
        for needed in ("/run/ganesha", "/var/lib/nfs/ganesha"):
            os.makedirs(needed, exist_ok=True)
        self.log = directory / "ganesha.log"
        self.process = subprocess.Popen(
            [image.find("ganesha.nfsd"), "-F", "-f", str(config), "-L", str(self.log),
             "-p", "/run/ganesha/ganesha.pid"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self):
        end = time.monotonic() + 40
        while True:
            try:
                if rpcbind.getport(100003, 3, "tcp") and rpcbind.getport(100005, 3, "tcp"):
                    with rpc.Tcp("127.0.0.1", 2049) as client:
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


class Holdfast(daemon.Daemon):
    """The daemon under test; its log goes into the story's file as well."""

    def __init__(self, directory, store, *sets, binary=None):
        super().__init__(*store, "rpcbind.mode=system", "server.name=server.example",
                         "log.level=debug", *sets)
        if binary:
            self.command[0] = str(binary)
        self.sets = sets
        self.file = directory / "holdfastd.log"

    def _read_log(self):
        with open(self.file, "a", encoding="utf-8") as file:
            for line in self.process.stderr:
                text = line.decode(errors="replace").rstrip("\n")
                file.write(text + "\n")
                file.flush()
                story.tell("holdfastd", text.partition(" ")[2], aloud=False)
                with self.news:
                    self.lines.append(text)
                    self.news.notify_all()
        with self.news:
            self.lines.append("(end of log)")
            self.news.notify_all()

    def start(self, wait=True):
        self.watch = story.Watch()
        story.tell("holdfastd", "is started")
        return super().start(wait)

    def crash(self):
        story.tell("holdfastd", "kill -9")
        self.stop(signal.SIGKILL)

    def has_logged(self, text):
        return text in self.log()

    def await_log(self, text, within):
        """Waits for a line that an operator would look for; returns it."""
        with self.news:
            found = self.news.wait_for(
                lambda: [line for line in self.lines if text in line]
                or self.lines[-1:] == ["(end of log)"], within)
        assert found and found is not True, f'no "{text}" in holdfastd\'s log within {within} s'
        story.tell("holdfastd", "log: " + found[0].partition(" ")[2])
        return found[0]


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

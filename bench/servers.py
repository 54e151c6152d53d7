"""The servers that are measured: started in this namespace, several at a time, stopped by process id."""
import contextlib
import os
import resource
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast_test import netns, nsm, rpc
from holdfast_test.ganesha import Ganesha

NOTHING_PORT, GANESHA_PORT, STATD_PORT = 5000, 4050, 4060
GANESHA_FILES = 128
FILES = 32768  # ten thousand connections or notices in flight, and what else is open


def raise_file_limit():
    """For us and for all we start; if we may not, to what we may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, max(FILES, hard)))


@dataclass
class Server:
    port: int
    process: subprocess.Popen = None
    arguments: tuple = ()  # for the load generator

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024


def _answers(port):
    """True if a server answers there: it accepts a connection and answers a call of NULL."""
    try:
        with rpc.Tcp("127.0.0.1", port, timeout=5) as client:
            client.call(nsm.NLM, 4, 0)
            return True
    except (OSError, EOFError):
        return False


@contextlib.contextmanager
def running(*command, port, serves=_answers, environment=None):
    """A server; waited for until it answers."""
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, **(environment or {})})
    try:
        end = time.monotonic() + 60
        while not serves(port):
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended by itself ({process.returncode})")
            if time.monotonic() > end:
                raise RuntimeError(f"{command[0]} does not serve port {port}")
            time.sleep(0.005)
        yield Server(port, process)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def nothing(build, program=None, port=NOTHING_PORT, look_us=0):
    return running(program or build / "bench/nothing", port, look_us, port=port)


def slow_disk(build, delay_ms):
    """The environment of a server for which each flush takes so much longer; {} if it does not."""
    if not delay_ms:
        return {}
    return {"LD_PRELOAD": str(build / "bench/libslow_sync.so"), "HOLDFAST_FLUSH_US": str(int(delay_ms * 1000))}


def holdfast(build, directory, *sets, port=4045, environment=None, program=None):
    """Its store is in the directory; its administration on the port + 4000. The program, if not that of the build."""
    os.makedirs(directory, exist_ok=True)
    command = [program or build / "src/daemon/holdfastd"]
    for assignment in (f"server.port={port}", "rpcbind.mode=none", f"store.path={directory}",
                       "log.level=error", f"admin.listen=127.0.0.1:{port + 4000}", "admin.socket=",
                       "limits.clients=1000000", "limits.locks=3000000",
                       "limits.locks_per_client=3000000", "limits.locks_per_file=3000000", *sets):
        command += ["--set", assignment]
    return running(*command, port=port, environment=environment)


POSTGRES = Path("/usr/lib/postgresql")


@contextlib.contextmanager
def postgres(directory):
    """A PostgreSQL server as Debian configures it, with its data on the same disk as the other stores: yields a function
    that makes a database and returns the settings of a server that uses it."""
    directory.mkdir()
    os.chmod(directory.parent, 0o755)
    shutil.chown(directory, "postgres")
    programs = max(POSTGRES.iterdir(), key=lambda path: float(path.name)) / "bin"

    def run(program, *arguments):
        subprocess.run(["runuser", "-u", "postgres", "--", str(programs / program), *map(str, arguments)], check=True,
                       cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def database(name):
        run("createdb", "-h", directory, name)
        return "store.backend=postgres", f"store.dsn=host={directory} dbname={name} user=postgres"

    data = directory / "data"
    run("initdb", "-D", data, "-A", "trust", "--no-instructions")
    run("pg_ctl", "-D", data, "-w", "-l", directory / "log", "-o", f"-k {directory} -c listen_addresses=", "start")
    try:
        yield database
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def _listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def statd(directory):
    """rpcbind and rpc.statd, with its state on the same disk as that of the other servers."""
    for name in ("sm", "sm.bak"):
        os.makedirs(Path(directory, name))
    os.makedirs("/run/rpcbind", exist_ok=True)
    netns.run("chown", "-R", "statd", str(directory))
    netns.run("mount", "--bind", str(directory), "/var/lib/nfs")
    try:
        with running("rpcbind", "-f", "-w", port=111, serves=_listens), \
                running("rpc.statd", "-F", "-L", "-p", STATD_PORT, port=STATD_PORT,
                        serves=_listens) as server:
            yield server
    finally:
        netns.run("umount", "/var/lib/nfs")


@contextlib.contextmanager
def ganesha(directory):
    """Ganesha in its best configuration: a file for each request in flight, and one lock that is always held,
    because Ganesha unregisters a client at rpc.statd with its last lock and registers it again with the
    next."""
    Path(directory).mkdir()
    with Ganesha(directory, apart=False, port=GANESHA_PORT, files=GANESHA_FILES + 1) as server:
        *files, kept = server.fhs
        with nsm.connect(port=GANESHA_PORT) as keeper:
            assert keeper.lock("keeper", kept) == nsm.GRANTED
            yield Server(GANESHA_PORT, arguments=("--fh", ",".join(fh.hex() for fh in files)))

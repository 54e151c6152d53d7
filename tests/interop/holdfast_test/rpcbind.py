"""rpcbind (RFC 1833) as a client sees it, and the real one, started in the private network."""
import os
import shutil
import socket
import subprocess
import time

from . import rpc
from .tap import Skip
from .xdr import Encoder

PROG, PORT = 100000, 111
SET, UNSET, GETPORT, GETADDR, DUMP = 1, 2, 3, 3, 4
PROTOCOLS = {"tcp": 6, "udp": 17}


def free_port(address):
    """A port that is free over UDP and over TCP. Connections that were closed keep their port for a minute, so a number
    that the kernel chose for the one may be taken for the other."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for _ in range(1000):
        with socket.socket(family, socket.SOCK_STREAM) as tcp, socket.socket(family, socket.SOCK_DGRAM) as udp:
            tcp.bind((address, 0))
            try:
                udp.bind((address, tcp.getsockname()[1]))
            except OSError:
                continue
            return udp.getsockname()[1]
    raise AssertionError(f"no port of {address} is free over UDP and TCP")


def pmap(prog, vers, transport, port=0):
    return Encoder().uint(prog, vers, PROTOCOLS[transport], port).bytes()


def rpcb(prog, vers, netid="", addr="", owner=""):
    return Encoder().uint(prog, vers).string(netid).string(addr).string(owner).bytes()


def uaddr(host, port):
    return f"{host}.{port >> 8}.{port & 255}"


def getport(prog, vers, transport, host="127.0.0.1"):
    with rpc.Udp(host, PORT) as client:
        return client.call(PROG, 2, GETPORT, pmap(prog, vers, transport)).decode().uint()


def getaddr(client, prog, vers, version=4, netid=""):
    return client.call(PROG, version, GETADDR, rpcb(prog, vers, netid)).decode().string()


def dump(host="127.0.0.1"):
    """Every registration: a set of (program, version, netid, universal address)."""
    found = set()
    with rpc.Tcp(host, PORT) as client:
        d = client.call(PROG, 4, DUMP).decode()
    while d.bool():
        prog, vers, netid, addr, _owner = d.uint(), d.uint(), d.string(), d.string(), d.string()
        found.add((prog, vers, netid, addr))
    d.end()
    return found


class System:
    """The real rpcbind, in the foreground, ended by its process id."""

    def __enter__(self):
        self.start()
        return self

    def start(self):
        path = shutil.which("rpcbind", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if not path:
            raise Skip("rpcbind is not installed")
        os.makedirs("/run/rpcbind", exist_ok=True)
        self.process = subprocess.Popen([path, "-f"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            try:
                with rpc.Tcp("127.0.0.1", PORT) as client:
                    client.call(PROG, 2, 0)
                return
            except OSError:
                assert self.process.poll() is None, "rpcbind ended at once"
                time.sleep(0.02)
        self.stop()
        raise AssertionError("rpcbind does not answer")

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        for name in ("/run/rpcbind.sock", "/run/rpcbind.lock"):
            if os.path.exists(name):
                os.unlink(name)


class Service:
    """A small service of another process' kind: answers NULL of one program, on TCP and UDP."""

    def __init__(self, prog, versions):
        self.prog, self.versions = prog, versions

    def __enter__(self):
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.port = free_port("127.0.0.1")
        self.udp.bind(("127.0.0.1", self.port))
        self.tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.tcp.bind(("127.0.0.1", self.port))
        self.tcp.listen()
        self.children = [self._fork(self._serve_udp), self._fork(self._serve_tcp)]
        return self

    def _fork(self, serve):
        pid = os.fork()
        if pid == 0:
            try:
                while True:
                    serve()
            finally:
                os._exit(1)
        return pid

    def _answer(self, message):
        return rpc.success_message(int.from_bytes(message[:4], "big"))

    def _serve_udp(self):
        message, peer = self.udp.recvfrom(8192)
        self.udp.sendto(self._answer(message), peer)

    def _serve_tcp(self):
        sock, _ = self.tcp.accept()
        with sock:
            while len(message := sock.recv(8192)) > 4:
                sock.sendall(rpc.record(self._answer(message[4:])))

    def register(self):
        with rpc.Udp("127.0.0.1", PORT) as client:
            for vers in self.versions:
                for transport in PROTOCOLS:
                    args = pmap(self.prog, vers, transport, self.port)
                    assert client.call(PROG, 2, SET, args).decode().bool()

    def __exit__(self, *_):
        for pid in self.children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        self.udp.close()
        self.tcp.close()

"""Who uses the daemon in these tests: clients that lock, hosts that can be called back, curl."""
import itertools
import json
import socket
import subprocess
import threading

from holdfast_test import rpc
from holdfast_test.daemon import PORT
from holdfast_test.xdr import Decoder, Encoder

NLM, NSM = 100021, 100024
TEST, LOCK, CANCEL, UNLOCK, GRANTED = 1, 2, 3, 4, 5
STATS = ("granted", "denied", "denied_nolocks", "blocked", "denied_grace_period", "deadlck")
SOCKET = "/run/holdfast/admin.sock"
ADMIN_PORT = 8049

_cookies = itertools.count(1)


class Locker:
    """A client host: its name, its address, and what it asks of the lock manager."""

    def __init__(self, name, address, server="192.0.2.1", state=1):
        self.name, self.address, self.state = name, address, state
        self.client = rpc.Tcp(server, PORT, source=(address, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def _alock(self, fh, svid, offset, length):
        name = self.name if isinstance(self.name, bytes) else self.name.encode()
        body = Encoder().string(name).opaque(fh).opaque(b"%d@%s" % (svid, name[:40]))
        return body.int(svid).uhyper(offset, length).bytes()

    def _cookie(self):
        return Encoder().opaque(next(_cookies).to_bytes(4, "big"))

    def lock(self, fh, svid=1, offset=0, length=0, exclusive=True, block=False, reclaim=False):
        args = self._cookie().bool(block, exclusive).raw(self._alock(fh, svid, offset, length))
        args = args.bool(reclaim).int(self.state).bytes()
        return self._stat(self.client.call(NLM, 4, LOCK, args))

    def unlock(self, fh, svid=1, offset=0, length=0):
        args = self._cookie().raw(self._alock(fh, svid, offset, length)).bytes()
        return self._stat(self.client.call(NLM, 4, UNLOCK, args))

    def share(self, fh, mode=1, access=2):
        args = self._cookie().string(self.name).opaque(fh).opaque(b"owner").uint(mode, access)
        return self.client.call(NLM, 4, 20, args.bool(False).bytes())

    @staticmethod
    def _stat(reply):
        decoder = reply.decode()
        decoder.opaque()
        return STATS[decoder.uint()]


def monitor(mon_name, my_name="watcher.example", source="192.0.2.2", server="192.0.2.1"):
    """SM_MON, from a host that wants to be told."""
    args = Encoder().string(mon_name).string(my_name).uint(NSM, 1, 6).fixed(b"p" * 16).bytes()
    with rpc.Tcp(server, PORT, source=(source, 0)) as client:
        return client.call(NSM, 1, 2, args).decode().uint()


class Host:
    """What runs on a client: an rpcbind, a lock manager and a status monitor, as far as asked."""

    def __init__(self, address, programs=(NLM, NSM)):
        self.address, self.programs, self.calls, self.open = address, programs, [], True
        self.services = [self._udp(111), self._tcp(111)]
        port = self._udp(0)
        self.port = port.getsockname()[1]
        self.services += [port, self._tcp(self.port)]
        for service in self.services:
            serve = self._serve_udp if service.type == socket.SOCK_DGRAM else self._serve_tcp
            threading.Thread(target=serve, args=(service,), daemon=True).start()

    def _udp(self, port):
        service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        service.bind((self.address, port))
        return service

    def _tcp(self, port):
        service = socket.create_server((self.address, port))
        return service

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open = False
        for service in self.services:
            try:
                service.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            service.close()

    def _serve_udp(self, service):
        while self.open:
            try:
                message, sender = service.recvfrom(65536)
                if message:  # else it was shut down
                    service.sendto(self._answer(message), sender)
            except OSError:
                return

    def _serve_tcp(self, service):
        while self.open:
            try:
                connection, _ = service.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_connection, args=(connection,), daemon=True).start()

    def _serve_connection(self, connection):
        with connection:
            while mark := connection.recv(4, socket.MSG_WAITALL):
                length = int.from_bytes(mark, "big") & 0x7fffffff
                connection.sendall(rpc.record(self._answer(connection.recv(length, socket.MSG_WAITALL))))

    def _answer(self, message):
        d = Decoder(message)
        xid, _, _, prog, vers, proc = (d.uint() for _ in range(6))
        d.uint(), d.opaque(), d.uint(), d.opaque()
        self.calls.append((prog, proc))
        return rpc.success_message(xid, self._results(prog, vers, proc, d))

    def _results(self, prog, vers, proc, d):
        if prog == 100000 and proc == 3 and vers == 2:
            return Encoder().uint(self.port if d.uint() in self.programs else 0).bytes()
        if prog == 100000 and proc == 3:
            known = d.uint() in self.programs
            uaddr = f"{self.address}.{self.port >> 8}.{self.port & 255}" if known else ""
            return Encoder().string(uaddr).bytes()
        if prog == NLM and proc == GRANTED:
            return Encoder().opaque(d.opaque()).uint(0).bytes()
        return b""


# ---- HTTP ----

class Answer:
    """What curl printed, with -i: status, headers, body."""

    def __init__(self, output):
        head, _, self.body = output.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = dict(line.split(": ", 1) for line in lines)

    @property
    def json(self):
        return json.loads(self.body)


def ask(method, path, body=None, host="127.0.0.1", source=None, unix=False, **headers):
    """One request by curl: over TCP, from an address if one is given, or over the unix socket."""
    command = ["curl", "-sS", "-i", "--path-as-is", "--max-time", "20", "-H", "Expect:"]
    command += ["--head"] if method == "HEAD" else ["-X", method]
    command += ["--unix-socket", SOCKET] if unix else []
    command += ["--interface", source] if source else []
    command += ["--data-binary", "@-"] if body is not None else []
    for name, value in headers.items():
        command += ["-H", f"{name.replace('_', '-')}: {value}"]
    url = f"http://{'localhost' if unix else host}:{ADMIN_PORT}{path}"
    done = subprocess.run([*command, url], input=(body or "").encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode:
        raise ConnectionError(done.stderr.decode())
    return Answer(done.stdout)


def get(path, **options):
    """The JSON of an answer that must be there."""
    answer = ask("GET", "/api/v1/" + path, **options)
    assert answer.status == 200, f"{path}: {answer.status} {answer.body}"
    return answer.json


def expect_problem(answer, status):
    assert answer.status == status, f"{answer.status} instead of {status}: {answer.body}"
    assert answer.headers["Content-Type"] == "application/problem+json", answer.headers
    problem = answer.json
    assert problem["status"] == status and problem["title"] and problem["detail"], problem
    return problem["detail"]

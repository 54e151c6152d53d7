"""Users of the daemon in these tests: clients that lock, hosts that can be called back, curl."""
import itertools
import json
import subprocess

from holdfast_test import host, nlm, nsm, rpc
from holdfast_test.daemon import PORT
from holdfast_test.xdr import Encoder

NLM, NSM = 100021, 100024
SOCKET = "/run/holdfast/admin.sock"
ADMIN_PORT = 8049

_cookies = itertools.count(1)


class Locker:
    """A client host: its name, its address, and its requests to the lock manager."""

    def __init__(self, name, address, server="192.0.2.1"):
        self.name = name if isinstance(name, bytes) else name.encode()
        self.client = rpc.Tcp(server, PORT, source=(address, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def _lock(self, fh, svid, offset=0, length=0):
        return nlm.Lock(self.name, fh, b"%d@%s" % (svid, self.name), svid, offset, length)

    def _call(self, procedure, lock, **options):
        cookie = next(_cookies).to_bytes(4, "big")
        reply = self.client.call(NLM, 4, procedure, nlm.ARGS[procedure](4, cookie, lock, **options)).decode()
        reply.opaque()
        return nlm.STATS[reply.uint()].lower()

    def lock(self, fh, svid=1, offset=0, length=0, **options):
        return self._call(nlm.LOCK, self._lock(fh, svid, offset, length), state=1, **options)

    def unlock(self, fh, svid=1, offset=0, length=0):
        return self._call(nlm.UNLOCK, self._lock(fh, svid, offset, length))

    def share(self, fh, mode=1, access=2):
        return self._call(nlm.SHARE, self._lock(fh, 1), mode=mode, access=access)


def monitor(mon_name, my_name="watcher.example", source="127.0.0.1", server="127.0.0.1"):
    """SM_MON: about any host from this one, as its kernel registers; from another one about this server only."""
    args = Encoder().string(mon_name).string(my_name).uint(NSM, 1, 6).fixed(b"p" * 16).bytes()
    with rpc.Tcp(server, PORT, source=nsm.reserved(source)) as client:
        return client.call(NSM, 1, 2, args).decode().uint()


def _answer(call):
    if (call.prog, call.proc) == (NLM, nlm.GRANTED):
        return rpc.success_message(call.xid, nlm.res(call.decode().opaque(), "GRANTED"))
    return host.answer_void(call)


class Host(host.Host):
    """What runs on a client: an rpcbind, a lock manager that accepts what it is granted, a status monitor."""

    def __init__(self, address, programs=None):
        super().__init__(address, programs=programs, answer=_answer)

    def _on_rpcbind(self, call):
        return host.answer_void(call) if call.proc == 0 else super()._on_rpcbind(call)

    def count(self, prog, proc):
        return sum((call.prog, call.proc) == (prog, proc) for call in self.calls_now())


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


def ask(method, path, body=None, host="127.0.0.1", source=None, unix=None, **headers):
    """One request by curl. Unless told otherwise, it goes over the unix socket, as root, if it changes something or
    needs to see the files of locks; over TCP, as any reader, if not."""
    unix = method in ("POST", "DELETE") or any(word in path for word in ("/locks", "/waiters", "/reservations", "/history")) \
        if unix is None and not headers and not source and host == "127.0.0.1" else bool(unix)
    command = ["curl", "-sS", "-i", "--path-as-is", "--max-time", "20", "-H", "Expect:"]
    command += ["--head"] if method == "HEAD" else ["-X", method]
    command += ["--unix-socket", SOCKET] if unix else []
    command += ["--interface", source] if source else []
    command += ["--data-binary", "@-"] if body is not None else []
    for name, value in headers.items():
        command += ["-H", f"{name.replace('_', '-')}: {value}" if value else f"{name}:"]
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

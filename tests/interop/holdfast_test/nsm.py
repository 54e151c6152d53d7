"""NSM version 1 (program 100024) as a client speaks it, and the little of NLM 4 that NSM tests need.

    with nsm.connect() as monitor:             # over TCP to the daemon on 127.0.0.1
        assert monitor.mon("host", priv=b"...").ok
"""
import socket
from dataclasses import dataclass

from . import rpc
from .daemon import PORT
from .xdr import Encoder

PROG, VERS = 100024, 1
NULL, STAT, MON, UNMON, UNMON_ALL, SIMU_CRASH, NOTIFY = range(7)
STAT_SUCC, STAT_FAIL = 0, 1
NAME_MAX = 1024

NLM = 100021
NLM_SM_NOTIFY = 16  # the procedure a Linux lockd registers for its status monitor to call
TRANSIENT = 0x40000000

GRANTED, DENIED, DENIED_NOLOCKS, BLOCKED, DENIED_GRACE = range(5)


# ---- arguments ----

def my_id(my_name="localhost", prog=TRANSIENT, vers=1, proc=1):
    return Encoder().string(my_name).uint(prog, vers, proc).bytes()


def mon_id(mon_name, **me):
    return Encoder().string(mon_name).raw(my_id(**me)).bytes()


def mon(mon_name, priv=bytes(16), **me):
    return Encoder().raw(mon_id(mon_name, **me)).fixed(priv).bytes()


def stat_chge(mon_name, state):
    return Encoder().string(mon_name).int(state).bytes()


# ---- what a status monitor sends: `status` to its registrations, SM_NOTIFY to hosts ----

@dataclass(frozen=True)
class Status:
    """The argument of a monitor's callback."""
    mon_name: bytes
    state: int
    priv: bytes

    @staticmethod
    def decode(d):
        status = Status(d.opaque(), d.int(), d.fixed(16))
        d.end()
        return status


@dataclass(frozen=True)
class Notice:
    """The argument of SM_NOTIFY."""
    mon_name: bytes
    state: int

    @staticmethod
    def decode(d):
        notice = Notice(d.opaque(), d.int())
        d.end()
        return notice


# ---- calls ----

@dataclass
class Answer:
    ok: bool
    state: int


class Monitor:
    """A caller of a status monitor: a client of rpc.py that reads NSM's results to their last byte."""

    def __init__(self, client):
        self.client = client

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def call(self, proc, args=b"", **header):
        reply = self.client.call(PROG, VERS, proc, args, **header)
        assert reply.status == rpc.SUCCESS, reply.status
        return reply.decode()

    def _stat_res(self, d):
        answer = Answer({STAT_SUCC: True, STAT_FAIL: False}[d.int()], d.int())
        d.end()
        return answer

    def stat(self, name="anybody"):
        return self._stat_res(self.call(STAT, Encoder().string(name).bytes()))

    def mon(self, mon_name, priv=bytes(16), **me):
        return self._stat_res(self.call(MON, mon(mon_name, priv, **me)))

    def _stat(self, d):
        state = d.int()
        d.end()
        return state

    def unmon(self, mon_name, **me):
        return self._stat(self.call(UNMON, mon_id(mon_name, **me)))

    def unmon_all(self, **me):
        return self._stat(self.call(UNMON_ALL, my_id(**me)))

    def notify(self, mon_name, state):
        self.call(NOTIFY, stat_chge(mon_name, state)).end()

    def simu_crash(self):
        self.call(SIMU_CRASH).end()

    # ---- NLM 4, in the same conversation ----

    def lock(self, caller, fh=b"file", svid=1, block=False, reclaim=False, state=0, exclusive=True):
        """LOCK of the whole file; the status."""
        args = Encoder().opaque(b"c").bool(block, exclusive).raw(nlm_lock(caller, fh, svid))
        return self._nlm(2, args.bool(reclaim).int(state))

    def test(self, caller, fh=b"file", svid=1):
        args = Encoder().opaque(b"c").bool(True).raw(nlm_lock(caller, fh, svid))
        d = self.client.call(NLM, 4, 1, args.bytes()).decode()
        assert d.opaque() == b"c"
        return d.uint()

    def unlock(self, caller, fh=b"file", svid=1):
        return self._nlm(4, Encoder().opaque(b"c").raw(nlm_lock(caller, fh, svid)))

    def _nlm(self, proc, args):
        reply = self.client.call(NLM, 4, proc, args.bytes())
        assert reply.status == rpc.SUCCESS, reply.status
        d = reply.decode()
        assert d.opaque() == b"c"
        status = d.uint()
        d.end()
        return status


def nlm_lock(caller, fh, svid):
    owner = f"{svid}@{caller}"
    return Encoder().string(caller).opaque(fh).string(owner).int(svid).uhyper(0, 0).bytes()


def connect(host="127.0.0.1", source=None, transport="tcp", timeout=rpc.TIMEOUT_S, port=PORT):
    """From another address, if source names one; from a port of its choice, if source is a pair."""
    if isinstance(source, str):
        source = (source, 0)
    return Monitor(rpc.TRANSPORTS[transport](host, port, source=source, timeout=timeout))


def as_kernel(transport="tcp", host="127.0.0.1"):
    """From this host and a reserved port, as its kernel registers: about any host (SEC-01)."""
    return connect(host, reserved(host), transport)


def reserved(host="127.0.0.1"):
    """A source that only root can have: the first reserved port that is free."""
    for port in range(1023, 600, -1):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            try:
                probe.bind((host, port))
                return (host, port)
            except OSError:
                continue
    raise AssertionError("no reserved port is free")

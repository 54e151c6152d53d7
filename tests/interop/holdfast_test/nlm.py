"""NLM (X/Open XNFS chapter 10 for versions 1 and 3, RFC 1813 appendix II for version 4): codecs.

Every procedure's arguments and results as bytes and back. Versions differ in one thing only: offset
and length have 32 bits in 1 and 3, 64 in 4.
"""
from dataclasses import dataclass, replace

from .xdr import Decoder, Encoder

PROG = 100021
VERSIONS = (1, 3, 4)

(NULL, TEST, LOCK, CANCEL, UNLOCK, GRANTED) = range(6)
MSG = 5   # added to a procedure: the message form
RES = 10  # added to a procedure: the answer to the message form
SM_NOTIFY, SHARE, UNSHARE, NM_LOCK, FREE_ALL = 16, 20, 21, 22, 23

NAMES = {0: "NULL", 1: "TEST", 2: "LOCK", 3: "CANCEL", 4: "UNLOCK", 5: "GRANTED", 16: "SM_NOTIFY",
         20: "SHARE", 21: "UNSHARE", 22: "NM_LOCK", 23: "FREE_ALL"}

STATS = ("GRANTED", "DENIED", "DENIED_NOLOCKS", "BLOCKED", "DENIED_GRACE_PERIOD",
         "DEADLCK", "ROFS", "STALE_FH", "FBIG", "FAILED")
LAST_STAT = {1: 4, 3: 4, 4: 9}  # what each version knows


def name(proc):
    if proc in NAMES:
        return NAMES[proc]
    return NAMES[(proc - 1) % 5 + 1] + ("_MSG" if proc <= 10 else "_RES")


@dataclass(frozen=True)
class Lock:
    """The owner (caller, oh, svid) and the range (fh, offset, length) of a lock; length 0 means to the end."""
    caller: bytes = b"client"
    fh: bytes = b"a file handle"
    oh: bytes = b"owner"
    svid: int = 1
    offset: int = 0
    length: int = 0

    def but(self, **changes):
        return replace(self, **changes)


@dataclass(frozen=True)
class Holder:
    exclusive: bool
    svid: int
    oh: bytes
    offset: int
    length: int


@dataclass(frozen=True)
class Result:
    cookie: bytes
    stat: str
    holder: Holder = None   # TEST denied
    sequence: int = None    # SHARE, UNSHARE


def _range(e, vers, offset, length):
    return e.uhyper(offset, length) if vers == 4 else e.uint(offset, length)


def _lock(e, vers, lock):
    e.opaque(lock.caller).opaque(lock.fh).opaque(lock.oh).int(lock.svid)
    return _range(e, vers, lock.offset, lock.length)


def test_args(vers, cookie, lock, exclusive=True):
    return _lock(Encoder().opaque(cookie).bool(exclusive), vers, lock).bytes()


def lock_args(vers, cookie, lock, exclusive=True, block=False, reclaim=False, state=0):
    e = Encoder().opaque(cookie).bool(block, exclusive)
    return _lock(e, vers, lock).bool(reclaim).int(state).bytes()


def cancel_args(vers, cookie, lock, exclusive=True, block=True):
    return _lock(Encoder().opaque(cookie).bool(block, exclusive), vers, lock).bytes()


def unlock_args(vers, cookie, lock):
    return _lock(Encoder().opaque(cookie), vers, lock).bytes()


def share_args(vers, cookie, lock, mode=0, access=0, reclaim=False):
    del vers  # the same in all
    e = Encoder().opaque(cookie).opaque(lock.caller).opaque(lock.fh).opaque(lock.oh)
    return e.uint(mode, access).bool(reclaim).bytes()


def free_all_args(caller, state=0):
    return Encoder().opaque(caller).int(state).bytes()


def sm_notify_args(mon_name, state, priv=bytes(16)):
    return Encoder().opaque(mon_name).int(state).fixed(priv).bytes()


ARGS = {TEST: test_args, LOCK: lock_args, CANCEL: cancel_args, UNLOCK: unlock_args,
        GRANTED: test_args, NM_LOCK: lock_args, SHARE: share_args, UNSHARE: share_args}


def res(cookie, stat):
    """The result of everything but TEST, SHARE and UNSHARE; also the arguments of its _RES."""
    return Encoder().opaque(cookie).uint(STATS.index(stat)).bytes()


def _stat(d, vers):
    number = d.uint()
    assert number <= LAST_STAT[vers], f"stat {number} in version {vers}"
    return STATS[number]


def _decode_range(d, vers):
    return (d.uhyper(), d.uhyper()) if vers == 4 else (d.uint(), d.uint())


def decode_result(proc, vers, data):
    d = Decoder(data)
    cookie, stat, holder, sequence = d.opaque(), _stat(d, vers), None, None
    if proc == TEST and stat == "DENIED":
        exclusive, svid, oh = d.bool(), d.int(), d.opaque()
        holder = Holder(exclusive, svid, oh, *_decode_range(d, vers))
    if proc in (SHARE, UNSHARE):
        sequence = d.int()
    d.end()
    return Result(cookie, stat, holder, sequence)


def decode_test_args(vers, data):
    """(cookie, exclusive, lock): what GRANTED carries."""
    d = Decoder(data)
    cookie, exclusive = d.opaque(), d.bool()
    caller, fh, oh, svid = d.opaque(), d.opaque(), d.opaque(), d.int()
    offset, length = _decode_range(d, vers)
    d.end()
    return cookie, exclusive, Lock(caller, fh, oh, svid, offset, length)

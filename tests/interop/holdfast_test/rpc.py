"""ONC RPC (RFC 5531) over UDP and TCP: messages, record marking, and a client that waits for answers.

A client is made for one address and port, optionally from a chosen source address and port:

    with rpc.Tcp("127.0.0.1", 4045) as client:
        reply = client.call(100024, 1, 0)
        assert reply.status == rpc.SUCCESS
"""
import itertools
import random
import socket
import struct
from dataclasses import dataclass

from .xdr import Decoder, Encoder

CALL, REPLY = 0, 1
ACCEPTED, DENIED = 0, 1

# What became of a call: the words of RFC 5531, section 9.
SUCCESS, PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR = (
    "SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR")
ACCEPT_STATS = (SUCCESS, PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR)
RPC_MISMATCH = "RPC_MISMATCH"
AUTH_BADCRED, AUTH_TOOWEAK = "AUTH_BADCRED", "AUTH_TOOWEAK"
AUTH_STATS = {1: AUTH_BADCRED, 5: AUTH_TOOWEAK}

AUTH_NONE = (0, b"")
LAST_FRAGMENT = 0x80000000
TIMEOUT_S = 10  # beyond any answer of a daemon that is alive: reaching it is a failure

_xids = itertools.count(random.SystemRandom().getrandbits(31))


def new_xid():
    return next(_xids) & 0xffffffff


def auth_sys(name="client", uid=0, gid=0, gids=()):
    body = Encoder().uint(0).string(name).uint(uid, gid, len(gids), *gids)
    return (1, body.bytes())


def call_message(xid, prog, vers, proc, args=b"", cred=AUTH_NONE, verf=AUTH_NONE, rpc_version=2):
    head = Encoder().uint(xid, CALL, rpc_version, prog, vers, proc)
    head.uint(cred[0]).opaque(cred[1]).uint(verf[0]).opaque(verf[1])
    return head.raw(args).bytes()


def success_message(xid, results=b""):
    """An answer, for the services that tests play themselves."""
    return Encoder().uint(xid, REPLY, ACCEPTED, 0, 0, 0).raw(results).bytes()


@dataclass
class Reply:
    xid: int
    status: str
    range: tuple = None    # of a mismatch: lowest and highest version
    results: bytes = b""

    def decode(self):
        return Decoder(self.results)


def parse_reply(message):
    """Reads a reply to the last byte: what should be empty must be empty."""
    d = Decoder(message)
    xid, kind, verdict = d.uint(), d.uint(), d.uint()
    assert kind == REPLY, f"message type {kind}"
    if verdict == DENIED:
        if d.uint() == 0:
            reply = Reply(xid, RPC_MISMATCH, (d.uint(), d.uint()))
        else:
            reply = Reply(xid, AUTH_STATS[d.uint()])
    else:
        assert verdict == ACCEPTED, f"reply status {verdict}"
        assert (d.uint(), d.opaque()) == AUTH_NONE, "a verifier that was not asked for"
        reply = Reply(xid, ACCEPT_STATS[d.uint()])
        if reply.status == SUCCESS:
            reply.results = d.rest()
        elif reply.status == PROG_MISMATCH:
            reply.range = (d.uint(), d.uint())
    d.end()
    return reply


def mark(length, last=True):
    return struct.pack(">I", length | (LAST_FRAGMENT if last else 0))


def record(message, *cuts):
    """The message as one record, in as many fragments as cuts (offsets) make of it."""
    edges = [0, *cuts, len(message)]
    pieces = [message[a:b] for a, b in zip(edges, edges[1:])]
    return b"".join(mark(len(piece), i == len(pieces) - 1) + piece for i, piece in enumerate(pieces))


class _Client:
    kind = None

    def __init__(self, host, port, source=None, timeout=TIMEOUT_S):
        self.family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.server = (host, port)
        self.sock = socket.socket(self.family, self.kind)
        self.sock.settimeout(timeout)
        if source:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.sock.bind(source)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def call(self, prog, vers, proc, args=b"", xid=None, **header):
        """One call, and the answer to it."""
        xid = new_xid() if xid is None else xid
        self.send(call_message(xid, prog, vers, proc, args, **header))
        return self.reply_to(xid)

    def reply_to(self, xid):
        reply = self.reply()
        assert reply.xid == xid, f"answer to {reply.xid:#x}, asked {xid:#x}"
        return reply

    def reply(self):
        return parse_reply(self.receive())

    def is_silent(self, seconds=0.2):
        """True if nothing comes: for requests that must not be answered."""
        before = self.sock.gettimeout()
        self.sock.settimeout(seconds)
        try:
            self.receive()
            return False
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(before)


class Udp(_Client):
    """Not connected, so that an answer from another address is seen instead of lost."""
    kind = socket.SOCK_DGRAM
    transport = "udp"

    def send(self, message):
        self.sock.sendto(message, self.server)

    def receive(self):
        message, self.sender = self.sock.recvfrom(65536)
        assert self.sender[:2] == self.server, f"asked {self.server}, {self.sender} answers"
        return message


class Tcp(_Client):
    kind = socket.SOCK_STREAM
    transport = "tcp"

    def __init__(self, host, port, source=None, timeout=TIMEOUT_S):
        super().__init__(host, port, source, timeout)
        try:
            self.sock.connect(self.server)
        except OSError:
            self.sock.close()
            raise

    def send(self, message):
        self.send_raw(record(message))

    def send_raw(self, data):
        self.sock.sendall(data)

    def receive_exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise EOFError(f"closed by the peer after {len(data)} of {size} bytes")
            data += piece
        return data

    def receive(self):
        message = b""
        while True:
            word = struct.unpack(">I", self.receive_exactly(4))[0]
            message += self.receive_exactly(word & ~LAST_FRAGMENT)
            if word & LAST_FRAGMENT:
                return message

    def is_closed(self):
        """Waits until the peer closes; False if it sends something instead."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


TRANSPORTS = {"udp": Udp, "tcp": Tcp}

"""Another host, played: at an address of its own, with an rpcbind and services, recording every call it gets.

    with Host("192.0.2.2") as host:
        call = host.wait_for(lambda c: c.prog == 100024 and c.proc == 6)
        assert call.source[0] == "192.0.2.1"

By default every program is registered on both transports, and every call answered with void. What
a host offers (rpcbind by UDP or TCP only, one transport only, some programs only) and how it answers
(not at all, late, garbage) is said when it is made.
"""
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass

from . import rpc, rpcbind
from .daemon import WAIT_S
from .xdr import Decoder, Encoder


@dataclass
class Call:
    xid: int
    prog: int
    vers: int
    proc: int
    args: bytes
    transport: str
    source: tuple
    at: float

    def decode(self):
        return Decoder(self.args)


def parse_call(message, transport, source):
    d = Decoder(message)
    xid, kind, version, prog, vers, proc = (d.uint() for _ in range(6))
    assert (kind, version) == (rpc.CALL, 2)
    for _ in range(2):  # credential, verifier
        d.uint(), d.opaque()
    return Call(xid, prog, vers, proc, d.rest(), transport, source[:2], time.monotonic())


# ---- ways to answer: the bytes of a reply, None for silence, or (seconds, bytes) for a late one ----

def answer_void(call):
    return rpc.success_message(call.xid)


def never(_call):
    return None


def garbage(call):
    return struct.pack(">II", call.xid, rpc.REPLY) + b"\xff" * 21


def system_error(call):
    return Encoder().uint(call.xid, rpc.REPLY, rpc.ACCEPTED, 0, 0, 5).bytes()


def late(seconds):
    return lambda call: (seconds, answer_void(call))


class Host:
    def __init__(self, address, rpcbind=("udp", "tcp"), offers=("udp", "tcp"), programs=None,
                 answer=answer_void, port=0):
        self.address, self.offers, self.programs, self.answer = address, offers, programs, answer
        self.rpcbind_on, self.port = rpcbind, port
        self.calls, self.lookups = [], []
        self.news = threading.Condition()
        self.family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.late = []  # (when, function)

    # ---- life ----

    def __enter__(self):
        self.selector = selectors.DefaultSelector()
        self.waker, self.wakee = socket.socketpair()
        self.selector.register(self.wakee, selectors.EVENT_READ, None)
        for transport in self.rpcbind_on:
            self._open(transport, rpcbind.PORT, self._on_rpcbind)
        self.port = self.port or rpcbind.free_port(self.address)
        for transport in ("udp", "tcp"):
            if transport in self.offers:
                self.port = self._open(transport, self.port, self._on_service)
        self.running = True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.running = False
        self.waker.send(b"x")
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.waker.close()
        self.selector.close()

    def _open(self, transport, port, handler):
        kind = socket.SOCK_DGRAM if transport == "udp" else socket.SOCK_STREAM
        sock = socket.socket(self.family, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self.address, port))
        if transport == "tcp":
            sock.listen(512)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.setblocking(False)
        self.selector.register(sock, selectors.EVENT_READ, (transport, handler))
        return sock.getsockname()[1]

    # ---- the loop ----

    def _run(self):
        while self.running:
            pause = max(0, min([when for when, _ in self.late], default=1e9) - time.monotonic())
            for key, _ in self.selector.select(min(pause, 5)):
                if key.data:
                    self._ready(key.fileobj, *key.data)
            due = [entry for entry in self.late if entry[0] <= time.monotonic()]
            self.late = [entry for entry in self.late if entry not in due]
            for _, send in due:
                send()

    def _ready(self, sock, kind, handler):
        try:
            if kind == "udp":
                message, source = sock.recvfrom(65536)
                self._serve(handler, message, kind, source, lambda reply: sock.sendto(reply, source))
            elif kind == "tcp":
                conn, source = sock.accept()
                conn.setblocking(False)
                self.selector.register(conn, selectors.EVENT_READ, (bytearray(), (handler, source)))
            else:
                self._stream(sock, kind, *handler)
        except BlockingIOError:
            pass

    def _stream(self, conn, data, handler, source):
        try:
            piece = conn.recv(65536)
        except ConnectionResetError:
            piece = b""
        if not piece:
            self.selector.unregister(conn)
            conn.close()
            return
        data += piece
        while len(data) >= 4 and len(data) >= 4 + (size := struct.unpack(">I", data[:4])[0] & 0x7fffffff):
            message = bytes(data[4:4 + size])
            del data[:4 + size]
            self._serve(handler, message, "tcp", source,
                        lambda reply: conn.sendall(rpc.record(reply)))

    def _serve(self, handler, message, transport, source, send):
        reply = handler(parse_call(message, transport, source))
        if isinstance(reply, tuple):
            self.late.append((time.monotonic() + reply[0], lambda: self._send(send, reply[1])))
        elif reply is not None:
            self._send(send, reply)

    def _send(self, send, reply):
        try:
            send(reply)
        except OSError:
            pass  # the caller has closed its socket

    # ---- services ----

    def _on_rpcbind(self, call):
        self.lookups.append(call)
        d = call.decode()
        prog, vers = d.uint(), d.uint()
        if call.vers == 2:
            wanted = {number: name for name, number in rpcbind.PROTOCOLS.items()}[d.uint()]
        else:
            wanted = d.string()[:3]
        known = self.programs is None or prog in self.programs
        port = self.port if known and wanted in self.offers else 0
        if call.vers == 2:
            return rpc.success_message(call.xid, Encoder().uint(port).bytes())
        text = rpcbind.uaddr("::" if self.family == socket.AF_INET6 else "0.0.0.0", port)
        return rpc.success_message(call.xid, Encoder().string(text if port else "").bytes())

    def _on_service(self, call):
        with self.news:
            self.calls.append(call)
            self.news.notify_all()
        return self.answer(call)

    # ---- what was called ----

    def wait_for(self, wanted=lambda call: True, times=1):
        """The call for which the condition holds; the nth of them."""
        def found():
            return [call for call in self.calls if wanted(call)][times - 1:times]

        with self.news:
            hits = self.news.wait_for(found, WAIT_S)
            assert hits, f"no such call to {self.address} in time; it had {self.calls}"
        return hits[0]

    def calls_now(self):
        with self.news:
            return list(self.calls)

    def forget(self):
        with self.news:
            self.calls.clear()

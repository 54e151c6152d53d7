"""Client hosts, simulated: each on an address of its own, with a small rpcbind on port 111 and its
own NLM and NSM service, on UDP and TCP. All of them are served by one thread.

    with Network() as network:
        alice = network.host("10.2.0.1", "alice")
        alice.ask(nlm.LOCK, alice.lock(offset=10)).stat
        alice.wait_for(nlm.GRANTED)

What comes in is recorded, and answered as host.answers says. ask() puts a question to the daemon in
any version, transport and form: of a message it returns the answer that came by the _RES call.
"""
import os
import selectors
import socket
import struct
import threading
import time
import traceback
from dataclasses import dataclass, field

from . import netns, nlm, rpc, rpcbind
from .daemon import PORT
from .xdr import Decoder, Encoder

NSM = 100024
SM_STAT, SM_NOTIFY = 1, 6
SERVER = "10.1.0.1"
SERVERS = (SERVER, "10.1.0.2", "fd00:1::1")
WAIT_S = 6
SILENCE = object()  # an answer that is none


def add_addresses():
    """10.1.0.0/16 (servers), 10.2.0.0/16 (clients) and a few of IPv6 are this host's."""
    for net in ("10.1.0.0/16", "10.2.0.0/16"):
        netns.run("ip", "route", "add", "local", net, "dev", "lo")
    for address in (SERVERS[2], *(f"fd00:2::{i}" for i in range(1, 5))):
        netns.run("ip", "address", "add", address + "/128", "dev", "lo", "nodad")


@dataclass
class Call:
    """An inbound call: its source, what it called, by which transport, and when."""
    prog: int
    vers: int
    proc: int
    transport: str
    source: tuple   # address and port it came from
    args: bytes
    at: float = field(default_factory=time.monotonic)

    def granted(self):
        return nlm.decode_test_args(self.vers, self.args)


def _family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def parse_call(message):
    """(xid, program, version, procedure, arguments), or None if it is a reply."""
    d = Decoder(message)
    xid, kind = d.uint(), d.uint()
    if kind != rpc.CALL:
        return None
    assert d.uint() == 2, "RPC version"
    prog, vers, proc = d.uint(), d.uint(), d.uint()
    for _ in range(2):
        d.uint(), d.opaque()
    return xid, prog, vers, proc, d.rest()


class Host:
    """One client host. answers: what it says to GRANTED, a stat or SILENCE."""

    def __init__(self, network, address, name, tcp):
        self.network, self.address = network, address
        self.name = name.encode() if isinstance(name, str) else name
        self.answers = "GRANTED"
        self.state = 1
        self.calls = []
        self.lookups = 0  # questions to its rpcbind
        self.registered = {nlm.PROG, NSM}
        self.monitor = None  # the state number that its status monitor names (SM_STAT)
        self.pace = 0  # seconds until it answers
        self._clients = {}
        self._sockets = []
        self.mute = False  # deaf, and silent: as a host that is gone
        self.udp_111 = self._open("udp", 111)
        self.udp = self._open("udp", rpcbind.free_port(self.address))
        self.port = self.udp.getsockname()[1]
        if tcp:
            self._open("tcp", 111)
            self.tcp = self._open("tcp", self.port)

    def _open(self, transport, port):
        kind = socket.SOCK_DGRAM if transport == "udp" else socket.SOCK_STREAM
        sock = socket.socket(_family(self.address), kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self.address, port))
        if transport == "tcp":
            sock.listen(64)
        sock.setblocking(False)
        self._sockets.append(sock)
        self.network.watch(sock, self._on_datagram if transport == "udp" else self._on_connection)
        return sock

    def move(self):
        """Its lock manager starts again on another port, and its rpcbind names the new one."""
        for sock in (self.udp, self.tcp):
            self.network.forget(sock)
            self._sockets.remove(sock)
            sock.close()
        before, self.udp = self.port, self._open("udp", rpcbind.free_port(self.address))
        self.port = self.udp.getsockname()[1]
        assert self.port != before
        self.tcp = self._open("tcp", self.port)

    def vanish(self):
        """The host is gone: nothing listens at its address any more."""
        for sock in self._sockets:
            self.network.forget(sock)
            sock.close()
        self.close_clients()

    # ---- what comes in ----

    def _on_datagram(self, sock):
        try:
            message, source = sock.recvfrom(65536)
        except (BlockingIOError, OSError):
            return
        self._serve(message, "udp", source[:2], lambda answer: sock.sendto(answer, source))

    def _on_connection(self, listener):
        sock, source = listener.accept()
        sock.setblocking(True)
        self._sockets.append(sock)
        data = bytearray()

        def on_data(sock):
            try:
                piece = sock.recv(65536)
            except OSError:
                piece = b""
            if not piece:
                self.network.forget(sock)
                self._sockets.remove(sock)
                sock.close()
                return
            data.extend(piece)
            while len(data) >= 4:
                size = struct.unpack(">I", data[:4])[0] & ~rpc.LAST_FRAGMENT
                if len(data) < 4 + size:
                    return
                message = bytes(data[4:4 + size])
                del data[:4 + size]
                self._serve(message, "tcp", source[:2],
                            lambda answer: sock.sendall(rpc.record(answer)))

        self.network.watch(sock, on_data)

    def _serve(self, message, transport, source, send):
        call = parse_call(message)
        if self.mute or call is None:
            return
        xid, prog, vers, proc, args = call
        if prog == rpcbind.PROG:
            self.lookups += 1
            send(rpc.success_message(xid, self._rpcbind(vers, proc, args)))
            return
        with self.network.news:
            self.calls.append(Call(prog, vers, proc, transport, source, args))
            self.network.news.notify_all()
        if self.pace:
            time.sleep(self.pace)
        if prog == nlm.PROG and proc == nlm.GRANTED:
            if self.answers is not SILENCE:
                cookie = nlm.decode_test_args(vers, args)[0]
                send(rpc.success_message(xid, nlm.res(cookie, self.answers)))
            return
        if prog == NSM and proc == SM_STAT and self.monitor is not None:
            send(rpc.success_message(xid, Encoder().uint(0).int(self.monitor).bytes()))
            return
        send(rpc.success_message(xid))
        if prog == nlm.PROG and proc == nlm.GRANTED + nlm.MSG and self.answers is not SILENCE:
            cookie = nlm.decode_test_args(vers, args)[0]
            self.send_granted_res(cookie, self.answers, vers, transport, source[0])

    def send_granted_res(self, cookie, stat, vers=4, transport="udp", server=SERVER):
        message = rpc.call_message(rpc.new_xid(), nlm.PROG, vers, nlm.GRANTED + nlm.RES,
                                   nlm.res(cookie, stat))
        if transport == "udp":
            self.udp.sendto(message, (server, PORT))
        else:
            with rpc.Tcp(server, PORT, (self.address, 0)) as client:
                client.send(message)
                client.receive()

    def _rpcbind(self, vers, proc, args):
        d = Decoder(args)
        known = d.uint() in self.registered
        if vers == 2:
            assert proc == rpcbind.GETPORT, f"rpcbind procedure {proc}"
            return Encoder().uint(self.port if known else 0).bytes()
        assert proc == rpcbind.GETADDR, f"rpcbind procedure {proc}"
        return Encoder().string(rpcbind.uaddr(self.address, self.port) if known else "").bytes()

    def received(self, proc, prog=nlm.PROG):
        with self.network.news:
            return [call for call in self.calls if (call.prog, call.proc) == (prog, proc)]

    def wait_for(self, proc, times=1, prog=nlm.PROG, seconds=WAIT_S):
        """Waits until so many calls of the procedure have come in; returns the last of them."""
        with self.network.news:
            def found():
                hits = [call for call in self.calls if (call.prog, call.proc) == (prog, proc)]
                return hits[times - 1:times]
            hits = self.network.news.wait_for(found, seconds)
        assert hits, f"{self.name}: no {nlm.name(proc)} came; {[c.proc for c in self.calls]}"
        return hits[0]

    # ---- what it asks ----

    def client(self, transport="tcp", server=SERVER):
        key = transport, server
        if key not in self._clients:
            self._clients[key] = rpc.TRANSPORTS[transport](server, PORT, (self.address, 0))
        return self._clients[key]

    def close_clients(self):
        for client in self._clients.values():
            client.close()
        self._clients = {}

    def lock(self, **fields):
        return nlm.Lock(**({"caller": self.name, "oh": b"1@" + self.name} | fields))

    def ask(self, proc, lock=None, vers=4, transport="tcp", server=SERVER, msg=False, cookie=None,
            **fields):
        """The result of a question: of a message, what its _RES call brought."""
        lock = lock or self.lock()
        cookie = os.urandom(8) if cookie is None else cookie
        args = nlm.ARGS[proc](vers, cookie, lock, **fields)
        seen = len(self.received(proc + nlm.RES)) if msg else 0
        reply = self.client(transport, server).call(nlm.PROG, vers, proc + (nlm.MSG if msg else 0), args)
        assert reply.status == rpc.SUCCESS, f"{nlm.name(proc)} version {vers}: {reply.status}"
        if not msg:
            result = nlm.decode_result(proc, vers, reply.results)
        else:
            assert reply.results == b"", "a message has a void result"
            call = self.wait_for(proc + nlm.RES, seen + 1)
            self.check_res(call, vers, transport, server)
            result = nlm.decode_result(proc, vers, call.args)
        assert result.cookie == cookie, f"cookie {result.cookie.hex()}, sent {cookie.hex()}"
        return result

    def check_res(self, call, vers, transport, server):
        """The answer to a message: same version and transport, from the address it was sent to."""
        assert (call.vers, call.transport, call.source[0]) == (vers, transport, server), call
        if transport == "udp":
            assert call.source[1] == PORT, f"_RES from port {call.source[1]}"

    def stat(self, proc, lock=None, **how):
        return self.ask(proc, lock, **how).stat

    def free_all(self, name=None, vers=4, transport="tcp", server=SERVER):
        reply = self.client(transport, server).call(nlm.PROG, vers, nlm.FREE_ALL,
                                                    nlm.free_all_args(name or self.name))
        assert (reply.status, reply.results) == (rpc.SUCCESS, b"")

    def sm_notify(self, state, name=None, server=SERVER):
        args = Encoder().opaque(name or self.name).int(state).bytes()
        reply = self.client("udp", server).call(NSM, 1, SM_NOTIFY, args)
        assert (reply.status, reply.results) == (rpc.SUCCESS, b"")


class Network:
    """The thread that serves all hosts, and the condition that wakes tests when a call comes in."""

    def __init__(self):
        self.news = threading.Condition()
        self.selector = selectors.DefaultSelector()
        self.hosts = []
        self.faults = []

    def host(self, address, name=None, tcp=True):
        host = Host(self, address, name or "host-" + address, tcp)
        self.hosts.append(host)
        return host

    def watch(self, sock, handler):
        self.selector.register(sock, selectors.EVENT_READ, handler)

    def forget(self, sock):
        try:
            self.selector.unregister(sock)
        except (KeyError, ValueError):
            pass

    def __enter__(self):
        self.running = True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def _run(self):
        while self.running:
            for key, _ in self.selector.select(0.05):
                try:
                    key.data(key.fileobj)
                except OSError:
                    pass  # a host that has just vanished, or a caller that has
                except Exception:  # what the daemon sent is not what it should be
                    self.faults.append(traceback.format_exc())

    def __exit__(self, failure, *_):
        self.running = False
        self.thread.join()
        for host in self.hosts:
            host.vanish()
        self.selector.close()
        assert failure or not self.faults, "\n".join(self.faults)

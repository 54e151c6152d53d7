"""How many bytes go from one address to another: every IPv4 packet of the private network is counted, headers included.

    with Meter() as meter:
        ...
        assert meter.sent(SERVER, VICTIM) <= 3 * meter.sent(VICTIM, SERVER)
"""
import collections
import selectors
import socket
import threading

ETH_P_IP = 0x0800
PACKET_HOST = 0  # as it arrives; so each packet is seen once
PACKET_OTHERHOST = 3  # as it arrives at the far end of a cable, where nobody takes it
ETHERNET = 14


class Meter:
    def __init__(self, interface="lo", kind=PACKET_HOST):
        self.interface, self.kind = interface, kind
        self.lock = threading.Lock()
        self.bytes = collections.Counter()  # by (source, destination)
        self.order = []  # (source, destination) of each packet

    def __enter__(self):
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        self.sock.bind((self.interface, ETH_P_IP))
        self.waker, self.wakee = socket.socketpair()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.waker.send(b"x")
        self.thread.join()
        for sock in (self.sock, self.waker, self.wakee):
            sock.close()

    def _run(self):
        with selectors.DefaultSelector() as selector:
            for sock in (self.sock, self.wakee):
                selector.register(sock, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self.wakee:
                        return
                    self._count(*self.sock.recvfrom(65536))

    def _count(self, packet, origin):
        if origin[2] != self.kind:
            return
        header = packet[ETHERNET:ETHERNET + 20]
        pair = socket.inet_ntoa(header[12:16]), socket.inet_ntoa(header[16:20])
        with self.lock:
            self.bytes[pair] += int.from_bytes(header[2:4], "big")
            self.order.append(pair)

    def sent(self, source, destination):
        with self.lock:
            return self.bytes[source, destination]

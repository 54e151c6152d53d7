#!/usr/bin/env python3
"""delay.py MILLISECONDS: holds back every packet that this host receives, in order, for so long; until it is ended.

For kernels without `tc netem`: the packets come from the netfilter queue QUEUE (libnetfilter_queue's protocol, by hand).
Ended, it lets go of what it holds; the rule that feeds the queue must let packets pass then (--queue-bypass).
"""
import collections
import select
import signal
import socket
import struct
import sys
import time

QUEUE = 7
NETLINK_NETFILTER = 12
MESSAGE_PACKET, MESSAGE_VERDICT, MESSAGE_CONFIG = 3 << 8, 3 << 8 | 1, 3 << 8 | 2
CONFIG_COMMAND, CONFIG_COPY, CONFIG_LENGTH = 1, 2, 3
BIND, COPY_META, ACCEPT = 1, 1, 1
PACKET_HEADER, VERDICT_HEADER = 1, 2
REQUEST = 1


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def message(kind, *attributes):
    body = struct.pack("=BBH", socket.AF_UNSPEC, 0, socket.htons(QUEUE)) + b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), kind, REQUEST, 0, 0) + body


def packet_ids(data):
    """Of all packets that a piece from the kernel tells of."""
    while len(data) >= 20:
        length, kind = struct.unpack_from("=IH", data)
        rest = data[20:length]
        while kind == MESSAGE_PACKET and len(rest) >= 4:
            size, name = struct.unpack_from("=HH", rest)
            if name & 0x7fff == PACKET_HEADER:
                yield struct.unpack_from(">I", rest, 4)[0]
            rest = rest[(size + 3) & ~3:]
        data = data[(length + 3) & ~3:]


def main():
    pause = float(sys.argv[1]) / 1000
    queue = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    queue.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    queue.bind((0, 0))
    queue.send(message(MESSAGE_CONFIG, attribute(CONFIG_COMMAND, struct.pack(">BBH", BIND, 0, socket.AF_INET))))
    queue.send(message(MESSAGE_CONFIG, attribute(CONFIG_COPY, struct.pack(">IB", 0, COPY_META))))
    queue.send(message(MESSAGE_CONFIG, attribute(CONFIG_LENGTH, struct.pack(">I", 65536))))
    held, running = collections.deque(), []
    signal.signal(signal.SIGTERM, lambda *_: running.append("no"))
    print("ready", flush=True)
    while not running or held:
        now = time.monotonic()
        if select.select([queue], [], [], min(0.05, max(0, held[0][0] - now)) if held else 0.05)[0]:
            try:
                held.extend((time.monotonic() + pause, number) for number in packet_ids(queue.recv(1 << 20)))
            except OSError:
                pass  # more than it has room for: lost, as on a network
        while held and (running or held[0][0] <= time.monotonic()):
            verdict = struct.pack(">II", ACCEPT, held.popleft()[1])
            queue.send(message(MESSAGE_VERDICT, attribute(VERDICT_HEADER, verdict)))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A Linux lockd, played for a status monitor: lockd.py REGISTER [MON_NAME]...

Registers program 100021 version 3 with the rpcbind of its host (REGISTER: "set"; "take": takes it
over from the program that has it, as the kernel does), has the status monitor watch each MON_NAME the way the
kernel does (SM_MON over TCP from loopback and a reserved port, procedure 16), and prints each
callback as a line: procedure, transport, source address and port, mon_name, state, priv.
"""
import subprocess
import sys

from holdfast_test import nsm, rpc, rpcbind
from holdfast_test.host import Host

VERSION = 3


def register(port, take):
    if take:  # as root, by rpcbind's local socket
        subprocess.run(["rpcinfo", "-d", str(nsm.NLM), str(VERSION)], check=True)
    with rpc.Udp("127.0.0.1", rpcbind.PORT) as client:
        for transport in ("udp", "tcp"):
            args = rpcbind.pmap(nsm.NLM, VERSION, transport, port)
            assert client.call(rpcbind.PROG, 2, rpcbind.SET, args).decode().bool(), "not registered"


def watch(names):
    """The address of priv is what the kernel puts there: it is opaque, here a number."""
    transport = "tcp" if rpcbind.getport(nsm.PROG, 1, "tcp") else "udp"
    port = rpcbind.getport(nsm.PROG, 1, transport)
    with nsm.connect("127.0.0.1", nsm.reserved(), transport, port=port) as monitor:
        for number, name in enumerate(names, 1):
            answer = monitor.mon(name, number.to_bytes(16, "big"), my_name="localhost", prog=nsm.NLM,
                                 vers=VERSION, proc=nsm.NLM_SM_NOTIFY)
            assert answer.ok, f"SM_MON of {name} failed"


def main(how, *names):
    with Host("127.0.0.1", rpcbind=()) as lockd:
        register(lockd.port, how == "take")
        watch(names)
        print("watching", flush=True)
        for number in range(1, 1000):
            with lockd.news:
                while len(lockd.calls) < number:
                    lockd.news.wait()
                call = lockd.calls[number - 1]
            status = nsm.Status.decode(call.decode())
            print(call.proc, call.transport, *call.source, status.mon_name.decode(), status.state,
                  int.from_bytes(status.priv, "big"), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

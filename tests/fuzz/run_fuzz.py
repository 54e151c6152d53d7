#!/usr/bin/env python3
"""run_fuzz.py PROGRAM TARGET [RUNS]: a fixed number of runs from a fixed seed, as one TAP case.

It starts from a few good inputs, made here or kept in the folder corpus (keep.py); what the fuzzer finds on its way is
thrown away. To look for longer, run the program itself on a folder of your own. For a target with a corpus,
then keep what is new:

    fuzz-requests -max_len=4096 -max_total_time=3600 mine
    tests/fuzz/keep.py fuzz-requests requests mine
"""
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))
import keep  # noqa: E402
from holdfast_test import rpc, rpcbind  # noqa: E402
from holdfast_test.xdr import Encoder  # noqa: E402

RUNS = 20000
RUNS_OF = {"requests": 1000, "world": 300}  # these do much more in one run


def marking():
    call = rpc.call_message(1, 100024, 1, 0)
    yield b"\3" + rpc.record(call)
    yield b"\0" + rpc.record(call, 4, 4, 20) + rpc.record(b"")
    yield b"\7" + rpc.mark(2**31 - 1)
    yield b"\1" + rpc.mark(0, False) * 70


def message():
    yield rpc.call_message(1, 100021, 4, 2, b"\0" * 40)
    yield rpc.call_message(1, 100021, 4, 2, cred=rpc.auth_sys(gids=range(3)), verf=(2, b"12345"))
    yield rpc.call_message(1, 100021, 4, 2, rpc_version=3)
    yield rpc.success_message(1, b"\0\0\0\1")
    yield Encoder().uint(1, 1, 1, 1, 5).bytes()


def arguments():
    lock = Encoder().string("client").opaque(b"handle").opaque(b"1@client").int(1)
    lock4, lock1 = (Encoder().raw(lock.bytes()).uhyper(0, 2**64 - 1).bytes(),
                    Encoder().raw(lock.bytes()).uint(0, 2**32 - 1).bytes())
    args = [rpcbind.pmap(100021, 4, "tcp", 4045), rpcbind.rpcb(100021, 4, "tcp", "0.0.0.0.15.205"),
            Encoder().string("client").int(3).fixed(b"p" * 16).bytes(),
            Encoder().string("a").string("b").int(1, 2, 3).fixed(b"p" * 16).bytes(),
            Encoder().opaque(b"cook").uint(1, 1, 2).opaque(b"oh").uhyper(0, 0).bytes(),
            Encoder().opaque(b"cook").string("c").opaque(b"fh").opaque(b"oh").uint(1, 1, 0).bytes()]
    for body in (lock4, lock1):
        args += [Encoder().opaque(b"cook").raw(body).bytes(),
                 Encoder().opaque(b"cook").bool(True).raw(body).bytes(),
                 Encoder().opaque(b"cook").bool(True, True).raw(body).bool(False).int(7).bytes()]
    for procedure in range(0, 90, 3):
        yield from (bytes([procedure + i % 3]) + body for i, body in enumerate(args))


def record():
    """As src/core/record.c writes them: kind, version, fields; 16-bit lengths."""
    addr = b"\4\0\0\0\0\xc0\0\2\1"
    numbers = struct.pack(">IQQQ", 3, 300000, 1700000000000, 2)
    yield b"\1\1" + struct.pack(">QB", 7, 1)
    yield (b"\2\1" + struct.pack(">QBBH", 1, 2, 2, 6) + b"client" + b"\1" + addr + addr + numbers +
           b"\0\2me" + struct.pack(">III", 100021, 3, 16) + b"p" * 16 + addr)
    yield (b"\3\1" + struct.pack(">QQ", 2, 1) + b"\0\7default" + b"\0\2fh" + b"\0\2oh" +
           struct.pack(">iQQBQQ", -1, 0, 2**64 - 1, 1, 1700000000000, 2))


def config():
    yield b"[server]\nname=a ; comment\nlisten=0.0.0.0, ::\nport=4045\n[share x]\nfh=3:00ff\n"
    yield b"[log]\n level=debug\n\tformat=json\n[grace]\nseconds=7\n[notify]\nattempts=2\n"
    yield b"[store]\nbackend=lmdb\npath=/x\ndsn=host=a\n[locks]\ndurable=no\n"
    yield b"[server]\nnonsense\nport=x\n" + b"n" * 250


def address():
    yield from (b"127.0.0.1", b"2001:db8::1", b"fe80::1%2", b"192.0.2.1.15.205", b"::1.0.111",
                b"::ffff:192.0.2.1")


def handle():
    """Of Ganesha on ext4, with padding; of nfsd, for each kind of fsid; of unfs3; and lines that ask for them."""
    ganesha = bytes.fromhex("430000011244fa74bd090b5848fc012d20a700462d7e1400")
    yield ganesha
    for kind, length in enumerate((8, 4, 12, 8, 8, 8, 16, 24)):
        yield bytes([1, 0, kind, 1]) + b"f" * length + b"inodegen"
    for header in (b"devi" + b"\7" + b"\0" * 7 + b"gene" + b"pass", b"devi" + b"\7\0\0\0" + b"gene"):
        yield header + b"\3ab\7"
    yield b"holdfast-names 1"
    yield b"path 17 " + ganesha.hex().encode()
    yield "/srv/a b\n\\ü".encode()


def keeper():
    """A hello, operations of each kind, results, what is held, a path."""
    handle = bytes.fromhex("430000011244fa74bd090b5848fc012d20a700462d7e1400")
    ops = [struct.pack("=QQQBBB5x64s", i, i, 10, i, i < 5, len(handle) * (i < 5), handle) for i in range(8)]
    yield struct.pack("=II", 1, 1) + struct.pack("=IIQQQQQQII", 1, 0, 7, 0, 0, 1, 1, 1, 1, 0)
    yield struct.pack("=II", 2, len(ops)) + b"".join(ops)
    yield struct.pack("=II", 3, 1) + struct.pack("=QIiQQQQQB7x", 1, 1, -1, 1, 2, 3, 0, 10, 2)
    yield struct.pack("=II", 4, 0)
    yield struct.pack("=II", 5, 1) + ops[2]
    yield struct.pack("=II", 6, 1) + struct.pack("=QII4096s", 1, 0, 0, b"/srv")


def answer():
    yield from (b"17 named /srv/a b", b"1 named /\\x0a\\xff", b"1 deleted", b"1 unknown", b"1 later", b"0 error text",
                "1 named /ü\u202e".encode())


def requests():
    return keep.read("requests")


def world():
    return keep.read("world")


SEEDS = {f.__name__: f for f in (marking, message, arguments, record, config, address, answer, handle, keeper,
                                 requests, world)}


def main():
    program, target = sys.argv[1:3]
    runs = sys.argv[3] if len(sys.argv) > 3 else RUNS_OF.get(target, RUNS)
    with tempfile.TemporaryDirectory(prefix="holdfast-fuzz-") as folder:
        for i, seed in enumerate(SEEDS[target]()):
            Path(folder, f"seed-{i}").write_bytes(seed)
        done = subprocess.run([program, f"-runs={runs}", "-seed=1", "-max_len=4096",
                               "-len_control=0", f"-artifact_prefix={folder}/", folder],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=os.environ)
        text = done.stdout.decode(errors="replace")
        crashes = [path for path in Path(folder).iterdir() if path.name.startswith("crash-")]
        inputs = [path.read_bytes().hex() for path in crashes]
    ran = re.search(r"Done (\d+) runs", text)
    good = done.returncode == 0 and ran
    print("1..1")
    print(f"{'ok' if good else 'not ok'} 1 - {target} survives {runs} inputs")
    if good:
        coverage = re.findall(r"cov: (\d+)", text)
        print(f"# note: {ran[1]} runs, {coverage[-1] if coverage else '?'} branches seen")
    else:
        print("\n".join("# " + line for line in [*text.splitlines()[-60:], *inputs]))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

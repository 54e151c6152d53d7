"""What passes the private network, captured by dumpcap and looked at by tshark."""
import json
import os
import shutil
import signal
import subprocess
import tempfile

from . import rpc, rpcbind, tap
from .daemon import PORT, wait_until


class Capture:
    """Everything that passes an interface, in a file, until the block ends."""

    def __init__(self, interface="lo", beyond="127.0.0.1"):
        self.interface = interface
        self.beyond = beyond  # an address that is reached through it

    def __enter__(self):
        if not shutil.which("dumpcap") or not shutil.which("tshark"):
            raise tap.Skip("tshark is not installed")
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-")
        self.path = os.path.join(self.folder.name, "lo.pcapng")
        self.dumpcap = subprocess.Popen(["dumpcap", "-q", "-i", self.interface, "-w", self.path],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE)
        self.wait_until_it_sees()
        return self

    def wait_until_it_sees(self):
        """Knocks until a packet is in the file: before that, what passes would be missed."""
        def seen():
            if self.dumpcap.poll() is not None:
                self.folder.cleanup()
                raise tap.Skip("capturing is not permitted: " +
                               self.dumpcap.stderr.read().decode().strip().splitlines()[-1])
            with rpc.Udp(self.beyond, 9) as knock:
                knock.send(b"knock")
            return os.path.exists(self.path) and os.path.getsize(self.path) > 500

        wait_until(seen, "dumpcap writes what it sees")

    def stop(self):
        """Waits until the last packet is in the file: a knock of its own kind."""
        with rpc.Udp(self.beyond, 9) as knock:
            knock.send(b"the last one")

        def seen():
            with open(self.path, "rb") as file:
                return b"the last one" in file.read()

        wait_until(seen, "the last packet is captured")
        self.dumpcap.send_signal(signal.SIGINT)
        self.dumpcap.wait()

    def packets(self, condition, *fields, ports=(PORT, rpcbind.PORT)):
        """What tshark makes of the packets for which the condition holds, one list of fields each."""
        command = ["tshark", "-r", self.path, "-Y", condition, "-T", "json"]
        for port in ports:  # whatever else the client's port may stand for
            command += ["-d", f"tcp.port=={port},rpc", "-d", f"udp.port=={port},rpc"]
        for field in ("frame.number", *fields):
            command += ["-e", field]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
        return [packet["_source"]["layers"] for packet in json.loads(done.stdout or "[]")]

    def __exit__(self, *_):
        if self.dumpcap.poll() is None:
            self.dumpcap.terminate()
            self.dumpcap.wait()
        self.folder.cleanup()

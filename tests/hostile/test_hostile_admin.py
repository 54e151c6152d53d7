#!/usr/bin/env python3
"""Attacks on the administration over HTTP: by a web page, by a local user, by slow connections (SEC-10)."""
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time

from holdfast_test import netns, nlm, rpc, tap
from holdfast_test.daemon import PORT, Daemon, wait_until
from world import ADMIN_PORT, SOCKET, Locker, ask, expect_problem, get

OURS = f"127.0.0.1:{ADMIN_PORT}"
FOREIGN_HOSTS = ("evil.example", f"evil.example:{ADMIN_PORT}", "localhost.evil.example",
                 f"localhost.evil.example:{ADMIN_PORT}", "127.0.0.1.evil.example", "server.example.evil.example",
                 "localhost:8049.evil.example", "notlocalhost", "[::1].evil.example", "198.51.100.1", "localhos")
LOOKS = ("/", "/healthz", "/metrics", "/api/v1/status", "/api/v1/locks", "/api/v1/openapi.json")


# ---- a web page in the operator's browser ----

@tap.test
def a_web_page_reads_by_dns_rebinding():
    """Given a stranger's name pointed at this host, nothing can be read under it: 403, whatever the path."""
    with Daemon():
        for host in FOREIGN_HOSTS:
            for path in LOOKS:
                expect_problem(ask("GET", path, Host=host), 403)
        # libmicrohttpd 1.0 (Debian 13) refuses an empty name itself, as a bad request.
        assert ask("GET", "/api/v1/locks", Host="").status in (400, 403)


@tap.test
def a_web_page_changes_by_a_forged_request():
    """A browser's Origin must be exactly ours, even with the token; names that begin with ours are not."""
    with Token() as token, Daemon(token.setting):
        for origin in ("http://evil.example", "null", f"https://{OURS}", f"http://{OURS}.evil.example",
                       "http://127.0.0.1", f"http://{OURS}0"):
            expect_problem(ask("POST", "/api/v1/grace/end", unix=False, Host=OURS, Origin=origin,
                               Authorization=f"Bearer {token.text}"), 403)
        for host in FOREIGN_HOSTS:
            expect_problem(ask("POST", "/api/v1/grace/end", unix=False, Host=host), 403)


class Token:
    text = "a-token-of-some-length"

    def __enter__(self):
        self.path = f"/run/holdfast-test-token-{os.getpid()}"
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(self.text + "\n")
        self.setting = f"admin.token_file={self.path}"
        return self

    def __exit__(self, *_):
        os.unlink(self.path)


# ---- a user of this host ----

@tap.test
def a_local_user_releases_over_tcp():
    """Given no token, an unprivileged user's DELETE from loopback is refused, and the lock stays."""
    as_nobody = """if True:
        import os, sys
        from world import ask
        os.setuid(65534)
        print(ask("DELETE", sys.argv[1], unix=False).status, ask("DELETE", sys.argv[1], unix=True).status)
    """
    with Daemon(), Locker("victim.example", "192.0.2.2") as victim:
        assert victim.lock(b"file") == "granted"
        lock = get("locks")["locks"][0]["id"]
        done = subprocess.run([sys.executable, "-c", as_nobody, f"/api/v1/locks/{lock}"], stdout=subprocess.PIPE,
                              check=True)
        assert done.stdout.split() == [b"403", b"403"], done.stdout
        assert get("status")["counts"]["locks"] == 1


@tap.test
def a_local_user_searches_for_file_names():
    """ADM-09: an unprivileged user, who may lock any handle from loopback, learns neither the paths nor the handles of
    locked files, by the unix socket or by TCP; and its lists ask the namer nothing."""
    as_nobody = """if True:
        import os, sys
        from world import ask
        os.setuid(65534)
        for unix in (True, False):
            for path in ("locks", "waiters", "reservations", "locks?sort=-held", "locks?limit=1"):
                sys.stdout.write(ask("GET", "/api/v1/" + path, unix=unix).body.decode())
            for path in ("locks?sort=file", "locks?file=secret", "locks?path=/home/victim/secret.txt", "waiters?file=6",
                         "reservations?path=/home/victim/secret.txt"):
                assert ask("GET", "/api/v1/" + path, unix=unix).status == 403, path
            assert ask("GET", "/api/v1/backup", unix=unix).status == 403
    """
    with tempfile.NamedTemporaryFile("w", suffix=".map") as paths:
        paths.write(b"victim's handle".hex() + " /home/victim/secret.txt\n")
        paths.flush()
        os.chmod(paths.name, 0o644)
        with Daemon(f"admin.fh_map={paths.name}"), Locker("victim.example", "192.0.2.2") as victim:
            assert victim.lock(b"victim's handle") == "granted"
            assert victim.lock(b"victim's handle", svid=2, block=True) == "blocked"
            assert victim.share(b"victim's handle") == "granted"
            assert get("locks")["locks"][0]["path"] == "/home/victim/secret.txt"
            done = subprocess.run([sys.executable, "-c", as_nobody], stdout=subprocess.PIPE, check=True)
            assert b"victim.example" in done.stdout
            for secret in (b"secret", b"/home", b"victim's handle".hex().encode()):
                assert secret not in done.stdout, done.stdout


# ---- slow connections ----

class Slow:
    """So many connections, each with half a request, that send a byte now and then; or take no answer."""

    def __init__(self, count, start=b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "):
        self.sockets = []
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", ADMIN_PORT))
            sock.sendall(start)
            self.sockets.append(sock)

    def __enter__(self):
        return self

    def drip(self):
        for sock in self.sockets:
            try:
                sock.send(b"x", socket.MSG_DONTWAIT)
            except OSError:
                pass  # it was cut

    def open_ones(self):
        """How many the daemon has not cut."""
        def is_open(sock):
            try:
                return sock.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) != b""
            except BlockingIOError:
                return True
            except OSError:
                return False
        return sum(map(is_open, self.sockets))

    def __exit__(self, *_):
        for sock in self.sockets:
            sock.close()


def quick_look():
    start = time.monotonic()
    assert ask("GET", "/healthz").status == 200
    took = time.monotonic() - start
    assert took < 2, f"/healthz took {took:.1f} s"


@tap.test
def seventy_slow_requests_keep_others_out():
    """Given 70 and then 200 connections with half a request each, /healthz is answered at once, every time."""
    with Daemon(), Slow(70) as seventy, Slow(130):
        for _ in range(5):
            quick_look()
            seventy.drip()


@tap.test
def seventy_slow_readers_keep_others_out():
    """The same with peers that ask for much and take nothing of the answer."""
    asking = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200
    with Daemon(), Slow(70, asking):
        for _ in range(5):
            quick_look()


@tap.test
def a_connection_that_drips_for_ever():
    """Given connections that send a byte a second, they are cut after half a minute, though never idle."""
    with Daemon(), Slow(3) as slow:
        start = time.monotonic()

        def cut():
            time.sleep(1)
            slow.drip()
            return slow.open_ones() == 0

        while not cut():
            assert time.monotonic() - start < 45, "still open"
        assert time.monotonic() - start > 20, "cut too early for a slow line"


@tap.test
def two_thousand_connections_at_once():
    """Given connections that come faster than they can be served, the daemon has bounded numbers of them open."""
    with Daemon() as daemon:
        def open_files():
            return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

        before = open_files()
        with Slow(1500) as slow:
            wait_until(lambda: slow.open_ones() <= 200, "most are cut")
            assert open_files() - before <= 200, open_files() - before
            quick_look()


@tap.test
def new_connections_cut_an_answer():
    """SEC-10: given a reader in the middle of a list, hundreds of new connections cost it nothing: those without a
    request give way first."""
    with Daemon(), Locker("victim.example", "192.0.2.2") as victim:
        lock_many(victim, 5000)
        for unix in (False, True):
            reader = connect(unix)
            reader.sendall(b"GET /api/v1/locks?limit=5000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            text = reader.recv(1000)
            others = []
            for _ in range(30):
                others += [connect(unix) for _ in range(10)]
                text += reader.recv(20000)
                time.sleep(0.02)
            while piece := reader.recv(1 << 20):
                text += piece
            assert text.endswith(b"0\r\n\r\n") and text.count(b'"acquired_at"') == 5000, (unix, len(text), text[-100:])
            for sock in (reader, *others):
                sock.close()


def connect(unix):
    if not unix:
        return socket.create_connection(("127.0.0.1", ADMIN_PORT))
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(SOCKET)
    return sock


@tap.test
def sixty_lists_at_once_keep_the_loop():
    """ADM-08: given 60 connections that read long lists without end, another client's calls wait for a bounded piece of
    work, not for one piece of each list."""
    with Daemon(), Locker("victim.example", "192.0.2.2") as victim, Locker("other.example", "192.0.2.3") as other:
        lock_many(victim, 10000)
        stop = threading.Event()
        threads = [threading.Thread(target=read_lists, args=(stop,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        took = []
        for _ in range(200):
            start = time.monotonic()
            other.client.call(nlm.PROG, 4, nlm.NULL)
            took.append(time.monotonic() - start)
            time.sleep(0.005)
        stop.set()
        for thread in threads:
            thread.join()
        took.sort()
        tap.note(f"60 lists at once: a call takes {took[100] * 1e3:.1f} ms in the middle, {took[190] * 1e3:.1f} ms at 95 %")
        assert took[100] < 0.012, took[100]


def read_lists(stop):
    """Twenty connections; each asks for the whole list again as soon as it has come."""
    asking = b"GET /api/v1/locks?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    socks = [connect(False) for _ in range(20)]
    poll = select.poll()
    for sock in socks:
        sock.sendall(asking)
        poll.register(sock, select.POLLIN)
    by_fd = {sock.fileno(): sock for sock in socks}
    while not stop.is_set():
        for fd, _ in poll.poll(100):
            data = by_fd[fd].recv(1 << 18)
            if data.endswith(b"0\r\n\r\n"):
                by_fd[fd].sendall(asking)
    for sock in socks:
        sock.close()


# ---- long lists ----

def lock_many(locker, count, at_once=500):
    """So many locks on as many files, by several owners, without waiting for each."""
    for start in range(0, count, at_once):
        calls = b""
        for n in range(start, start + at_once):
            lock = nlm.Lock(locker.name, b"file %06d" % n, b"owner", 1 + n // 5000)
            args = nlm.ARGS[nlm.LOCK](4, b"%04x" % (n & 0xffff), lock, state=1)
            calls += rpc.record(rpc.call_message(rpc.new_xid(), nlm.PROG, 4, nlm.LOCK, args))
        locker.client.sock.sendall(calls)
        for _ in range(at_once):
            assert locker.client.reply().decode().opaque() is not None


@tap.test
def a_sorted_list_of_locks_that_go_while_it_is_read():
    """ADM-08: given a sorted list that is not read on until all its locks are gone, no call of another client waits
    for it: a row that is gone costs one look at its place, and each piece of the list has its bound."""
    with Daemon("limits.locks_per_owner=10000"), Locker("victim.example", "192.0.2.2") as victim, \
            Locker("other.example", "192.0.2.3") as other:
        lock_many(victim, 30000)
        assert other.lock(b"the last place is taken") == "granted"
        client, = (row["id"] for row in get("clients")["clients"] if row["name"] == "victim.example")
        with socket.socket(socket.AF_UNIX) as reader:  # its buffers hold a small part of the list only
            reader.connect(SOCKET)
            reader.sendall(b"GET /api/v1/locks?sort=-held&limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in reader.recv(64)
            time.sleep(1)  # it has collected its rows, and waits for the reader
            assert ask("DELETE", f"/api/v1/clients/{client}").status == 200
            assert get("status")["counts"]["locks"] == 1
            longest = 0
            reader.settimeout(0.05)
            end = time.monotonic() + 5
            text = b""
            while time.monotonic() < end and b'"total":' not in text[-4096:]:
                try:
                    text += reader.recv(65536)
                except TimeoutError:
                    pass
                start = time.monotonic()
                other.client.call(nlm.PROG, 4, nlm.NULL)
                longest = max(longest, time.monotonic() - start)
            assert b'"total":30001' in text[-4096:], text[-300:]
            assert longest < 0.5, f"a call waited {longest:.2f} s"


if __name__ == "__main__":
    netns.enter()
    tap.main()

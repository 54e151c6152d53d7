#!/usr/bin/env python3
"""Attacks on the administration over HTTP: by a web page, by a local user, by slow connections (SEC-10)."""
import os
import socket
import subprocess
import sys
import time

from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon, wait_until
from world import ADMIN_PORT, Locker, ask, expect_problem, get

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
        expect_problem(ask("GET", "/api/v1/locks", Host=""), 403)


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


if __name__ == "__main__":
    netns.enter()
    tap.main()

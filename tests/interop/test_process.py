#!/usr/bin/env python3
"""The process: signals, systemd's notifications, the command line, the log (CFG-01, SPEC section 6)."""
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import netns, rpc, tap
from holdfast_test.daemon import PORT, WAIT_S, Daemon, program, run
from holdfast_test.xdr import Encoder

ROOT = Path(__file__).parents[2]
NSM = 100024


class File:
    """A configuration file that a test can rewrite."""

    def __init__(self, text):
        self.text = text

    def __enter__(self):
        handle, self.path = tempfile.mkstemp(prefix="holdfast-", suffix=".conf")
        os.close(handle)
        self.write(self.text)
        return self

    def write(self, text):
        with open(self.path, "w") as file:
            file.write(text)

    def __exit__(self, *_):
        os.unlink(self.path)


class NotifySocket:
    """What systemd would listen on."""

    def __enter__(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind("\0holdfast-test-notify")
        self.sock.settimeout(WAIT_S)
        self.env = {"NOTIFY_SOCKET": "@holdfast-test-notify"}
        return self

    def wait_for(self, word):
        """The first message that holds the word; others before it are passed over."""
        while word not in (message := self.sock.recv(4096).decode()).split("\n"):
            pass
        return message

    def __exit__(self, *_):
        self.sock.close()


# ---- signals ----

@tap.test
def sigterm_and_sigint_stop_it():
    """Given a serving daemon with an open connection, either signal ends it with status 0."""
    for number in (signal.SIGTERM, signal.SIGINT):
        daemon = Daemon().start()
        with rpc.Tcp("127.0.0.1", PORT) as client:
            client.call(NSM, 1, 0)
            assert daemon.stop(number) == 0
            assert client.is_closed()
        assert "stopped" in daemon.log()
        daemon.check_sanitizers()


@tap.test
def a_restart_takes_the_same_port_at_once():
    """Given connections that were open at the stop, the next start need not wait for them to expire."""
    for _ in range(3):
        with Daemon(), rpc.Tcp("127.0.0.1", PORT) as client:
            client.call(NSM, 1, 0)


@tap.test
def a_signal_during_the_start_is_no_crash():
    """Given a SIGTERM as soon as it runs, it ends by that signal or with status 0, and logs no error."""
    for _ in range(10):
        daemon = Daemon().start(wait=False)
        assert daemon.stop() in (0, -signal.SIGTERM)
        daemon.check_sanitizers()


@tap.test
def a_reset_while_answers_are_written_does_not_end_it():
    """CVE-2004-1014: a peer that closes its connection raises SIGPIPE in a process that writes to it."""
    calls = rpc.record(rpc.call_message(1, NSM, 1, 0)) * 1000
    with Daemon():
        for _ in range(20):
            client = rpc.Tcp("127.0.0.1", PORT)
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.send_raw(calls)
            client.close()
        with rpc.Tcp("127.0.0.1", PORT) as client:
            client.call(NSM, 1, 0)


@tap.test
def sighup_changes_what_can_change():
    """CFG-01: given an edited file, SIGHUP applies the log's format and names the keys that need a restart."""
    with File("[log]\nlevel=info\nformat=text\n") as file, Daemon(config=file.path) as daemon:
        file.write("[log]\nlevel=debug\nformat=json\n[grace]\nseconds=7\n")
        daemon.send_signal(signal.SIGHUP)
        told = json.loads(daemon.wait_for_log("configuration reloaded"))
        assert told["level"] == "info"
        assert "grace.seconds" in daemon.wait_for_log("needs a restart")
        file.write("[log]\nlevel=error\n")
        daemon.send_signal(signal.SIGHUP)
        with rpc.Tcp("127.0.0.1", PORT) as client:
            client.call(NSM, 1, 0)
    assert "stopped" not in daemon.log(), "an info line, at level error"


@tap.test
def a_bad_file_at_sighup_keeps_it_running():
    """CFG-01: given a broken file, SIGHUP logs what is wrong and where, and the daemon serves on as before."""
    with File("[log]\nlevel=info\n") as file, Daemon(config=file.path) as daemon:
        file.write("[log]\nlevel=loud\n")
        daemon.send_signal(signal.SIGHUP)
        line = daemon.wait_for_log("configuration not reloaded")
        assert f"{file.path}:2: log.level" in line, line
        with rpc.Tcp("127.0.0.1", PORT) as client:
            client.call(NSM, 1, 0)
        file.write("[log]\nlevel=info\n")
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log("configuration reloaded")


# ---- systemd ----

@tap.test
def systemd_is_told_of_each_step():
    """READY once it serves, RELOADING then READY at SIGHUP, STOPPING at the end (sd_notify(3))."""
    with NotifySocket() as systemd:
        daemon = Daemon(env=systemd.env).start(wait=False)
        systemd.wait_for("READY=1")
        with rpc.Tcp("127.0.0.1", PORT) as client:
            client.call(NSM, 1, 0)
        daemon.send_signal(signal.SIGHUP)
        assert re.search(r"MONOTONIC_USEC=\d+", systemd.wait_for("RELOADING=1"))
        systemd.wait_for("READY=1")
        daemon.send_signal(signal.SIGTERM)
        systemd.wait_for("STOPPING=1")
        assert daemon.wait() == 0


@tap.test
def the_watchdog_is_fed():
    """Given WATCHDOG_USEC, it says WATCHDOG=1 again and again; without, never."""
    with NotifySocket() as systemd:
        with Daemon(env=systemd.env | {"WATCHDOG_USEC": "100000"}):
            for _ in range(3):
                systemd.wait_for("WATCHDOG=1")
        systemd.wait_for("STOPPING=1")
        with Daemon(env=systemd.env):
            assert "WATCHDOG=1" not in systemd.wait_for("READY=1")


class Journal:
    """The stream that systemd gives a service: JOURNAL_STREAM names its device and inode."""

    def __enter__(self):
        self.ours, self.theirs = socket.socketpair()
        self.theirs.settimeout(WAIT_S)
        stat = os.fstat(self.ours.fileno())
        self.env = os.environ | {"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}
        return self

    def run(self, *arguments):
        """Runs the daemon until it ends by itself; its lines as the journal takes them: (priority, text)."""
        done = subprocess.run([program(), *arguments], env=self.env, stdin=subprocess.DEVNULL, timeout=WAIT_S,
                              stdout=subprocess.DEVNULL, stderr=self.ours)
        self.ours.close()
        text = b"".join(iter(lambda: self.theirs.recv(65536), b"")).decode()
        return done.returncode, [self.split(line) for line in text.splitlines()]

    @staticmethod
    def split(line):
        match = re.match(r"<([0-7])>(.*)", line)  # sd-daemon(3); 6 (info) where there is none
        return (int(match[1]), match[2]) if match else (6, line)

    def __exit__(self, *_):
        self.ours.close()
        self.theirs.close()


DOES_NOT_START = [word for key in ("store.backend=memory", "rpcbind.mode=none", "server.user=", "server.name=a.example",
                                   "server.listen=127.0.0.1,198.51.100.1") for word in ("--set", key)]


@tap.test
def errors_reach_the_journal_as_errors():
    """Given the journal as standard error: journalctl -p err shows errors, a wrong configuration among them, and
    no line repeats the time."""
    with Journal() as journal:
        status, lines = journal.run(*DOES_NOT_START)
    assert status == 1 and len(lines) >= 3, lines
    assert [p for p, text in lines if "cannot listen" in text] == [3], lines
    assert [p for p, text in lines if "the store is in memory" in text] == [4], lines
    assert [p for p, text in lines if "listening" in text] == [6], lines
    assert not [text for _, text in lines if re.search(r"\d{4}-\d\d-\d\dT", text)], lines
    with Journal() as journal:
        status, lines = journal.run("--set", "server.port=x")
    assert status == 2 and lines[0][0] == 3 and "server.port" in lines[0][1], lines


@tap.test
def a_json_log_in_the_journal_is_json_after_the_priority():
    """Given log.format=json and the journal: the priority stands before the object, which keeps its time."""
    with Journal() as journal:
        _, lines = journal.run(*DOES_NOT_START, "--set", "log.format=json")
    for priority, text in lines:
        assert priority == {"error": 3, "warn": 4, "info": 6}[json.loads(text)["level"]], text
        assert "time" in json.loads(text)


@tap.test
def another_stream_than_the_journal_gets_plain_lines():
    """Given a JOURNAL_STREAM that names another stream (the daemon's output was redirected): time, no priority."""
    daemon = Daemon(env={"JOURNAL_STREAM": "1:1"}).start()
    daemon.stop()
    assert re.match(r"\d{4}-\d\d-\d\dT", daemon.wait_for_log("ready")), daemon.log()


# ---- the command line ----

@tap.test
def help_and_version_say_what_it_is():
    """On standard output, with status 0."""
    for option in ("--help", "-h"):
        status, out, err = run(option)
        assert status == 0 and err == "" and "--set" in out and "--check-config" in out
    for option in ("--version", "-V"):
        status, out, err = run(option)
        assert status == 0 and err == "" and re.fullmatch(r"holdfastd \d+\.\d+\.\d+\S*\n", out)


@tap.test
def bad_usage_is_told_on_standard_error():
    """CFG-01: an unknown option, a stray argument, a bad setting: status 2 and a line that names it."""
    for arguments, word in ((["--frobnicate"], "frobnicate"), (["stray"], "stray"),
                            (["--set", "server.prot=1"], "server.prot"),
                            (["--set", "nonsense"], "nonsense"),
                            (["--config", "/nonexistent"], "/nonexistent"),
                            (["--set", "grace.mode=conflict", "--set", "locks.durable=no"], "grace")):
        status, out, err = run(*arguments)
        assert status == 2 and out == "" and word in err, f"{arguments}: {status} {out} {err}"


@tap.test
def check_config_checks():
    """CFG-01: good: status 0. Bad: status 2, with file, line and key. Nothing is opened for it."""
    with File("[server]\nport=1\n") as file:
        assert run("--config", file.path, "--check-config")[0] == 0
        file.write("[server]\n\nport=x\n")
        status, _, err = run("--config", file.path, "--check-config")
        assert status == 2 and f"{file.path}:3: server.port" in err


@tap.test
def check_config_checks_the_files_it_names():
    """CFG-01, ADM-09: a token, map or connection string that cannot be used fails the check; a connection string also the
    start, with status 3. Without a token or map administration goes on, and locks are served."""
    keys = {"admin.token_file": "0123456789abcdef\n", "admin.fh_map": "00ff /a\n", "store.dsn_file": "dbname=x\n"}
    for key, good in keys.items():
        with File(good) as file:
            sets = ("--set", f"{key}={file.path}")
            assert run(*sets, "--check-config")[0] == 0, key
            with File("not a map\n" if key == "admin.fh_map" else good) as other:
                if key != "admin.fh_map":
                    os.chmod(other.path, 0o644)
                for path in (other.path, "/nonexistent/file"):
                    wrong = ("--set", f"{key}={path}", "--set", "rpcbind.mode=none", "--set", "server.user=")
                    status, out, err = run(*wrong, "--check-config")
                    assert status == 2 and path in err and "good" not in out, f"{key}: {status} {out} {err}"
                    if key != "store.dsn_file":
                        with Daemon(f"{key}={path}") as daemon:
                            assert path in daemon.log(), daemon.log()
                        continue
                    status, _, err = run(*wrong, "--set", "store.backend=postgres")
                    assert status == 3 and path in err and "until an operator repairs it" in err, f"{key}: {status} {err}"


@tap.test
def check_config_checks_as_the_service_would():
    """ADM-10: as root, a file that only root can read fails the check, for the service runs as another user; a connection
    string that libpq does not understand fails it too, and is not shown."""
    keys = {"admin.token_file": "0123456789abcdef\n", "admin.read_token_file": "0123456789abcdef\n", "admin.fh_map": "00ff /a\n",
            "store.dsn_file": "dbname=x\n"}
    for key, good in keys.items():
        with File(good) as file:
            os.chmod(file.path, 0o600)
            sets = ("--set", f"{key}={file.path}", "--check-config", "--set")
            status, _, err = run(*sets, "server.user=nobody")
            assert status == 2 and file.path in err and "nobody, cannot read it" in err, (key, status, err)
            assert run(*sets, "server.user=")[0] == 0, key
    for dsn, good in (("host=db dbname=x", True), ("postgresql://db/x", True), ("host=db secret", False), ("nonsense=1", False)):
        status, _, err = run("--set", "store.backend=postgres", "--set", f"store.dsn={dsn}", "--check-config")
        assert status == (0 if good else 2) and "secret" not in err, (dsn, status, err)


@tap.test
def check_config_checks_the_hook():
    """CFG-01: cluster.hook exists, is a program with an absolute path, and can be executed; else the check says which."""
    with File("#!/bin/sh\n") as file:
        def check(hook):
            return run("--set", "cluster.addresses=192.0.2.9", "--set", f"cluster.hook={hook}", "--check-config")

        os.chmod(file.path, 0o755)
        status, out, err = check(file.path)
        assert status == 0 and "good" in out and err == "", f"{status} {out} {err}"
        os.chmod(file.path, 0o644)
        for hook, word in ((file.path, "not executable"), ("/nonexistent/hook", "No such file"),
                           (os.path.dirname(file.path), "no regular file"), ("bin/hook", "not an absolute path")):
            status, out, err = check(hook)
            assert status == 2 and word in err and "good" not in out, f"{hook}: {status} {out} {err}"
            assert hook in err or hook == "bin/hook", err


@tap.test
def print_config_prints_what_can_be_read_again():
    """CFG-01: given settings, the printed file gives the same settings again; --set wins over the file."""
    status, first, _ = run("--set", "server.port=5045", "--set", "share home.fh=4:00ff",
                           "--print-config")
    assert status == 0 and "port=5045\n" in first and "[share home]\nfh=4:00ff\n" in first
    with File(first) as file:
        assert run("--config", file.path, "--print-config")[1] == first
        changed = run("--config", file.path, "--set", "server.port=77", "--print-config")[1]
        assert changed == first.replace("port=5045\n", "port=77\n")


@tap.test
def a_taken_port_is_reported():
    """Given a port that another process has, the daemon exits with a non-zero status and advice."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as other:
            other.bind(("127.0.0.1", 5045))
            if kind == socket.SOCK_STREAM:
                other.listen()
            daemon = Daemon("server.listen=127.0.0.1", "server.port=5045").start(wait=False)
            assert daemon.wait() not in (0, 2)
            line = daemon.wait_for_log("cannot listen")
            assert "127.0.0.1:5045" in line and "server.port" in line, line
            daemon.check_sanitizers()


@tap.test
def an_address_of_another_host_is_reported():
    """Given a server.listen that this host does not have: non-zero, and the address is named."""
    daemon = Daemon("server.listen=198.51.100.1").start(wait=False)
    assert daemon.wait() not in (0, 2)
    assert "198.51.100.1" in daemon.wait_for_log("cannot listen")
    daemon.check_sanitizers()


# ---- the log ----

@tap.test
def every_line_of_a_json_log_parses():
    """Given log.format=json, each line is an object with time, level and event."""
    with Daemon("log.format=json", "log.level=debug", "rpcbind.mode=embedded") as daemon:
        with rpc.Udp("127.0.0.1", PORT) as client:
            client.call(NSM, 1, 0)
    lines = daemon.lines[:-1]
    assert len(lines) >= 4
    for line in lines:
        entry = json.loads(line)
        assert {"time", "level", "event"} <= entry.keys()


@tap.test
def every_line_is_explained():
    """docs/operating/OPERATORS.md explains each line from info up, and names no line that does not exist."""
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.c"))
    sources = re.sub(r'"\n\s*"', "", sources)  # a long text stands on two lines
    lines = set(re.findall(r'hf_log(?:_limited)?\(\s*HF_LOG_(?:ERROR|WARN|INFO),\s*"([^"]+)"', sources))
    lines |= set(re.findall(r'\{HF_LOG_(?:ERROR|WARN|INFO),\s*"([^"]+)"', sources))  # daemon/events.c
    table = (ROOT / "docs/operating/OPERATORS.md").read_text().split("## The log")[1].split("\n## ")[0]
    assert len(lines) > 30 and not (unsaid := {line for line in lines if line not in table}), unsaid
    named = {re.sub(r" \w+=.*| ….*", "", words) for row in re.findall(r"^\| (`.*?) \|", table, re.M)
             for words in re.findall("`([^`]+)`", row)}
    assert not (gone := {name for name in named if name not in sources}), gone


@tap.test
def every_key_is_explained():
    """CFG-01: holdfast.conf(5) and SPEC section 6 name each key with its default, and no key that does not exist; what is marked
    as live is live."""
    host = ("--set", "server.name=HOST", "--set", "cluster.node=HOST")
    printed = run("--config", "/dev/null", *host, "--print-config")[1]
    keys = {(section, key): {"HOST": "the host name", "": "empty"}.get(value, value)
            for section, text in re.findall(r"^\[(\w+)\]\n((?:.+\n)+)", printed, re.M)
            for key, value in re.findall(r"^(\w+)=(.*)$", text, re.M)}
    manual, live = {}, set()
    for part in (ROOT / "man/holdfast.conf.5").read_text().split("\n.SH [")[1:]:
        section = part.split("]")[0]
        for heading in re.findall(r"^\.TP\n\.BR (\w.*\(.*)$", part, re.M):
            found = {(section, key): default for key, default in re.findall(r'(\w+) " \(([^)]*)\)', heading)}
            manual |= found
            live |= set(found) if "(live)" in heading or re.search(r"All (keys|limits) are\n\.BR \(live\)", part) else set()
    assert manual == keys, set(manual.items()) ^ set(keys.items())
    entries = re.findall(r'\{"(\w+)", "(\w+)",(.*?)\},\n', (ROOT / "src/daemon/config_keys.c").read_text(), re.S)
    assert live == {(section, key) for section, key, rest in entries if ".live = true" in rest}, live
    table = (ROOT / "docs/reference/SPEC.md").read_text().split("## 6. Configuration")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `\[(\w+)\]` \| (.*) \|$", table, re.M))
    for (section, key), default in keys.items():
        word = {"the host name": "(the host name)", "empty": ""}.get(default, default)
        assert f"`{key}`{' ' if word else ''}{word}" in rows[section], f"SPEC section 6: [{section}] {key} {default}"
    for section, row in rows.items():
        said = set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", row)))
        assert not (gone := {key for key in said if (section, key) not in keys}), (section, gone)


@tap.test
def text_from_outside_cannot_forge_a_line():
    """Given a name with a line break, escapes and quotes, it stays within its field, in both formats."""
    name = 'x\nerror forged="1" \x1b[31m\\ \u202e'
    for log_format in ("text", "json"):
        with Daemon(f"admin.fh_map=/{name}", f"log.format={log_format}") as daemon:
            pass
        line = daemon.wait_for_log("cannot use admin.fh_map")
        assert "\x1b" not in line and "\u202e" not in line and "forged" in line
        assert not [entry for entry in daemon.lines if entry.startswith("error")]
        if log_format == "json":
            assert json.loads(line)["file"].startswith("/x\nerror")


NASTY = b'x\nerror forged="1" \x1b[31m%s%n\\ \xff'


@tap.test
def names_from_the_network_are_escaped():
    """CVE-2000-0666: given a crash notice with a hostile name, the log shows it escaped, on one line."""
    notice = Encoder().opaque(NASTY).int(3).bytes()
    for log_format in ("text", "json"):
        with Daemon(f"log.format={log_format}", "log.level=debug") as daemon:
            with rpc.Udp("127.0.0.1", PORT) as client:
                client.call(NSM, 1, 6, notice)
            line = daemon.wait_for_log("forged")
        assert "\\u000a" in line and "\\u001b" in line and "%s%n" in line, line
        assert "\x1b" not in line
        assert not [entry for entry in daemon.lines if entry.startswith("error")]


@tap.test
def lines_a_peer_can_provoke_are_limited():
    """Given 2,000 crash notices from an unknown host, the log has a few lines and a count of the rest."""
    notice = Encoder().string("stranger").int(3).bytes()
    with Daemon() as daemon:
        with rpc.Tcp("192.0.2.1", PORT, source=("192.0.2.2", 0)) as client:
            for _ in range(2000):
                client.call(NSM, 1, 6, notice)
        daemon.wait_for_log("stranger")
    lines = [line for line in daemon.lines if "stranger" in line]
    assert len(lines) <= 50, f"{len(lines)} lines"


if __name__ == "__main__":
    netns.enter()
    tap.main()

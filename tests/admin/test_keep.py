#!/usr/bin/env python3
"""Keeping a store: verified offline, backed up while it serves, restored elsewhere, refused when a part is missing."""
import os
import pwd
import re
import stat
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_test.daemon import DEFAULTS, program, run
from holdfast_test.store import Server
from world import Locker, ask, expect_problem, get

CTL = os.environ.get("HOLDFASTCTL", "holdfastctl")
NOBODY = pwd.getpwnam("nobody")
LOCKS = 300


def ctl(*arguments, user=None):
    done = subprocess.run([CTL, *arguments], stdin=subprocess.DEVNULL, timeout=60, user=user,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def tool(path, *arguments):
    """The daemon as a tool on the store in a directory: (exit status, standard output, standard error)."""
    sets = [word for each in (*DEFAULTS, "store.backend=lmdb", f"store.path={path}") for word in ("--set", each)]
    return run(*sets, *arguments)


def figures(text):
    """What --verify-store and --restore print: a name and a figure on each line."""
    return dict(re.findall(r"^(\w+) +(\S+)", text, re.MULTILINE))


def fh(number):
    return b"file-%d-of-keep" % number


def serve(path=None):
    return Server("server.listen=192.0.2.1,127.0.0.1", "notify.timeout=1", path=path)


def take_locks(client, count=LOCKS):
    for i in range(count):
        assert client.lock(fh(i)) == "granted"


# ---- verify ----

@tap.test
def a_store_is_verified_offline():
    """After a kill the figures and the digest are those of the next start, and no file has changed."""
    with serve() as server:
        with Locker("alpha.example", "192.0.2.3") as alpha:
            take_locks(alpha)
        server.kill()
        before = {p.name: p.read_bytes() for p in Path(server.path).iterdir() if p.name != "holdfast.lock"}
        status, out, err = tool(server.path, "--verify-store")
        assert (status, err) == (0, ""), (status, out, err)
        found = figures(out)
        assert found["clients"] == "1" and found["locks"] == str(LOCKS) and "is good" in out, out
        assert before == {p.name: p.read_bytes() for p in Path(server.path).iterdir() if p.name != "holdfast.lock"}
        server.start()
        line = server.daemon.wait_for_log("store loaded")
        assert f"digest={found['digest']}" in line, (line, out)


@tap.test
def a_store_in_use_or_damaged_is_not_good():
    """Each is said on standard error, with exit status 1: in use, damaged, a part missing, not there. The daemon itself
    ends with 3, so that systemd does not start it again: only an operator can help."""
    with serve() as server:
        status, _, err = tool(server.path, "--verify-store")
        assert status == 1 and f"in use by another holdfastd (process {server.daemon.process.pid})" in err, err
        server.stop()
        data = Path(server.path, "data.mdb")
        good = data.read_bytes()
        data.write_bytes(good[:9000])
        status, _, err = tool(server.path, "--verify-store")
        assert status == 1 and "damaged" in err, err
        data.write_bytes(good)
        Path(server.path, "journal").unlink()
        status, _, err = tool(server.path, "--verify-store")
        assert status == 1 and "journal is missing" in err, err
        status, _, err = tool(server.path + "/not/there", "--verify-store")
        assert status == 1 and "there is no store" in err, err
        assert not os.path.exists(server.path + "/not")
        data.unlink()
        status, _, err = tool(server.path, "--verify-store")
        assert status == 1, err
        Path(server.path, "journal").touch()
        server.start(wait=False)
        assert server.daemon.wait() == 3 and "data.mdb is missing" in server.daemon.log()


@tap.test
def a_store_is_verified_with_the_rights_of_its_owner():
    """Given a store that a user owns, whose directory has root's group, and in it a file that only root and this group may read, then
    root verifies the store as that user, with the groups of that user, and cannot read the file."""
    with serve() as server:
        with Locker("alpha.example", "192.0.2.3") as alpha:
            take_locks(alpha)
        server.stop()
        os.chown(server.path, NOBODY.pw_uid, 0)
        for path in Path(server.path).iterdir():
            os.chown(path, NOBODY.pw_uid, 0)
        status, _, err = tool(server.path, "--verify-store")
        assert status == 0, err
        data = Path(server.path, "data.mdb")
        os.chown(data, 0, 0)
        data.chmod(0o660)
        status, out, err = tool(server.path, "--verify-store")
        assert status == 1 and "is good" not in out and "permission denied" in err, (status, out, err)


# ---- backup and restore ----

@tap.test
def a_backup_is_restored_elsewhere():
    """Taken while the daemon serves, it holds all locks; a new server begins an epoch its clients have not seen, and
    they reclaim."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, serve() as server:
        file = folder + "/backup"
        with Locker("alpha.example", "192.0.2.3") as alpha:
            take_locks(alpha)
            assert b"holdfast_backup_last_timestamp_seconds" not in ask("GET", "/metrics").body
            status, out, err = ctl("backup", file)
            assert (status, err) == (0, ""), (out, err)
            assert stat.S_IMODE(os.stat(file).st_mode) == 0o600 and os.listdir(folder) == ["backup"]
            assert b"\nholdfast_backup_last_timestamp_seconds 1" in ask("GET", "/metrics").body
            assert alpha.lock(b"later") == "granted"
        epoch = int(get("status")["epoch"])
        server.kill()
        other = folder + "/store"
        status, out, err = tool(other, "--restore", file)
        assert (status, err) == (0, ""), (status, out, err)
        restored = figures(out)
        assert restored["locks"] == str(LOCKS), out
        found = figures(tool(other, "--verify-store")[1])
        assert (found["locks"], found["digest"]) == (str(LOCKS), restored["digest"]), (found, restored)
        with serve(other):
            status = get("status")
            assert int(status["epoch"]) > epoch + 100 and status["grace"]["active"], status
            with Locker("alpha.example", "192.0.2.3") as alpha:
                assert alpha.lock(fh(7), reclaim=True) == "granted"
            with Locker("beta.example", "192.0.2.2") as beta:
                assert beta.lock(fh(8)) != "granted"


@tap.test
def a_store_that_is_not_empty_is_left_alone():
    """So is one in use; and a backup that is damaged, cut short or something else is refused."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, serve() as server:
        file = folder + "/backup"
        with Locker("alpha.example", "192.0.2.3") as alpha:
            take_locks(alpha, 3)
        assert ctl("backup", file)[0] == 0
        status, _, err = tool(server.path, "--restore", file)
        assert status == 1 and "in use" in err, err
        server.stop()
        status, _, err = tool(server.path, "--restore", file)
        assert status == 1 and "not empty" in err and "move" in err, err
        good = Path(file).read_bytes()
        for bad, why in ((good[:-1], "cut short"), (good[:50] + b"?" + good[51:], "checksum"),
                         (b"Dear diary" * 20, "not a backup"), (b"", "not a backup")):
            Path(file).write_bytes(bad)
            status, _, err = tool(folder + "/store", "--restore", file)
            assert status == 1 and why in err, (why, err)
            assert not os.path.exists(folder + "/store")


@tap.test
def a_backup_needs_the_rights_of_a_change():
    """Over the socket root's or the daemon's own, over TCP the token: it names all clients and files."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, serve():
        os.chmod(folder, 0o777)
        status, _, err = ctl("backup", folder + "/backup", user="nobody")
        assert status == 1 and "only root" in err, (status, err)
        expect_problem(ask("GET", "/api/v1/backup"), 403)
        assert os.listdir(folder) == []
        assert ask("GET", "/api/v1/backup", unix=True).body.startswith(b"HFbackup")
        assert ctl("backup")[0] == 2
        status, _, err = ctl("backup", folder + "/not/there")
        assert status == 1 and "No such file" in err, err


# ---- who owns the files ----

@tap.test
def a_store_used_once_by_root_still_opens_for_the_service():
    """Files that root makes in the service's directory are given to the service's user."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        os.chmod(folder, 0o755)
        path = folder + "/store"
        os.mkdir(path, 0o700)
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
        with serve(path):
            pass
        owners = {name: os.stat(f"{path}/{name}").st_uid for name in os.listdir(path)}
        assert set(owners.values()) == {NOBODY.pw_uid} and "journal" in owners, owners


@tap.test
def a_store_of_roots_is_refused_with_the_command_that_helps():
    """As under a unit with User=: the service's user cannot open the files, and is told which chown to run."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        os.chmod(folder, 0o755)
        path = folder + "/store"
        with serve(path):
            pass
        command = [program(), *(word for each in (*DEFAULTS, "store.backend=lmdb", f"store.path={path}", "server.port=4999",
                                                  "admin.socket=", "admin.listen=") for word in ("--set", each))]
        os.chmod(path, 0o777)  # only the files are root's
        said = subprocess.run(command, user="nobody", group=NOBODY.pw_gid, timeout=20, stderr=subprocess.PIPE)
        advice = re.search(r"chown -R \d+:\d+ \S+/", said.stderr.decode())
        assert said.returncode == 1 and advice, said.stderr
        link = folder + "/link"  # as systemd's DynamicUser= makes one; the slash at the end leads through it
        os.symlink(path, link)
        subprocess.run(advice.group().replace(path, link).split(), check=True)
        done = subprocess.run([*command, "--verify-store"], user="nobody", group=NOBODY.pw_gid, timeout=20,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    netns.enter()
    tap.main()

#!/usr/bin/env python3
"""What an attacker can still do who has taken over the daemon (SEC-12): the process, its files, its system calls.

Attempts are made by a program that confines itself by the daemon's own code (confined.c); what the daemon itself has
given up is read from /proc. Landlock is not used in a build with sanitizers, so files are tried in a release build.
"""
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from holdfast_test import netns, nsm, rpc, tap
from holdfast_test.daemon import PORT, Daemon, run, wait_until
from holdfast_test.peer import NSM, SM_NOTIFY
from holdfast_test.store import Server
from world import Host, Locker, ask, get, monitor

CONFINED = os.environ["HOLDFAST_CONFINED"]
INSTRUMENTED = os.environ["HOLDFAST_INSTRUMENTED"] == "yes"
RELEASE = Path(__file__).parents[2] / "build/tests/hostile/confined"
if INSTRUMENTED and RELEASE.exists():
    CONFINED, INSTRUMENTED = str(RELEASE), False
NOBODY = pwd.getpwnam("nobody").pw_uid
BIND_SERVICE = 1 << 10
DAC_OVERRIDE = 1 << 1


def attempt(*words, user="nobody", env=None, program=None):
    """(exit status, what was said) of one attempt; the store is a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        store = os.path.join(folder, "store")
        os.chmod(folder, 0o755)
        os.mkdir(store)
        done = subprocess.run([program or CONFINED, store, user, *(word.replace("STORE", store) for word in words)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20, env=os.environ | (env or {}))
        return done.returncode, done.stdout.decode().strip(), done.stderr.decode()


# ---- system calls ----

@tap.test
def to_run_a_program():
    """The process ends by SIGSYS: execve, and every other way to a new process."""
    for what in ("execve", "fork"):
        if INSTRUMENTED:  # sanitizers need them
            raise tap.Skip("a build with sanitizers")
        status, said, _ = attempt(what, "/bin/true")
        assert status == -signal.SIGSYS or (what, said) == ("fork", "Operation not supported"), (what, status, said)  # arm64: no such call
    for what in ("clone", "clone-with-memory"):
        status, said, _ = attempt(what)
        assert (status, said) == (0, "Function not implemented"), (what, status, said)


@tap.test
def to_gain_privileges():
    """SEC-12: setuid, ptrace, mount, chmod of a file to setuid, a signal to another process: SIGSYS."""
    for what in ("setuid", "mount", "chmod") + (() if INSTRUMENTED else ("ptrace", "kill")):
        for user in ("nobody", ""):
            assert attempt(what, "STORE", user=user)[0] == -signal.SIGSYS, what


@tap.test
def a_call_outside_the_filter_is_told_by_its_name():
    """Before the process ends, or before the call fails: an operator who updates a library must see which call it was. A call that
    is made again is not told again."""
    status, _, log = attempt("mount", "STORE")
    assert status == -signal.SIGSYS, status
    assert "system call outside the filter" in log and "call=mount" in log and "the end of the process" in log, log
    status, said, log = attempt("packet-socket", user="")
    assert "system call outside the filter" in log and "call=socket" in log and "first=17" in log, log
    assert INSTRUMENTED or (said == "Function not implemented" and "ENOSYS" in log), (said, log)
    assert log.count("call=socket") == 1, log


@tap.test
def calls_outside_the_filter_are_recorded():
    """HOLDFAST_RECORD_CALLS, in a build with sanitizers: the suites then show all that a new library calls, not the first."""
    if os.environ["HOLDFAST_INSTRUMENTED"] != "yes":
        raise tap.Skip("not a build with sanitizers")
    with tempfile.NamedTemporaryFile("r", prefix="holdfast-") as file:
        os.chmod(file.name, 0o666)
        status, said, _ = attempt("mount", "STORE", env={"HOLDFAST_RECORD_CALLS": file.name},
                                  program=os.environ["HOLDFAST_CONFINED"])
        assert (status, said) == (0, "Function not implemented"), (status, said)
        assert file.read().startswith("mount "), "not recorded"


@tap.test
def to_sniff_the_network():
    """A packet socket is not to be had, by the filter, before any question of privilege."""
    status, said, _ = attempt("packet-socket", user="")
    assert status == -signal.SIGSYS if INSTRUMENTED else (status, said) == (0, "Function not implemented"), said


@tap.test
def to_speak_with_the_kernel():
    """SEC-12, SEC-02: of netlink, the list of addresses (0, for the resolver) and the users of sockets (4, for the quotas of this
    host's users) are left, also to a daemon that makes its server after it has confined itself, as a standby does; packet
    filters (12), audit (9) and the rest are not."""
    for user in ("nobody", ""):
        for protocol in ("0", "4"):
            assert attempt("netlink-socket", protocol, user=user)[:2] == (0, "done"), (user, protocol)
        for protocol in ("2", "9", "12", "15"):
            status, said, _ = attempt("netlink-socket", protocol, user=user)
            refused = status == -signal.SIGSYS if INSTRUMENTED else (status, said) == (0, "Function not implemented")
            assert refused, (user, protocol, status, said)


@tap.test
def to_write_code():
    """Memory is never writable and executable, nor made executable."""
    if INSTRUMENTED:
        raise tap.Skip("a build with sanitizers")
    for what in ("writable-code", "make-executable"):
        assert attempt(what)[1] == "Function not implemented", what


@tap.test
def what_the_daemon_needs_is_still_there():
    """Threads, reserved ports to call back from, the store, and a panic that is told."""
    for user in ("nobody", ""):
        for words in (["thread"], ["reserved-port"], ["write", "STORE/new"], ["read", "/etc/hosts"]):
            assert attempt(*words, user=user)[:2] == (0, "done"), (words, user, attempt(*words, user=user))
    status, _, said = attempt("panic")
    assert status == -signal.SIGABRT and "invariant broken" in said, (status, said)


# ---- files ----

@tap.test
def to_read_and_write_other_files():
    """SEC-12: As root without a user to become, too: exported files are not read, and only the store is written."""
    if INSTRUMENTED:
        raise tap.Skip("a build with sanitizers")
    with tempfile.TemporaryDirectory(prefix="holdfast-export-") as export:
        secret = Path(export, "secret")
        secret.write_text("of a user")
        os.chmod(export, 0o777)
        os.chmod(secret, 0o666)
        for words in (["read", str(secret)], ["write", str(secret)], ["write", f"{export}/new"],
                      ["remove", str(secret)], ["write", "/etc/new"], ["write", "/run/new"], ["read", "/root/.profile"]):
            for user in ("nobody", ""):
                assert attempt(*words, user=user)[1] == "Permission denied", (words, attempt(*words, user=user))
        assert secret.read_text() == "of a user"


@tap.test
def to_change_what_it_was_configured_with():
    """SEC-12: a file of the configuration, and what an editor puts into its place, is read at a reload; it is not written, and
    nothing is made or removed beside it."""
    if INSTRUMENTED:
        raise tap.Skip("a build with sanitizers")
    with tempfile.TemporaryDirectory(prefix="holdfast-conf-") as folder:
        config, key = Path(folder, "holdfast.conf"), Path(folder, "key")
        for path, mode in ((folder, 0o777), (config, 0o666), (key, 0o666)):
            Path(path).touch()
            os.chmod(path, mode)
        for user in ("nobody", ""):
            for words in (["read", str(config)], ["read", str(key)]):
                assert attempt(*words, user=user, env={"CONFINED_READ": str(config)})[1] == "done", (words, user)
            for words in (["write", str(config)], ["empty", str(key)], ["write", f"{folder}/new"], ["remove", str(key)]):
                assert attempt(*words, user=user, env={"CONFINED_READ": str(config)})[1] == "Permission denied", (words, user)


@tap.test
def to_be_given_a_file_of_root():
    """SEC-12: at its start root gives the store to the daemon's user; a file that has another name as well, which a user of the
    directory may have linked there, stays root's."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        os.chmod(folder, 0o755)
        store, secret = Path(folder, "store"), Path(folder, "secret")
        store.mkdir()
        secret.touch(0o600)
        for linked in (True, False):
            if linked:
                os.link(secret, store / "data.mdb")
            else:
                (store / "data.mdb").unlink()
                (store / "data.mdb").touch()
            subprocess.run([CONFINED, store, "nobody", "thread"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            assert (store / "data.mdb").stat().st_uid == (0 if linked else NOBODY), linked
        assert secret.stat().st_uid == 0
        os.chown(store / "data.mdb", 12345, 12345)  # a third user's
        subprocess.run([CONFINED, store, "nobody", "thread"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert (store / "data.mdb").stat().st_uid == 12345


# ---- the daemon and the process that moves its addresses, against each other ----

# One attempt on another process, in the place of the runner: with its user and its rights, without a filter.
ON_PROCESS = """
import ctypes, os, sys
what, pid = sys.argv[1], int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
try:
    if what == "ptrace":
        if libc.ptrace(16, pid, 0, 0) < 0:  # PTRACE_ATTACH
            raise OSError(ctypes.get_errno(), "")
    elif what == "kill":
        os.kill(pid, 0)
    else:
        open(f"/proc/{pid}/{what}", "r+b" if what == "mem" else "rb").read(1)
    print("done")
except OSError as error:
    print(os.strerror(error.errno))
"""


def as_nobody(*capabilities):
    """As the unit starts it: an ordinary user with these capabilities."""
    wanted = ",".join(["-all", *("+" + name for name in capabilities)])
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs", f"--inh-caps={wanted}",
            f"--ambient-caps={wanted}", f"--bounding-set={wanted}"]


@tap.test
def the_daemon_against_its_runner():
    """A daemon that was taken over reaches nothing of the process that has CAP_NET_ADMIN, although both have one user. (What it can
    send there: tests/unit/test_addresses.c.)"""
    runner = subprocess.Popen([*as_nobody("net_admin", "net_raw"), "sleep", "1000"])
    try:
        wait_until(lambda: Path(f"/proc/{runner.pid}/comm").read_text() == "sleep\n", "the runner's place is taken")
        for words in (["write", f"/proc/{runner.pid}/mem"], ["read", f"/proc/{runner.pid}/mem"],
                      ["read", f"/proc/{runner.pid}/environ"]):
            assert attempt(*words)[1] == "Permission denied", (words, attempt(*words))
    finally:
        runner.kill()
        runner.wait()


@tap.test
def a_runner_against_its_daemon():
    """A process in the place of the runner cannot read, change or trace the daemon: it lacks the daemon's one capability. It can end
    it, which drops the addresses and leaves the service to another node."""
    with Daemon("admin.socket=", under=as_nobody("net_bind_service")) as daemon:
        check_threads(daemon, NOBODY, BIND_SERVICE)
        for what, wanted in (("ptrace", "Operation not permitted"), ("mem", "Permission denied"), ("environ", "Permission denied"),
                             ("kill", "done")):
            done = subprocess.run([*as_nobody("net_admin", "net_raw"), sys.executable, "-c", ON_PROCESS, what, str(daemon.process.pid)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
            assert done.stdout.decode().strip() == wanted, (what, done.stdout)


# ---- the daemon itself ----

def threads(daemon):
    """The /proc status of each thread, as a dictionary."""
    for task in Path(f"/proc/{daemon.process.pid}/task").iterdir():
        yield dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)


def check_threads(daemon, uid, capabilities):
    seen = list(threads(daemon))
    assert len(seen) >= 3, "loop, store, log"
    for status in seen:
        assert set(status["Uid"].split()) == {str(uid)}, status["Uid"]
        for name in ("CapPrm", "CapEff"):
            assert int(status[name], 16) == capabilities, status
        for name in ("CapInh", "CapAmb") + (("CapBnd",) if capabilities else ()):  # only root can lower the bound
            assert int(status[name], 16) & ~capabilities == 0, status
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status


@tap.test
def every_thread_of_the_daemon_is_confined():
    """Started as root: with a user to become, it has that user and one capability; without, root's files at most."""
    with Daemon("server.user=nobody") as daemon:
        check_threads(daemon, NOBODY, BIND_SERVICE)
    with Daemon("server.user=65534") as daemon:
        check_threads(daemon, NOBODY, BIND_SERVICE)
    with Daemon("server.user=") as daemon:
        check_threads(daemon, 0, BIND_SERVICE | DAC_OVERRIDE)


@tap.test
def an_ordinary_user_confines_itself_too():
    """Started without root: no capability at all, no_new_privs and the filter."""
    with Daemon("admin.socket=", under=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")) as daemon:
        check_threads(daemon, NOBODY, 0)


@tap.test
def what_a_library_opens_before_the_filter_works_behind_it():
    """libuv 1.50 and later (Debian 13) makes an io_uring with the loop, and aborts if the filter then refuses to enter it:
    what the filter will refuse, the daemon must refuse before the first library starts."""
    with Daemon("server.user=nobody", env={"LD_PRELOAD": os.environ["HOLDFAST_RING_AT_START"]}) as daemon:
        with Locker("alpha.example", "192.0.2.2") as alpha:
            assert alpha.lock(b"file") == "granted"
        assert "io_uring" not in daemon.log()


def state_of(daemon):
    return int(re.search(r"state=(\d+)", daemon.wait_for_log("ready")).group(1))


@tap.test
def a_loop_of_early_deaths_uses_up_no_state_number():
    """NSM-06f, SPEC section 14: a daemon that dies before it has promised anything leaves no trace, whichever thread dies:
    the start after it takes the number that the dead ones would have taken, and notifies the client with that."""
    with Host("192.0.2.2") as alpha, Server() as server:
        with Locker("alpha.example", "192.0.2.2") as locker:
            assert locker.lock(b"file") == "granted"
        number = state_of(server.daemon)
        server.kill()
        for where in ("poll", "flush", "poll", "flush"):
            server.env = {"LD_PRELOAD": os.environ["HOLDFAST_DIES_EARLY"], "HOLDFAST_DIES_AT": where}
            assert server.start(wait=False).wait() == -signal.SIGABRT, server.daemon.log()
        assert alpha.count(NSM, SM_NOTIFY) == 0
        server.env = None
        server.start()
        notice = alpha.wait_for(lambda call: (call.prog, call.proc) == (NSM, SM_NOTIFY))
        assert state_of(server.daemon) == number + 2, server.daemon.log()
        assert nsm.Notice.decode(notice.decode()).state == number + 2


@tap.test
def the_switch_turns_it_off():
    """server.confine=no: as started, and a warning says so."""
    with Daemon("server.confine=no", "server.user=nobody") as daemon:
        for status in threads(daemon):
            assert status["Uid"].split()[0] == "0" and status["Seccomp"] == "0"
        assert "server.confine=no" in daemon.wait_for_log("not confined")


@tap.test
def auto_is_holdfast_where_there_is_one():
    """Without such a user it stays, and says what to do; with one, it becomes it."""
    users = Path("/etc/passwd").read_text()
    if "\nholdfast:" in users:
        raise tap.Skip("this host has a user holdfast")
    with Daemon("server.user=auto") as daemon:
        assert "useradd" in daemon.wait_for_log("running as root")
    with netns.file("/etc/passwd", users + "holdfast:x:987:65534::/nonexistent:/usr/sbin/nologin\n"):
        with Daemon("server.user=auto") as daemon:
            check_threads(daemon, 987, BIND_SERVICE)


@tap.test
def a_user_that_is_not_there_stops_the_start():
    """A misspelt server.user must not mean root."""
    status, _, log = run("--set", "store.backend=memory", "--set", "rpcbind.mode=none", "--set", "server.user=nobdoy")
    assert status == 3 and "nobdoy" in log, log


@tap.test
def a_store_that_root_made_serves_on():
    """Given a store of root's, a daemon with a user of its own takes it over, with its locks, and back again."""
    with Server("server.user=") as server:
        with Locker("alpha.example", "192.0.2.2") as alpha:
            assert alpha.lock(b"file") == "granted"
        for user in ("nobody", "", "nobody"):
            server.kill()
            server.start(f"server.user={user}", "grace.seconds=0", "notify.on_failure=keep")
            assert "locks=1" in server.daemon.wait_for_log("store loaded")
            with Locker("alpha.example", "192.0.2.2") as alpha:
                assert alpha.lock(b"file") == "granted"
        owners = {os.stat(os.path.join(server.path, name)).st_uid for name in os.listdir(server.path)}
        assert owners == {NOBODY}, owners


@tap.test
def a_store_that_the_user_cannot_reach_is_said_so():
    """Given a directory behind one that is root's alone: no start, and advice."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        os.chmod(folder, 0o700)
        status, _, log = run("--set", f"store.path={folder}/store", "--set", "rpcbind.mode=none",
                             "--set", "server.user=nobody")
        assert status == 1 and "chown" in log and folder in log, log


def check_reload(link, target, *named):
    """Changes what the link leads to, in place and by a new file of its name; each is read again."""
    link.symlink_to(target)
    target.write_text("[limits]\nclients=76\n")
    daemon = Daemon("server.user=nobody", **({"config": str(named[0])} if named else {}))
    daemon.command[0] = str(RELEASE.parents[2] / "src/daemon/holdfastd")
    with daemon:
        if "files=own" not in daemon.wait_for_log("confined"):
            raise tap.Skip("this kernel has no Landlock")
        for number, clients in enumerate((77, 78), 1):
            new = target.with_suffix(".new")
            new.write_text(f"[limits]\nclients={clients}\n[log]\nlevel=debug\n")
            os.replace(new, target)
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_for_log("configuration reloaded", number)


@tap.test
def a_symbolic_link_to_the_configuration_can_be_reloaded():
    """Given a configuration that is a symbolic link into another directory, as tools for configurations make them, SIGHUP
    reads it again: one that was named, and the default."""
    if not RELEASE.exists():
        raise tap.Skip("no release build: Landlock is not used in a build with sanitizers")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        base = Path(folder)
        os.chmod(base, 0o755)
        for name in ("here", "elsewhere", "upper", "work"):
            (base / name).mkdir()
        check_reload(base / "here/a.conf", base / "elsewhere/a.conf", base / "here/a.conf")
        netns.run("mount", "-t", "tmpfs", "tmpfs", str(base / "here"))
        for name in ("upper", "work"):
            (base / "here" / name).mkdir()
        netns.run("mount", "-t", "overlay", "-o", f"lowerdir=/etc,upperdir={base}/here/upper,workdir={base}/here/work",
                  "overlay", "/etc")
        try:
            Path("/etc/holdfast").mkdir(exist_ok=True)
            Path("/etc/holdfast/holdfast.conf").unlink(missing_ok=True)
            check_reload(Path("/etc/holdfast/holdfast.conf"), base / "elsewhere/b.conf")
        finally:
            netns.run("umount", "/etc")
            netns.run("umount", str(base / "here"))


@tap.test
def confined_it_serves_reloads_and_cleans_up():
    """With a user of its own: port 111 and its socket, locks, SIGHUP, holdfastctl's socket, gone at the end."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf", prefix="holdfast-") as file:
        os.chmod(file.name, 0o644)
        with Daemon("server.user=nobody", "rpcbind.mode=embedded", config=file.name) as daemon:
            with Locker("alpha.example", "192.0.2.2") as alpha:
                assert alpha.lock(b"file") == "granted"
                assert alpha.lock(b"other") == "granted" and alpha.unlock(b"other") == "granted"
            assert ask("GET", "/readyz").status == 200
            assert b"100021" in subprocess.run(["rpcinfo", "-p", "127.0.0.1"], stdout=subprocess.PIPE).stdout
            assert stat.S_ISSOCK(os.stat("/run/rpcbind.sock").st_mode)
            os.replace(file.name, file.name + ".old")
            Path(file.name).write_text("[limits]\nclients=77\n")
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_for_log("configuration reloaded")
            os.unlink(file.name + ".old")
            lock = get("locks")["locks"][0]["id"]
            assert ask("DELETE", f"/api/v1/locks/{lock}", unix=True).status == 200
            check_threads(daemon, NOBODY, BIND_SERVICE)
        assert not os.path.exists("/run/holdfast/admin.sock"), "left behind"


@tap.test
def to_read_the_password_of_the_database():
    """store.dsn_file keeps it out of the command line; a file that others can read is refused, for --migrate too."""
    with tempfile.NamedTemporaryFile("w", prefix="holdfast-") as file:
        file.write("host=/nonexistent password=sesame\n")
        file.flush()
        sets = ("--set", "store.backend=postgres", "--set", f"store.dsn_file={file.name}", "--set", "rpcbind.mode=none")
        for mode, reason in ((0o644, "chmod 0600"), (0o600, "/nonexistent")):
            os.chmod(file.name, mode)
            for more in ((), ("--migrate", "status")):
                status, out, log = run(*sets, *more)
                expected = 3 if mode == 0o644 and not more else 1  # 3: only an operator can help
                assert status == expected and reason in log and "sesame" not in out + log, log
        assert run(*sets, "--set", "store.dsn=host=x")[0] == 2


@tap.test
def a_name_lookup_works_under_the_filter():
    """The resolver's modules are loaded, and its threads started, when the first name is looked up."""
    with netns.names("192.0.2.3 watched.example\n192.0.2.2 watcher.example"), Host("192.0.2.3"), \
            Daemon("server.user=nobody", "log.level=debug") as daemon:
        assert monitor("watched.example") == 0
        with rpc.Tcp("192.0.2.1", PORT) as client:
            client.call(100024, 1, 0)
        assert daemon.process.poll() is None
        check_threads(daemon, NOBODY, BIND_SERVICE)


if __name__ == "__main__":
    if INSTRUMENTED:
        tap.note("a build with sanitizers: files and some system calls are tried in a release build only")
    netns.enter()
    tap.main()

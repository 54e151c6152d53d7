"""holdfastctl under test: run to its end, or on a terminal of a width."""
import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios

CTL = os.environ.get("HOLDFASTCTL", "holdfastctl")
OK, REFUSED, USAGE, UNREACHABLE, NOT_FOUND, TROUBLE = range(6)


def ctl(*arguments, env=None):
    done = subprocess.run([CTL, *arguments], stdin=subprocess.DEVNULL, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | (env or {}))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def ctl_ok(*arguments):
    status, out, err = ctl(*arguments)
    assert status == OK and err == "", f"{arguments}: {status} {out} {err}"
    return out


def on_terminal(columns, *arguments, **env):
    """What is printed on a terminal of this width, without colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    subprocess.run([CTL, *arguments], stdin=subprocess.DEVNULL, stdout=slave, check=True,
                   env=os.environ | {"NO_COLOR": "1", "LC_ALL": "C.UTF-8"} | env)
    os.close(slave)
    text = b""
    with contextlib.suppress(OSError):
        while piece := os.read(master, 65536):
            text += piece
    os.close(master)
    return text.decode().replace("\r\n", "\n")

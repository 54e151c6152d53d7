#!/usr/bin/env python3
"""scripts/hooks/commit-msg accepts the subjects that CONTRIBUTING.md asks for, and no others."""
import pathlib
import subprocess
import sys
import tempfile

from holdfast_test import tap

HOOK = pathlib.Path(__file__).resolve().parents[2] / "scripts/hooks/commit-msg"


def accepts(message):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(message)
        file.flush()
        return subprocess.run([HOOK, file.name], stderr=subprocess.DEVNULL, check=False).returncode == 0


@tap.test
def good_messages_are_accepted():
    for message in ("core: wake waiters in queue order\n", "core, tests/sim: model a kernel\n\nWhy it is so.\n",
                    "# a comment of git\nstore: flush once\n", "Merge branch 'main'\n"):
        assert accepts(message), message


@tap.test
def bad_messages_are_refused():
    for message in ("Wake waiters in queue order\n", "core: wake waiters.\n", "core: " + "x" * 67 + "\n",
                    "core: wake waiters\nand the body at once\n", "\n"):
        assert not accepts(message), message


if __name__ == "__main__":
    sys.exit(tap.run())

#!/usr/bin/env python3
"""The container image (packaging/build-oci), made from the package and run by crun in namespaces of its own: it grants a
lock, keeps it over a restart of the container, and stops when told to."""
import contextlib
import os
import tempfile
from pathlib import Path

from holdfast_test import netns, nlm, tap
from holdfast_test.peer import NSM, SM_NOTIFY, Network
from holdfast_package import container
from holdfast_package.machine import CLIENTS, server_network, wait_until


@contextlib.contextmanager
def running(bundle, log):
    """The container, until it has stopped by SIGTERM with status 0."""
    running_one = container.Container(bundle, log)
    try:
        running_one.wait_for(lambda: " ready " in running_one.said(), "it is ready")
        yield
    except BaseException:
        running_one.end()
        raise
    running_one.stop()


@tap.test
def a_container_keeps_its_locks():
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-")))
        network_path = stack.enter_context(server_network())
        config = container.unpack(layout, folder / "bundle", network_path)
        container.mount(config, container.store_like(folder / "bundle", folder / "store"), "/var/lib/holdfast")
        container.save(config, folder / "bundle")
        network = stack.enter_context(Network())
        alice, bob = network.host("10.2.0.1", "alice"), network.host("10.2.0.2", "bob")
        with running(folder / "bundle", folder / "first.log"):
            assert alice.stat(nlm.LOCK) == "GRANTED"
            assert bob.stat(nlm.LOCK) == "DENIED"
            assert (folder / "store/data.mdb").stat().st_uid != 0, "it runs as root"
        for host in (alice, bob):
            host.close_clients()
        with running(folder / "bundle", folder / "second.log"):
            alice.wait_for(SM_NOTIFY, prog=NSM, seconds=60)
            assert alice.stat(nlm.LOCK, reclaim=True) == "GRANTED"
            wait_until(lambda: bob.stat(nlm.LOCK) == "DENIED", "the lock is alice's", 30)


if __name__ == "__main__":
    if os.environ.get("HOLDFAST_BOOT") != "all":
        tap.skip_all("takes a minute: make boot")
    if container.missing():
        tap.skip_all(container.missing())
    layout = container.image()
    netns.enter(addresses=())
    netns.run("ip", "route", "add", "local", CLIENTS, "dev", "lo")
    container.mount_groups()
    tap.main()

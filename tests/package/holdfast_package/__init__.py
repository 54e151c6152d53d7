"""Machines with systemd that Holdfast's Debian packages are installed on."""

"""A small network of virtual machines around Holdfast: real Linux kernels as NFSv3 clients.

image builds what the machines boot, network wires them up, guest runs them, servers runs what is on
the server's side, story writes down what happened. See README.md beside this folder.
"""

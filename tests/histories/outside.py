#!/usr/bin/env python3
"""outside.py FOLDER FILES PROCESS LOG SEED: a program of the server that locks bytes of the exported files with fcntl, as long as it
runs, and writes down what it held, in the words of the players (player.h).

A lock that it is refused is not written down: the kernel may hold a range for a moment for a request that is then denied.
"""
import fcntl
import os
import random
import signal
import sys
import time

CELLS = 8


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Log:
    def __init__(self, path, process):
        self.file, self.process, self.number = open(path, "w", encoding="ascii", buffering=1), process, 0

    def write(self, kind, file, first, last, mode, began, ended):
        self.number += 1
        self.file.write(f"i {self.number} {self.process} f{file} {kind} {first} {last} {mode} {began}\nc {self.number} {ended} granted\n")


def main():
    folder, files, process, path, seed = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
    dice, log, ends = random.Random(f"{seed}/{process}"), Log(path, process), []
    signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
    opened = [os.open(f"{folder}/f{n}", os.O_RDWR) for n in range(files)]
    while not ends:
        file, first = dice.randrange(files), dice.randrange(CELLS)
        last, mode = dice.randrange(first, CELLS), dice.choice("xxs")
        length = 0 if last == CELLS - 1 else last - first + 1
        began = now()
        try:
            fcntl.lockf(opened[file], (fcntl.LOCK_EX if mode == "x" else fcntl.LOCK_SH) | fcntl.LOCK_NB, length, first)
        except BlockingIOError:
            time.sleep(dice.random() * 0.002)
            continue
        log.write("lock", file, first, last, mode, began, now())
        time.sleep(dice.random() * 0.004)
        began = now()
        fcntl.lockf(opened[file], fcntl.LOCK_UN, length, first)
        log.write("unlock", file, first, last, mode, began, now())
        time.sleep(dice.random() * 0.002)


if __name__ == "__main__":
    main()

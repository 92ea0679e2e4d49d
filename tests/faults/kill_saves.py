#!/usr/bin/env python3
"""kill -9 while `tandem state save` replaces a file: whoever looks finds the old one or the new one, never a third thing, and the
next save removes what the dead ones left. At random times, and always between the last write and the rename.

usage: kill_saves.py PROGRAM
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

RANDOM_KILLS = 150
RENAME_KILLS = 50
SEED = 20261129
OLD, NEW = "39,571,4", "39,571,4,18,92,11,7"


def save(program, path, ids, *options):
    return [program, "state", "save", str(path), "--ids", ids, "--threads", "1", *options]


def bytes_of(program, folder, ids):
    path = pathlib.Path(folder, "wanted.tds")
    subprocess.run(save(program, path, ids), check=True, stdout=subprocess.DEVNULL)
    content = path.read_bytes()
    path.unlink()
    return content


def duration(program, path):
    start = time.monotonic()
    subprocess.run(save(program, path, NEW), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def leftovers(folder):
    return [name for name in os.listdir(folder) if name.startswith(".tandem-")]


def fail(message):
    print(message, file=sys.stderr)
    raise SystemExit(1)


def kill_at_random(program, path, delay):
    """Whether the process had to be killed."""
    process = subprocess.Popen(save(program, path, NEW), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(delay)
    process.kill()
    return process.wait() == -signal.SIGKILL


def kill_before_rename(program, path):
    done = subprocess.run(save(program, path, NEW, "--faults", "kill@rename"), stdout=subprocess.DEVNULL, check=False)
    if done.returncode != -signal.SIGKILL:
        fail(f"kill@rename: ended with {done.returncode}")


def main():
    program = sys.argv[1]
    draw = random.Random(SEED)
    counts = {"old": 0, "new": 0, "killed": 0, "left": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.tds")
        old, new = bytes_of(program, folder, OLD), bytes_of(program, folder, NEW)
        usual = duration(program, path)
        for number in range(RANDOM_KILLS + RENAME_KILLS):
            path.write_bytes(old)
            at_rename = number % 4 == 3
            if at_rename:
                kill_before_rename(program, path)
            else:
                counts["killed"] += kill_at_random(program, path, draw.uniform(0.0, 1.2 * usual))
            found = path.read_bytes()
            if found not in (old, new):
                fail(f"kill {number}: {len(found)} bytes that are neither the old file nor the new one")
            if at_rename and found != old:
                fail(f"kill {number}: the new file is there though nobody renamed it")
            counts["old" if found == old else "new"] += 1
            left = leftovers(folder)
            counts["left"] += len(left) > 0
            if at_rename and not left:
                fail(f"kill {number}: nothing was left, so nothing was written before the kill")
            if len(left) > 1:
                fail(f"kill {number}: {left}: what an earlier one left was not removed")
        subprocess.run(save(program, path, NEW), check=True, stdout=subprocess.DEVNULL)
        if path.read_bytes() != new or sorted(os.listdir(folder)) != ["a.tds"]:
            fail(f"after all kills a save left {os.listdir(folder)}")
    print(f"seed {SEED}, a save takes {usual * 1000:.0f} ms: {counts}")
    if counts["killed"] < RANDOM_KILLS // 4 or counts["left"] < RENAME_KILLS:
        fail("too few saves were killed on their way")


if __name__ == "__main__":
    main()

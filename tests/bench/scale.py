#!/usr/bin/env python3
"""512 ranks as processes on this machine: they start, pass a barrier and end in time, and none of
them holds much memory of its own.

  scale.py WEFT_BENCH [RANKS]
"""
import pathlib
import subprocess
import sys
import time

SECONDS = 20  # from the start to the end of the job
PRIVATE_DIRTY_KIB = 8 * 1024  # of any rank, at any moment that is looked at


def children(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []


def private_dirty_kib(pid):
    """0 where the process has ended already."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))


def timed(program, ranks):
    command = [program, "barrier", "--ranks", str(ranks), "-n", "1", "-w", "0", "--no-floor"]
    begin = time.monotonic()
    job = subprocess.run(command, capture_output=True, text=True, timeout=10 * SECONDS)
    return job, time.monotonic() - begin


def most_memory(program, ranks):
    """The largest private dirty memory of a rank that has passed barriers, and how many were seen."""
    command = [program, "barrier", "--ranks", str(ranks), "-n", "100000", "-w", "0", "--no-floor"]
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most, seen = 0, 0
    try:
        give_up = time.monotonic() + 3 * SECONDS
        while seen < ranks and time.monotonic() < give_up:
            time.sleep(0.2)
            seen = len(children(job.pid))
        time.sleep(SECONDS / 4)  # all ranks have met and made their windows
        for pid in children(job.pid):
            most = max(most, private_dirty_kib(pid))
        assert job.poll() is None, "the job ended before its memory was looked at"
    finally:
        job.kill()
        job.wait()
    return most, seen


def main():
    program = sys.argv[1]
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 512
    job, seconds = timed(program, ranks)
    most, seen = most_memory(program, ranks)
    print(f"{ranks} ranks: {seconds:.1f} s, {most} KiB of private dirty memory at most")
    failures = []
    if job.returncode != 0:
        failures.append(f"the job ended with status {job.returncode}: {job.stderr[-500:]}")
    if seconds > SECONDS:
        failures.append(f"it took {seconds:.1f} s, more than {SECONDS}")
    if seen != ranks:
        failures.append(f"{seen} ranks were seen")
    if not 0 < most <= PRIVATE_DIRTY_KIB:
        failures.append(f"a rank has {most} KiB of private dirty memory; at most {PRIVATE_DIRTY_KIB}")
    for failure in failures:
        print("FAILED:", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

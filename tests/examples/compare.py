#!/usr/bin/env python3
"""Runs an example on some ranks and compares what it prints with what is expected of it.

Usage: compare.py PROGRAM EXPECTED RANKS. EXPECTED holds, for every number of ranks, a line
"== RANKS" and the output below it, with "! " before lines of standard error. --write instead of a comparison puts the output there.
"""

import difflib
import pathlib
import subprocess
import sys


def sections(text):
    """The output by number of ranks."""
    found, current = {}, None
    for line in text.splitlines():
        if line.startswith("== "):
            current = int(line[3:])
            found[current] = []
        else:
            found[current].append(line)
    return found


def main():
    write = "--write" in sys.argv
    program, expected, ranks = [a for a in sys.argv[1:] if a != "--write"]
    ran = subprocess.run([program, ranks], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        print(f"{program} {ranks}: exit status {ran.returncode}\n{ran.stdout}{ran.stderr}")
        return 1
    got = ran.stdout.splitlines() + ["! " + line for line in ran.stderr.splitlines()]
    path = pathlib.Path(expected)
    known = sections(path.read_text(encoding="utf-8")) if path.exists() else {}
    if write:
        known[int(ranks)] = got
        path.write_text("".join(f"== {n}\n" + "".join(line + "\n" for line in lines)
                                for n, lines in sorted(known.items())), encoding="utf-8")
        return 0
    difference = list(difflib.unified_diff(known.get(int(ranks), ["(nothing is known)"]), got,
                                           "expected", "printed", lineterm=""))
    print("\n".join(difference) if difference else "as expected")
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Whether every source file is as clang-format 14 writes it. Usage: format.py ROOT.

Exits with 77 (skipped) where there is no clang-format 14: other versions break lines elsewhere.
"""

import pathlib
import subprocess
import sys

import tidy


def find_formatter():
    for program in ("clang-format-14", "clang-format"):
        try:
            run = subprocess.run([program, "--version"], capture_output=True, text=True)
        except FileNotFoundError:
            continue
        if "version 14." in run.stdout:
            return program
    return None


def main():
    root = sys.argv[1]
    formatter = find_formatter()
    if formatter is None:
        print("skipped: no clang-format 14 (apt-get install clang-format-14)")
        return 77
    files = [path for path in tidy.tree(root) if pathlib.PurePosixPath(path).suffix in tidy.CPP]
    run = subprocess.run([formatter, "--dry-run", "-Werror", *files], cwd=root, capture_output=True,
                         text=True)
    if run.returncode:
        wrong = sorted({line.split(":")[0] for line in run.stderr.splitlines() if "error:" in line})
        print("not as clang-format writes them (`make format`):", *wrong, sep="\n  ")
    return 1 if run.returncode else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Whether an example refuses what is no number of ranks, and words beside one. Usage: refuses.py PROGRAM"""

import subprocess
import sys

found = []
for word in ["four", "4x", " 4", "0", "-1", "4.5", "99999999999", ""]:
    end = subprocess.run([sys.argv[1], word], capture_output=True, text=True, timeout=60)
    if end.returncode != 2 or f'"{word}" is no number of ranks' not in end.stderr or end.stdout:
        found.append(f'"{word}": status {end.returncode}, {end.stdout!r}, {end.stderr!r}')
for word in ["junk", "3", ""]:
    end = subprocess.run([sys.argv[1], "2", word], capture_output=True, text=True, timeout=60)
    if end.returncode != 2 or f'"{word}" is one argument too many' not in end.stderr or end.stdout:
        found.append(f'2 "{word}": status {end.returncode}, {end.stdout!r}, {end.stderr!r}')
print("\n".join(found) or "all refused")
sys.exit(bool(found))

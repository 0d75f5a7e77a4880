#!/usr/bin/env python3
"""Whether all that the public headers offer is documented. Usage: documented.py ROOT.

Exits with 77 (skipped) where there is no doxygen.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile


def main():
    root = pathlib.Path(sys.argv[1])
    if shutil.which("doxygen") is None:
        print("skipped: no doxygen (apt-get install doxygen)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        settings = (root / "docs/Doxyfile").read_text() + f"\nOUTPUT_DIRECTORY = {folder}\n"
        return subprocess.run(["doxygen", "-"], cwd=root, input=settings, text=True).returncode


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Whether libnccl.so.2 exports the documented names and nothing else, each ncclX weak beside a strong
pncclX, and needs nothing but the C library. Usage: names.py LIBRARY NAMES_TXT [sanitized] [shared-ssl]."""

import ctypes
import subprocess
import sys

C_LIBRARY = ("libc.so", "libm.so", "libpthread.so", "librt.so", "libdl.so", "ld-linux")


def exported(library):
    """Kind by name of what the library defines for others."""
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    return {name: kind for _, kind, name in (line.split() for line in lines)}


def dynamic(library, tag):
    lines = subprocess.run(["readelf", "-dW", library], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    return [line.split("[")[1].rstrip("]") for line in lines if f"({tag})" in line]


def main():
    library, names = sys.argv[1], open(sys.argv[2], encoding="utf-8").read().split()
    want = {name: "W" for name in names} | {"p" + name: "T" for name in names}
    have = exported(library)
    problems = [f"{name} is missing" for name in want if name not in have]
    problems += [f"{name} is not in the list" for name in have if name not in want]
    problems += [f"{name} is of kind {have[name]}, not {kind}"
                 for name, kind in want.items() if have.get(name, kind) != kind]
    if names != sorted(names):
        problems.append("the list is not in order")
    if dynamic(library, "SONAME") != ["libnccl.so.2"]:
        problems.append(f"SONAME is {dynamic(library, 'SONAME')}")
    if "sanitized" not in sys.argv:
        allowed = C_LIBRARY + (("libcrypto.so", "libssl.so") if "shared-ssl" in sys.argv else ())
        problems += [f"needs {needed}" for needed in dynamic(library, "NEEDED")
                     if not needed.startswith(allowed)]
        loaded = ctypes.CDLL(library)  # as JAX does: name by name, when it is first used
        problems += [f"{name} is not found by dlsym" for name in want if not hasattr(loaded, name)]
    print("\n".join(problems) or f"{len(names)} names and their twins")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Prints the architectures of this machine's GPUs, as -DWEFT_CUDA_ARCHITECTURES takes them ("90;100"); nothing where
there is none that weft can be built for, or no nvidia-smi."""

import re
import subprocess

LEAST = 89  # conversions of 8-bit floats


def asked(query):
    """Of nvidia-smi: a line for each GPU; none where it cannot say."""
    try:
        told = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in told.splitlines() if line.strip()]


def architectures():
    """Of GPUs that weft can be built for, or of all where it can for none."""
    found = {int(line.replace(".", "")) for line in asked("compute_cap") if re.fullmatch(r"\d+\.\d", line)}
    return sorted({one for one in found if one >= LEAST} or found)


def built_for(build):
    """The architectures, by CMake's cache of the build; none where it does not say."""
    cache = build / "CMakeCache.txt"
    found = re.search(r"^WEFT_CUDA_ARCHITECTURES:\w+=(.*)$", cache.read_text(encoding="utf-8") if cache.exists() else "",
                      re.MULTILINE)
    return [int(one) for one in re.findall(r"\d+", found.group(1))] if found else []


def runs_on(built, here):
    """What is built for one runs on later ones of the same major version."""
    return built // 10 == here // 10 and built <= here


def why_not_built_for(here, built):
    """Why kernels could not be loaded on GPUs that are here, and what to do; None where they can."""
    if not built or not (lacking := [one for one in here if not any(runs_on(each, one) for each in built)]):
        return None

    def told(which):
        return " and ".join(f"{one / 10}" for one in which)

    if min(lacking) < LEAST:
        return f"this machine has GPUs of compute capability {told(lacking)}; weft needs {LEAST / 10} or newer"
    return (f"this machine has GPUs of compute capability {told(lacking)}, for which weft was not built (but for "
            f"{told(built)}); configure it with -DWEFT_CUDA_ARCHITECTURES=\"{';'.join(map(str, here))}\" and build it again")


if __name__ == "__main__":
    print(";".join(str(one) for one in architectures() if one >= LEAST))

"""Steps that measure a launch by NCCL's interface: by weft, and by the NCCL that is installed, to compare."""

import glob
import os
import pathlib
import re
import subprocess

from step import SKIPPED, Skip, Step, exited, read_figures, skip

BOTH = ("weft", "installed")


def launches(build, out, python, another):
    """One rank, and two that share a GPU; `another` is a libnccl.so.2, or empty for the one that is found."""
    program, weft = build / "bin" / "weft-micro-nccl", build / "lib" / "libnccl.so.2"
    installed = another or find_nccl(python, weft)
    for who, library in zip(BOTH, (str(weft), installed)):
        for ranks in (1, 2):
            name = f"launches-{who}" + ("" if ranks == 1 else f"-{ranks}")
            figures = out / f"{name}.json"
            judge = judge_weft if who == "weft" else judge_another
            # NCCL that allows several ranks on a GPU does so where it is asked.
            environment = {"NCCL_DEBUG": "VERSION", "NCCL_MULTI_RANK_GPU_ENABLE": "1", "WEFT_TIMEOUT": "60"}
            yield Step(name, [str(program), library or "none", "--ranks", str(ranks), "-J", str(figures)], 120,
                       lambda ended, judge=judge, figures=figures: judge(ended, read_figures(figures)), environment,
                       skip="" if library else "no NCCL is found but weft's; name one: --nccl FILE",
                       figures=figures, told=lambda _, figures=figures: told_of(read_figures(figures)))


def find_nccl(python, weft):
    """A libnccl.so.2 that is not weft's: that of the Python with the frameworks, the loader's, or beside CUDA; or ""."""
    packages = said([python, "-c", "import nvidia.nccl; print('\\n'.join(nvidia.nccl.__path__))"]).splitlines()
    known = re.findall(r"libnccl\.so\.2 .*=> (\S+)", said(["ldconfig", "-p"]) or said(["/sbin/ldconfig", "-p"]))
    candidates = [f"{folder}/lib/libnccl.so.2" for folder in packages] + known + sorted(
        glob.glob("/usr/local/cuda*/lib*/libnccl.so.2"))
    return next((file for file in candidates if os.path.exists(file) and not same(file, weft)), "")


def said(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def same(one, other):
    return pathlib.Path(one).resolve() == pathlib.Path(other).resolve()


def judge_weft(ended, figures):
    if ended.status == SKIPPED:
        skip(ended)
    if wrong := exited(ended):
        return wrong
    if "refused" in figures:
        return f"it refused: {figures['refused']}"
    if "(weft " not in ended.text:
        return "it did not use weft, but another NCCL"
    return None if figures.get("rows") else "it measured nothing"


def judge_another(ended, figures):
    """What another library fails in is no failure of weft."""
    if "(weft " in ended.text:
        raise Skip("what is installed is weft")
    if wrong := exited(ended):
        raise Skip(f"by the NCCL that is installed: {wrong}")
    if "refused" not in figures and not figures.get("rows"):
        raise Skip("the NCCL that is installed measured nothing")
    return None


def told_of(figures):
    version = figures["version"]
    who = f"NCCL {version // 10000}.{version // 100 % 100}.{version % 100}"
    if "refused" in figures:
        return f"{who} refuses {figures['ranks']} ranks on a GPU: {figures['refused']}"
    return f"{who}: " + ", ".join(f"{row['way']} {row['gpu_us']:.2f} us (host {row['host_us']:.2f})"
                                  for row in figures["rows"])

#!/usr/bin/env python3
"""Checks weft on this machine's GPUs, and measures it there: `make gpu-check`.

Prints a line for each step, then a summary, and writes OUT/gpu-check.json and a log of each step. Exit
status: 0 all steps passed or had a reason to be skipped, 1 some failed, 77 there is no GPU (and why)."""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import time

import gpus as this_machine
from benches import Bench, benchmarks, correctness
from launches import launches
from programs import google_tests, loaded_as_vllm_does, programs_of_nccl_tests, python_packages
from step import SKIPPED, Ended, Skip, exited, read_figures, read_rows
from targets import targets

NO_SUCH_GPU = "65535"
INSTALL = """
*** Install NVIDIA's CUDA toolkit 12.4 or newer (https://developer.nvidia.com/cuda-downloads), set CUDA_HOME to where it is
*** if nvcc is not in PATH, and run `make gpu-check` again. If it is there, cmake -DWEFT_CUDA=ON says why it was not taken."""


def run(command, limit_s, log, environment=None):
    """Runs a command to its end, or kills all of its processes at the limit, or where this program is ended."""
    begin = time.monotonic()
    with open(log, "w+", encoding="utf-8", errors="replace") as out:
        print("$", *command, file=out, flush=True)
        output = out.tell()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                       start_new_session=True, env={**os.environ, **(environment or {})})
        except OSError as error:
            return Ended(127, str(error), 0)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            kill_all_of(process)
        out.seek(output)
        return Ended(status, out.read(), time.monotonic() - begin)


def kill_all_of(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        pass  # inside the driver, where no signal reaches it


def count_gpus(bench, out):
    """How many there are; Skip says why none. weft-bench is asked for one that is not there."""
    ended = run([bench, "all_reduce", "--device", "cuda", "--gpus", NO_SUCH_GPU, "--ranks", "1", "-e", "4"], 120,
                out / "devices.log")
    if found := re.search(rf"there is no GPU {NO_SUCH_GPU}; there are (\d+)", ended.text):
        return int(found.group(1))
    if found := re.search(r"there is no GPU: .*", ended.text):
        raise Skip(found.group(0) + is_it_so(found.group(0)))
    raise SystemExit(f"gpu-check: {bench} does not say how many GPUs there are: {exited(ended) or ended.text}")


def is_it_so(reason):
    """What to add where weft says that there is no GPU, and one is there."""
    names = this_machine.asked("name")
    if not names:
        return ""
    loud = f"\n*** This machine HAS a GPU ({names[0]}), and nothing of weft has been checked on it."
    return loud + (INSTALL if "without CUDA" in reason else "")


def chosen(options, out, gpus):
    for step in steps_of(options, out, gpus):
        if re.search(options.only, step.name):
            yield dataclasses.replace(step, limit_s=min(step.limit_s, options.limit))


def steps_of(options, out, gpus):
    build = options.build
    bench = Bench(options.bench or str(build / "bin" / "weft-bench"), out)
    yield from google_tests(build)
    yield from correctness(bench, gpus, options.quick)
    yield from programs_of_nccl_tests(options.nccl_tests, build, gpus)
    yield loaded_as_vllm_does(build)
    yield from python_packages(build, options.python, gpus)
    yield from benchmarks(bench, gpus, options.quick)
    yield from launches(build, out, options.python, options.nccl)


def take(step, out):
    """(outcome, note, seconds)"""
    if step.figures:
        step.figures.unlink(missing_ok=True)  # of an earlier run
    if step.skip:
        return "skipped", step.skip, 0
    ended = run(step.command, step.limit_s, out / f"{step.name}.log", step.environment)
    try:
        wrong = (step.judge or exited)(ended)
    except Skip as why:
        return "skipped", str(why), ended.seconds
    return ("FAILED", wrong, ended.seconds) if wrong else ("passed", "", ended.seconds)


def told_by(command, out):
    ended = run(command, 30, out / "facts.log")
    return ended.text.strip() if ended.status == 0 else None


def facts(gpus, out):
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "host": platform.node(), "system": platform.platform(), "gpus": gpus,
            "commit": told_by(["git", "-C", str(pathlib.Path(__file__).resolve().parent), "rev-parse", "HEAD"], out),
            "nvidia_smi": told_by(["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                                   "--format=csv,noheader"], out)}


def check(options, out):
    gpus = count_gpus(options.bench or str(options.build / "bin" / "weft-bench"), out)
    if wrong := this_machine.why_not_built_for(this_machine.architectures(), this_machine.built_for(options.build)):
        raise SystemExit(f"gpu-check: {wrong}")
    result = {"format": "weft gpu-check 2", **facts(gpus, out), "complete": False, "steps": [], "targets": []}
    for step in chosen(options, out, gpus):
        outcome, note, seconds = take(step, out)
        figures = read_figures(step.figures) if step.figures else {}
        rows, machine = read_rows(step.figures) if step.figures else [], figures.get("run", {})
        if step.told and outcome == "passed":
            note = step.told(rows)
        print(f"{step.name:24} {outcome:8} {seconds:6.1f} s  {note}", flush=True)
        result["steps"].append({"name": step.name, "outcome": outcome, "note": note, "seconds": round(seconds, 2),
                                "command": step.command, "ranks": machine.get("ranks"), "floor": machine.get("floor"),
                                "rows": rows})
        write(result, out)
    passed = {step["name"]: step for step in result["steps"] if step["outcome"] == "passed"}
    aims = list(targets(passed, out))
    result["targets"] = [{**dataclasses.asdict(aim), "outcome": aim.outcome()} for aim in aims]
    write({**result, "complete": True}, out)
    return result, aims


def write(result, out):
    """After each step: what a machine that is lost had done by then is there."""
    file = out / "gpu-check.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    new.replace(file)


def summary(result, aims, out):
    counts = {kind: [step["name"] for step in result["steps"] if step["outcome"] == kind]
              for kind in ("passed", "skipped", "FAILED")}
    print("\n" + ", ".join(f"{len(names)} {kind}" for kind, names in counts.items()))
    for name in counts["FAILED"]:
        print(f"  {name}: see {out / (name + '.log')}")
    for aim in aims:
        print(f"  {aim.told()}")
    print(f"All of it is in {out / 'gpu-check.json'}")
    return 1 if counts["FAILED"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"), help="where weft is built")
    parser.add_argument("--bench", help="another weft-bench than that of the build")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/gpu-check"), help="for logs and results")
    parser.add_argument("--quick", action="store_true", help="few types, ranks and sizes")
    parser.add_argument("--only", metavar="REGEX", default="", help="steps whose names have a match: ^bandwidth")
    parser.add_argument("--limit", metavar="SECONDS", type=float, default=900, help="for each step, at most")
    parser.add_argument("--nccl-tests", metavar="FOLDER", help="with nccl-tests' programs")
    parser.add_argument("--nccl", metavar="FILE", help="another libnccl.so.2, to compare with; else it is looked for")
    parser.add_argument("--python", default=sys.executable, help="the one that has PyTorch or CuPy")
    options = parser.parse_args()
    options.build, out = options.build.resolve(), options.out.resolve()
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # ranks of a process that share a GPU need many
    out.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # by way of every `finally`
    try:
        return summary(*check(options, out), out)
    except Skip as why:
        print(f"gpu-check: {why}")
        return SKIPPED


if __name__ == "__main__":
    sys.exit(main())

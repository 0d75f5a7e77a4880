"""Steps under NVIDIA's compute-sanitizer. It may run one kernel after the other only, so what has to pass waits for no
other kernel: one rank, and the engine by which streams wait."""

import dataclasses
import re
import shutil

from step import Skip, exited

TOOLS = ("memcheck", "racecheck", "synccheck")
FOUND = 9  # the exit status that is asked for where it finds something
NOT_RUN = "not run: the sanitizer does not run kernels side by side"


def sanitized(bench, kernels):
    """`kernels` is a step that runs them by themselves."""
    program = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")

    def under(tool, step, judge):
        prefix = [program or "compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", str(FOUND)]
        return dataclasses.replace(step, command=[*prefix, *step.command], limit_s=900, judge=judge,
                                   skip=step.skip or ("" if program else "there is no compute-sanitizer"))

    def passes(step):
        return lambda ended: step.judge(ended) or looked_at(ended)

    calls = "-d float32,bfloat16 -b 4 -e 4K -f 32 -n 1 -w 0 --no-floor --gpus 0 --threads"
    for tool in TOOLS:
        for step in (bench.step(f"{tool}-1", f"all {calls} --ranks 1", 900),
                     bench.by_streams(f"{tool}-2-stream", f"all {calls} --ranks 2", 900)):
            yield under(tool, step, passes(step))
    yield under("memcheck", dataclasses.replace(kernels, told=None), passes(kernels))
    pair = bench.step("memcheck-2", f"all_reduce,all_to_all {calls} --ranks 2 -T 60", 900)
    yield under("memcheck", pair, lambda ended: side_by_side(ended) or pair.judge(ended) or looked_at(ended))


def looked_at(ended):
    return None if re.search(r"(ERROR|RACECHECK) SUMMARY: 0 ", ended.text) else "the sanitizer does not say that it found nothing"


def side_by_side(ended):
    """Kernels that wait for each other come to no end where only one of them runs."""
    if ended.status == FOUND:
        return exited(ended)
    if ended.status is None or (ended.status != 0 and re.search(r"\btimeout: ", ended.text)):
        raise Skip(NOT_RUN)
    return None

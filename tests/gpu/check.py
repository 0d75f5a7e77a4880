#!/usr/bin/env python3
"""Checks weft on this machine's GPUs, and measures it there: `make gpu-check`.

Prints a line for each step, then a summary, and writes OUT/gpu-check.json and a log of each step. Exit
status: 0 all steps passed or had a reason to be skipped, 1 some failed, 77 there is no GPU (and why)."""

import argparse
import dataclasses
import datetime
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

SKIPPED = 77
NO_SUCH_GPU = "65535"
KERNEL_BYTES = 1 << 30  # of an operand, where kernels are measured by themselves
NARROW_TYPES = ("float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "int16", "uint16", "int8", "uint8")


@dataclasses.dataclass
class Ended:
    status: int | None  # None: killed at its limit
    text: str
    seconds: float


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


@dataclasses.dataclass
class Step:
    name: str
    command: list
    limit_s: float
    judge: object = None  # of Ended: what is wrong, or None; raises Skip
    environment: dict = None
    skip: str = ""        # why it is not run
    figures: pathlib.Path = None
    told: object = None   # of the rows of a step that measures: what to say of them


class Skip(Exception):
    pass


def exited(ended):
    if ended.status is None:
        return "it did not end within its limit"
    lines = [line for line in ended.text.splitlines() if line.strip()]
    return None if ended.status == 0 else f"exit status {ended.status}: {lines[-1] if lines else 'no output'}"


# -- weft-bench -------------------------------------------------------------------------------------


class Bench:
    """Makes steps that are runs of weft-bench on GPUs."""

    def __init__(self, program, out):
        self.program, self.out = program, out

    def step(self, name, words, limit_s, prefix=()):
        figures = self.out / f"{name}.json"
        command = [*prefix, self.program, *words.split(), "--device", "cuda", "-J", str(figures)]
        return Step(name, command, limit_s, lambda ended: exited(ended) or self.judge(figures), figures=figures)

    @staticmethod
    def judge(figures):
        rows = read_rows(figures)
        wrong = sum(row[form][kind] for row in rows for form in ("out_of_place", "in_place") if row.get(form)
                    for kind in ("wrong", "touched"))
        if not rows:
            return "it measured nothing"
        return f"{wrong} elements are wrong" if wrong else None


def read_figures(figures):
    try:
        return json.loads(figures.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def read_rows(figures):
    found = read_figures(figures)
    return found.get("rows", found.get("benchmarks", []))


def count_gpus(bench, out):
    """How many there are; Skip says why none. weft-bench is asked for one that is not there."""
    ended = run([bench, "all_reduce", "--device", "cuda", "--gpus", NO_SUCH_GPU, "--ranks", "1", "-e", "4"], 120,
                out / "devices.log")
    if found := re.search(rf"there is no GPU {NO_SUCH_GPU}; there are (\d+)", ended.text):
        return int(found.group(1))
    if found := re.search(r"there is no GPU: .*", ended.text):
        raise Skip(found.group(0))
    raise SystemExit(f"gpu-check: {bench} does not say how many GPUs there are: {exited(ended) or ended.text}")


def correctness(bench, gpus, quick):
    types = "-d float32,bfloat16 -o sum,avg" if quick else "-d all -o all"
    few = "-b 1 -e 3001 -f 55"
    sweep, briefly = (f"all {types} -r all {sizes} -n 1 -w 0 -c 1 --no-floor"
                      for sizes in (few if quick else "-b 1 -e 64K -f 7", few))
    for ranks in (1, 2) if quick else range(1, 9):
        yield bench.step(f"sweep-{ranks}", f"{sweep} --gpus 0 --threads --ranks {ranks}", 900)
        if ranks > 1:
            yield bench.step(f"processes-{ranks}", f"{briefly} --gpus 0 --processes --ranks {ranks}", 900)
    some = "-n 1 -w 0 --no-floor --gpus 0 --threads"
    yield bench.step("packets", f"all {types} -b 1 -e {'3001' if quick else '128K'} -f 7 --protocol ll --ranks 3 {some}", 600)
    yield bench.step("misaligned", f"all -d float64 -b 1001 -e 64K -f 64 --misalign 3 --ranks 3 {some}", 300)
    large = "64K" if quick else "64M"
    yield bench.step("large", f"all -b {large} -e {large} --ranks 2 {some}", 300)
    end = "8K" if quick else "4M"
    collectives = "all_reduce,all_gather,reduce_scatter,all_to_all,broadcast"
    some_calls = "-n 3 -w 1 -G 3 --no-floor --gpus 0"
    yield bench.step("graphs", f"{collectives} -b 8 -e {end} -f 16 {some_calls} --threads --ranks 3",
                     300)
    yield bench.step("graphs-processes",
                     f"{collectives} -b 8 -e {end} -f 16 {some_calls} --processes --ranks 2", 300)
    # What passes between hosts, played by ranks that share this one.
    for how, ranks in (("threads", 4), ("processes", 2)):
        yield bench.step(f"hosts-{how}", f"all -b 1 -e {end} -f 16 {some_calls} --{how} --hosts 2 --ranks {ranks}", 300)
    if gpus > 1:
        several = f"all -d float32 -b 1 -e {end} -f 16 -n 2 -w 0 --ranks {gpus}"
        yield bench.step("gpus-threads", f"{several} --threads", 600)
        yield bench.step("gpus-processes", f"{several} --processes", 600)
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    step = bench.step("memcheck", f"all_reduce,all_to_all -b 4 -e 4K -f 32 --ranks 2 {some}", 900,
                      [sanitizer or "compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9"])
    yield step if sanitizer else dataclasses.replace(step, skip="there is no compute-sanitizer")


def benchmarks(bench, gpus, quick):
    yield kernels(bench, quick)
    for step in measurements(bench, gpus, quick):
        yield dataclasses.replace(step, told=lambda rows: told_of(rows[-1]))


def kernels(bench, quick):
    """Copying and reducing by themselves, beside CUDA's copy, interleaved."""
    program = pathlib.Path(bench.program).with_name(pathlib.Path(bench.program).name.replace("weft-bench", "weft-micro-gpu"))
    figures = bench.out / "kernels.json"
    command = [str(program), str(64 << 10 if quick else KERNEL_BYTES), "--benchmark_repetitions=5",
               "--benchmark_enable_random_interleaving=true", "--benchmark_report_aggregates_only=true",
               f"--benchmark_out={figures}", "--benchmark_out_format=json"]

    def judge(ended):
        return exited(ended) or next((f"{row['name']}: {row['error_message']}" for row in read_rows(figures)
                                      if row.get("error_occurred")), None) or (
            None if part_of_copy(read_rows(figures), "reduce/float32") else "it measured nothing")

    def told(rows):
        parts = [f"{name} {part_of_copy(rows, name):.2f}" for name in ("copy_kernel", "reduce/float32", "reduce/bfloat16")]
        return "of the copy's bandwidth: " + ", ".join(parts)

    return Step("kernels", command, 300, judge, figures=figures, told=told,
                skip="" if program.exists() else f"there is no {program}")


def part_of_copy(rows, name):
    """Of the bandwidth of CUDA's copy, by medians."""
    rate = {row["run_name"]: row.get("bytes_per_second") for row in rows if row.get("aggregate_name") == "median"}
    found = [rate[one] for one in rate if one.split("/iterations")[0] == name]
    copy = [rate[one] for one in rate if one.split("/iterations")[0] == "copy"]
    return found[0] / copy[0] if found and copy and found[0] and copy[0] else None


def measurements(bench, gpus, quick):
    yield bench.step("launch-1", "all_reduce -b 8 -e 8 --ranks 1 --gpus 0", 120)
    latency = "all_reduce -b 8 -e 8 --ranks 2 --gpus 0 --threads"
    yield bench.step("latency-2", latency, 120)
    yield bench.step("latency-2-simple", f"{latency} --protocol simple", 120)
    # 250 calls on a stream at once: more than its queue holds could keep the other rank from calling.
    yield bench.step("latency-2-graph", f"{latency} -n 25 -G 10", 120)
    yield bench.step("latency-2-graph-simple", f"{latency} -n 25 -G 10 --protocol simple", 120)
    sizes = "-b 1K -e 64K -f 8 -n 2 -w 1" if quick else "-b 64K -e 256M -f 4"
    for ranks in (2,) if quick else (2, 4, 8):
        yield bench.step(f"bandwidth-{ranks}", f"all_reduce {sizes} --ranks {ranks} --gpus 0 --threads", 600)
        yield bench.step(f"bandwidth-{ranks}-processes", f"all_reduce {sizes} --ranks {ranks} --gpus 0 --processes", 600)
    yield bench.step("bandwidth-2-hosts", f"all_reduce {sizes} --ranks 2 --gpus 0 --threads --hosts 2", 600)
    if gpus > 1:
        yield bench.step("bandwidth-gpus", f"all_reduce {sizes} --ranks {gpus}", 600)


@dataclasses.dataclass
class Target:
    """What is aimed at on an H200. A miss is no failure of the check."""
    what: str
    measured: float | None
    wanted: float | None
    unit: str
    at_least: bool = False

    def factor(self):
        """How often what is wanted: of a time, 2 is too slow by half; None: it was not measured."""
        if self.measured is None or self.wanted is None:
            return None
        return self.wanted / self.measured if self.at_least else self.measured / self.wanted

    def outcome(self):
        factor = self.factor()
        if factor is None:
            return "not measured"
        return "met" if factor <= 1 else f"MISSED by a factor of {factor:.2f}"

    def told(self):
        def number(value):
            return "-" if value is None else f"{value:.2f}{self.unit}"
        bound = "at least" if self.at_least else "at most"
        return f"{self.what}: {number(self.measured)}, wanted {bound} {number(self.wanted)}: {self.outcome()}"


def targets(passed, out):
    """Of the steps of this run that passed, by name."""
    def row(name, size):
        return next((row for row in passed.get(name, {}).get("rows", []) if row["size_bytes"] == size), None)

    small = row("latency-2-graph", 8)
    yield Target("8 bytes, 2 ranks, from a graph", small and small["out_of_place"]["time_us"], 6, " us")
    weft, linked = (time_of_nccl_tests(out / f"{name}.log") if name in passed else None
                    for name in ("launch-1-weft", "launch-1-linked"))
    yield Target("8 bytes, 1 rank, by nccl-tests, beside what it is linked with", weft, linked, " us")
    for ranks in (2, 4, 8):
        large = row(f"bandwidth-{ranks}", 256 << 20)
        yield Target(f"256 MiB, {ranks} ranks, of the memory's floor", large and part_of_floor(large), 0.8, "", True)
    for ranks in (2, 4, 8):
        large = row(f"bandwidth-{ranks}-processes", 256 << 20)
        yield Target(f"256 MiB, {ranks} ranks as processes, of the memory's floor", large and part_of_floor(large), 0.6, "",
                     True)
    alone = passed.get("kernels", {"command": ["", ""]})
    rows = alone["rows"] if alone["command"][1] == str(KERNEL_BYTES) else []
    yield Target("1 GiB of float32, reduce of two, of the copy's bandwidth", part_of_copy(rows, "reduce/float32"), 0.95, "",
                 True)
    narrow = [part_of_copy(rows, f"reduce/{of}") for of in NARROW_TYPES]
    yield Target("the same of the slowest 16- or 8-bit type", min(narrow) if all(narrow) else None, 0.85, "", True)


def part_of_floor(row):
    return row["floor_us"] / row["out_of_place"]["time_us"] if row["floor_us"] else None


def told_of(row):
    figure, part = row["out_of_place"], part_of_floor(row)
    return (f"{row['size_bytes']} bytes: {figure['time_us']:.2f} us, {figure['algbw_gbps']:.2f} GB/s"
            + (f", {part:.2f} of the floor" if part and part >= 0.01 else ""))


# -- everything else --------------------------------------------------------------------------------


def google_test(build, name, processes=0):
    """By so many processes that share a GPU, or by one whose ranks are threads."""
    program = build / "bin" / name
    together = pathlib.Path(__file__).resolve().parents[1] / "nccl" / "gpu_processes.py"
    command = [sys.executable, "-B", str(together), str(program), str(processes)] if processes else [str(program)]

    def judge(ended):
        if ended.status == SKIPPED:
            skip(ended)
        if wrong := exited(ended):
            return wrong
        if re.search(r"^\[  PASSED  \] 0 tests", ended.text, re.MULTILINE):
            raise Skip("all of its tests were skipped")
        return None if "[  PASSED  ]" in ended.text else "it ran no test"

    return Step(name + ("-processes" if processes else ""), command, 300, judge,
                skip="" if program.exists() else f"there is no {program}")


def on_weft(build):
    """The environment in which a program has weft for NCCL. Whether it does, it is made to say: see by_weft()."""
    return {"LD_PRELOAD": str(build / "lib" / "libnccl.so.2"), "NCCL_DEBUG": "VERSION"}


def by_weft(ended):
    """A program that carries NCCL inside, or a file that cannot be loaded, would leave weft out."""
    if wrong := exited(ended):
        return wrong
    return None if "(weft " in ended.text else "it did not use weft, but another NCCL"


def right_by_nccl_tests(ended):
    said = re.search(r"# Out of bounds values : (\d+) (\w+)", ended.text)
    return None if said and said.groups() == ("0", "OK") else "it does not say that 0 values are wrong"


def by_another(ended):
    if "(weft " in ended.text:
        raise Skip("what it is linked with is weft")
    return exited(ended) or right_by_nccl_tests(ended)


def programs_of_nccl_tests(folder, build, gpus):
    """Those of nccl-tests, built against NCCL or weft: `make` in its folder makes build/*_perf. It gives each rank a
    GPU of its own. One is run on what it was linked with, too, to compare."""
    def step(name, program, words, limit_s=600):
        return Step(name, [str(program), *words.split()], limit_s,
                    lambda ended: exited(ended) or right_by_nccl_tests(ended) or by_weft(ended), on_weft(build))

    programs = sorted(pathlib.Path(folder).resolve().glob("**/*_perf")) if folder else []
    if not programs:
        yield Step("nccl-tests", [], 0, skip="give its folder, with programs built: --nccl-tests FOLDER")
    sizes = "-b 8 -e 64M -f 4"
    for program in programs:
        yield step(f"nccl-tests-{program.name}", program, f"{sizes} -g {gpus}")
        if program.name not in ("all_reduce_perf", "alltoall_perf"):
            continue
        yield step(f"nccl-tests-{program.name}-graph", program, f"{sizes} -g {gpus} -G 3")
        if gpus > 1:
            yield step(f"nccl-tests-{program.name}-threads", program, f"{sizes} -t {gpus} -g 1")
        if program.name == "all_reduce_perf":
            launch = step("launch-1-weft", program, "-b 8 -e 8 -n 1000 -g 1", 120)
            yield launch
            yield dataclasses.replace(launch, name="launch-1-linked", judge=by_another, environment={"NCCL_DEBUG": "VERSION"})


def time_of_nccl_tests(log):
    """Microseconds of 8 bytes, out of place."""
    found = re.search(r"^ +8 +\d+ +\w+ +\w+ +-?\d+ +([\d.]+)", log.read_text(), re.MULTILINE) if log.exists() else None
    return float(found.group(1)) if found else None


def python_packages(build, python, gpus):
    here = pathlib.Path(__file__).resolve().parent

    def step(name, package, *arguments):
        has = python != sys.executable or importlib.util.find_spec(package)
        return Step(name, [python, "-B", str(here / f"{package}_check.py"), *arguments], 900,
                    lambda ended: by_weft(ended) if ended.status != SKIPPED else skip(ended),
                    on_weft(build), "" if has else f"{python} has no {package}")

    yield step("python-torch", "torch", str(min(gpus, 2)))
    yield step("python-torch-one-gpu", "torch", "2", "--one-gpu")
    yield step("python-cupy", "cupy")


def loaded_as_vllm_does(build):
    """By ctypes, on host memory: without a framework a Python program has no other."""
    library = build / "lib" / "libnccl.so.2"
    script = pathlib.Path(__file__).resolve().parents[1] / "nccl" / "vllm_like.py"
    return Step("python-ctypes", [sys.executable, "-B", str(script), str(library), "4"], 120,
                skip="" if library.exists() else f"there is no {library}")


def skip(ended):
    raise Skip(ended.text.strip().splitlines()[-1])


def chosen(options, out, gpus):
    for step in steps_of(options, out, gpus):
        if re.search(options.only, step.name):
            yield dataclasses.replace(step, limit_s=min(step.limit_s, options.limit))


def steps_of(options, out, gpus):
    build = options.build
    bench = Bench(options.bench or str(build / "bin" / "weft-bench"), out)
    yield google_test(build, "device_cuda_test")
    yield google_test(build, "nccl_cuda_test")
    yield google_test(build, "nccl_cuda_test", processes=3)
    yield from correctness(bench, gpus, options.quick)
    yield from programs_of_nccl_tests(options.nccl_tests, build, gpus)
    yield loaded_as_vllm_does(build)
    yield from python_packages(build, options.python, gpus)
    yield from benchmarks(bench, gpus, options.quick)


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
    parser.add_argument("--python", default=sys.executable, help="the one that has PyTorch or CuPy")
    options = parser.parse_args()
    options.build, out = options.build.resolve(), options.out.resolve()
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

"""Steps that are tests of weft, and programs that use NCCL."""

import dataclasses
import importlib.util
import pathlib
import re
import sys

from step import SKIPPED, Skip, Step, exited, skip


def google_tests(build):
    """Those that are linked with CUDA: by ranks that are threads, or processes, and by either engine."""
    for name in ("device_cuda_test", "nccl_cuda_test"):
        yield google_test(build, name)
    yield google_test(build, "nccl_cuda_test", processes=3)
    for name in ("device_communicator_failures_cuda_test", "device_graphs_cuda_test"):
        yield google_test(build, name)
        by_streams = google_test(build, name)
        yield dataclasses.replace(by_streams, name=f"{name}-stream", environment={"WEFT_DEVICE_ENGINE": "stream"})


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

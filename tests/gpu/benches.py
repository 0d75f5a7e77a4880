"""Steps that are runs of weft-bench, and of weft-micro-gpu beside it."""

import dataclasses
import pathlib

from sanitizer import sanitized
from step import Step, exited, read_rows
from targets import KERNEL_BYTES, part_of_copy, part_of_floor

FEW_BYTES = 64 << 10  # of an operand, where its time does not matter


class Bench:
    """Makes steps that are runs of weft-bench on GPUs."""

    def __init__(self, program, out):
        self.program, self.out = program, out

    def step(self, name, words, limit_s):
        figures = self.out / f"{name}.json"
        command = [self.program, *words.split(), "--device", "cuda", "-J", str(figures)]
        return Step(name, command, limit_s, lambda ended: exited(ended) or self.judge(figures), figures=figures)

    def by_streams(self, name, words, limit_s):
        """The same by the engine that ranks of one process have only where it is asked for."""
        step = self.step(name, words, limit_s)

        def judge(ended):
            return step.judge(ended) or (
                None if "run by the stream device engine" in ended.text else "another engine ran it")

        return dataclasses.replace(step, judge=judge, environment={"WEFT_DEVICE_ENGINE": "stream", "WEFT_DEBUG": "info"})

    @staticmethod
    def judge(figures):
        rows = read_rows(figures)
        wrong = sum(row[form][kind] for row in rows for form in ("out_of_place", "in_place") if row.get(form)
                    for kind in ("wrong", "touched"))
        if not rows:
            return "it measured nothing"
        return f"{wrong} elements are wrong" if wrong else None


def correctness(bench, gpus, quick):
    types = "-d float32,bfloat16 -o sum,avg" if quick else "-d all -o all"
    few = "-b 1 -e 3001 -f 55"
    sweep, briefly = (f"all {types} -r all {sizes} -n 1 -w 0 -c 1 --no-floor"
                      for sizes in (few if quick else "-b 1 -e 64K -f 7", few))
    for ranks in (1, 2) if quick else range(1, 9):
        yield bench.step(f"sweep-{ranks}", f"{sweep} --gpus 0 --threads --ranks {ranks}", 900)
        yield bench.by_streams(f"sweep-{ranks}-stream", f"{briefly} --gpus 0 --threads --ranks {ranks}", 900)
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
    graphs = f"{collectives} -b 8 -e {end} -f 16 {some_calls}"
    yield bench.step("graphs", f"{graphs} --threads --ranks 3", 300)
    yield bench.by_streams("graphs-stream", f"{graphs} --threads --ranks 3", 300)
    yield bench.step("graphs-processes", f"{graphs} --processes --ranks 2", 300)
    # What passes between hosts, played by ranks that share this one.
    for how, ranks in (("threads", 4), ("processes", 2)):
        yield bench.step(f"hosts-{how}", f"all -b 1 -e {end} -f 16 {some_calls} --{how} --hosts 2 --ranks {ranks}", 300)
    if gpus > 1:
        several = f"all -d float32 -b 1 -e {end} -f 16 -n 2 -w 0 --ranks {gpus}"
        yield bench.step("gpus-threads", f"{several} --threads", 600)
        yield bench.step("gpus-processes", f"{several} --processes", 600)
    yield from sanitized(bench, kernels(bench, "memcheck-kernels", FEW_BYTES))


def benchmarks(bench, gpus, quick):
    yield kernels(bench, "kernels", FEW_BYTES if quick else KERNEL_BYTES)
    for step in measurements(bench, gpus, quick):
        yield dataclasses.replace(step, told=lambda rows: told_of(rows[-1]))


def kernels(bench, name, operand_bytes):
    """Copying and reducing by themselves, beside CUDA's copy, interleaved."""
    program = pathlib.Path(bench.program).with_name(pathlib.Path(bench.program).name.replace("weft-bench", "weft-micro-gpu"))
    figures = bench.out / f"{name}.json"
    command = [str(program), str(operand_bytes), "--benchmark_repetitions=5",
               "--benchmark_enable_random_interleaving=true", "--benchmark_report_aggregates_only=true",
               f"--benchmark_out={figures}", "--benchmark_out_format=json"]

    def judge(ended):
        return exited(ended) or next((f"{row['name']}: {row['error_message']}" for row in read_rows(figures)
                                      if row.get("error_occurred")), None) or (
            None if part_of_copy(read_rows(figures), "reduce/float32") else "it measured nothing")

    def told(rows):
        parts = [f"{name} {part_of_copy(rows, name):.2f}" for name in ("copy_kernel", "reduce/float32", "reduce/bfloat16")]
        return "of the copy's bandwidth: " + ", ".join(parts)

    return Step(name, command, 300, judge, figures=figures, told=told,
                skip="" if program.exists() else f"there is no {program}")


def measurements(bench, gpus, quick):
    yield bench.step("launch-1", "all_reduce -b 8 -e 8 --ranks 1 --gpus 0", 120)
    latency = "all_reduce -b 8 -e 8 --ranks 2 --gpus 0 --threads"
    yield bench.step("latency-2", latency, 120)
    yield bench.by_streams("latency-2-stream", latency, 120)
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


def told_of(row):
    figure, part = row["out_of_place"], part_of_floor(row)
    return (f"{row['size_bytes']} bytes: {figure['time_us']:.2f} us, {figure['algbw_gbps']:.2f} GB/s"
            + (f", {part:.2f} of the floor" if part and part >= 0.01 else ""))

"""What is aimed at on an H200, beside what was measured. A miss is no failure of the check."""

import dataclasses
import re

KERNEL_BYTES = 1 << 30  # of an operand, where kernels are measured by themselves
NARROW_TYPES = ("float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "int16", "uint16", "int8", "uint8")


@dataclasses.dataclass
class Target:
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
    for way in ("eager", "graph"):
        weft, installed = (time_of_launch(passed.get(f"launches-{who}", {}), way) for who in ("weft", "installed"))
        yield Target(f"8 bytes, 1 rank, {way}, beside the NCCL that is installed", weft, installed, " us")
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


def part_of_copy(rows, name):
    """Of the bandwidth of CUDA's copy, by medians."""
    rate = {row["run_name"]: row.get("bytes_per_second") for row in rows if row.get("aggregate_name") == "median"}
    found = [rate[one] for one in rate if one.split("/iterations")[0] == name]
    copy = [rate[one] for one in rate if one.split("/iterations")[0] == "copy"]
    return found[0] / copy[0] if found and copy and found[0] and copy[0] else None


def time_of_launch(step, way):
    return next((row["gpu_us"] for row in step.get("rows", []) if row["way"] == way), None)


def time_of_nccl_tests(log):
    """Microseconds of 8 bytes, out of place."""
    found = re.search(r"^ +8 +\d+ +\w+ +\w+ +-?\d+ +([\d.]+)", log.read_text(), re.MULTILINE) if log.exists() else None
    return float(found.group(1)) if found else None

#!/usr/bin/env python3
"""Whether the emulator finds bugs that are planted in the kernels. Usage: planted.py ROOT BUILD CXX.

Each bug is an edit of a copy of the sources, built with ThreadSanitizer and run; the test must fail. The
same without an edit must pass. Exits with 77 (skipped) where the compiler has no ThreadSanitizer.
"""

import pathlib
import shutil
import subprocess
import sys

FLAGS = ["-std=c++20", "-O1", "-g1", "-fno-strict-aliasing", "-pthread", "-w"]
TSAN = ["-fsanitize=thread"]
EMULATOR = ["tests/emulator/emulator.cc", "tests/emulator/block.cc", "tests/emulator/fiber.cc"]
REPORTS_RACE, WRONG_DATA = "data race", "wrong data"

# What, where, the text and what is there instead, how it shows.
BUGS = [
    ("nothing", None, "", "", None),
    ("a flag is stored without release", "tests/emulator/ptx.h",
     "__atomic_store_n(to, value, __ATOMIC_RELEASE)", "__atomic_store_n(to, value, __ATOMIC_RELAXED)",
     REPORTS_RACE),
    ("no barrier before the flag", "kernels/cuda/interpret.cuh",
     "if (!move_data(h)) return false;\n      __syncthreads();", "if (!move_data(h)) return false;",
     REPORTS_RACE),
    ("no barrier before the operands are used", "kernels/cuda/interpret.cuh",
     "prepare(h);\n      if (__syncthreads_or(stated != w_.history)) return part(h, stated);", "prepare(h);",
     REPORTS_RACE),
    ("the wait does not acquire", "kernels/cuda/signal.cuh",
     "need.seen = ptx::load_acquire_sys(need.cell);", "need.seen = ptx::load_relaxed_sys(need.cell);", REPORTS_RACE),
    ("a slot is written before its credit", "kernels/cuda/interpret.cuh",
     "return {to.credit, credit_needed(p_, *to.position), Awaited::credit, to.peer};", "return {};",
     REPORTS_RACE),
    ("a packet is taken on one flag", "kernels/cuda/packets.cuh",
     "packet.low >> 32 == flag && packet.high >> 32 == flag", "packet.low >> 32 == flag", WRONG_DATA),
    ("nobody tells where buffers are", "kernels/cuda/interpret.cuh",
     "if (p_.tell != nullptr && !tell_buffers()) return;", "", WRONG_DATA),
]


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def build(root, folder, compiler, objects):
    program = folder / "planted"
    made = run([compiler, *FLAGS, *TSAN, "-I", str(root), "-I", str(root / "tests"),
                str(root / "tests/kernels/cuda/planted.cc"), *objects, "-o", str(program)])
    if made.returncode:
        sys.exit(made.stderr)
    return program


def verdict(program):
    """How the program failed; None where it did not."""
    no_aslr = ["setarch", "-R"] if run(["setarch", "-R", "true"]).returncode == 0 else []
    ran = run([*no_aslr, str(program)], timeout=300, env={"TSAN_OPTIONS": "halt_on_error=1"})
    if REPORTS_RACE in ran.stderr:
        return REPORTS_RACE
    return WRONG_DATA if ran.returncode else None


def plant(root, copy, file, text, instead):
    for folder in ("base", "kernels", "tests/emulator", "tests/kernels/cuda"):
        shutil.copytree(root / folder, copy / folder, dirs_exist_ok=True)
    if file is None:
        return
    source = (copy / file).read_text()
    if source.count(text) != 1:
        sys.exit(f"{file} does not have {text!r} once")
    (copy / file).write_text(source.replace(text, instead))


def main():
    root, folder, compiler = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "probe.cc").write_text("int main() {}\n")
    if run([compiler, *TSAN, str(folder / "probe.cc"), "-o", str(folder / "probe")]).returncode:
        print(f"skipped: {compiler} has no ThreadSanitizer")
        return 77
    objects = []
    for source in [*EMULATOR, "base/types.cc"]:
        objects.append(str(folder / (pathlib.Path(source).stem + ".o")))
        made = run([compiler, *FLAGS, "-O2", "-DWEFT_EMULATOR_TSAN", "-I", str(root), "-c",
                    str(root / source), "-o", objects[-1]])
        if made.returncode:
            sys.exit(made.stderr)
    wrong = 0
    for what, file, text, instead, expected in BUGS:
        copy = folder / "copy"
        plant(root, copy, file, text, instead)
        found = verdict(build(copy, folder, compiler, objects))
        print(f"{what}: {found or 'passes'}" + ("" if found == expected else f"; expected {expected}"))
        wrong += found != expected
        shutil.rmtree(copy)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

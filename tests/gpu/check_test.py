#!/usr/bin/env python3
"""Tests check.py, against programs that pretend, and on GPUs made of threads."""

import argparse
import json
import os
import pathlib
import py_compile
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("check", type=pathlib.Path, help="check.py")
parser.add_argument("bin", type=pathlib.Path, help="the build's folder of programs")
parser.add_argument("--built", nargs="+", default=[], type=pathlib.Path, help="what `make gpu-check` builds")
parser.add_argument("--emulated", help="weft-bench on GPUs made of threads")
options = parser.parse_args()
CHECK, BIN, EMULATED = options.check, options.bin, options.emulated

sys.path.insert(0, str(CHECK.parent))
sys.dont_write_bytecode = True
import check as the_check  # pylint: disable=wrong-import-position
import gpus  # pylint: disable=wrong-import-position
import targets  # pylint: disable=wrong-import-position
from step import SKIPPED, Step  # pylint: disable=wrong-import-position

COMMAND = [sys.executable, "-B", CHECK, "--build", BIN.parent, "--quick", "--python", "/bin/false"]

# Finds a GPU, and then does what each test says.
PRETENDER = """#!/bin/sh
case "$*" in *"--gpus 65535"*) echo "there is no GPU 65535; there are 1"; exit 2;; esac
{}
"""


# Looks at nothing.
SANITIZER = """#!/bin/sh
while [ "$1" != --error-exitcode ]; do shift; done
shift 2
"$@" || exit
echo "========= ERROR SUMMARY: 0 errors"
"""


def check(out, *arguments, path=os.environ["PATH"]):
    ended = subprocess.run([*COMMAND, "--out", out, *arguments], capture_output=True, text=True, timeout=100, check=False,
                           env={**os.environ, "PATH": path})
    file = pathlib.Path(out) / "gpu-check.json"
    return ended, json.loads(file.read_text()) if file.exists() else None


class Check(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def script(self, name, text):
        program = pathlib.Path(self.out) / name
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return str(program)

    def pretender(self, does):
        return self.script("weft-bench", PRETENDER.format(does))

    def pretend(self, does, *arguments):
        return check(self.out, "--bench", self.pretender(does), *arguments)

    def measures(self, **found):
        rows = {"rows": [{"size_bytes": 8, "out_of_place": {"time_us": 1, **found}, "in_place": None}]}
        return f"""while [ "$1" != -J ]; do shift; done; echo '{json.dumps(rows)}' > "$2" """

    def path_with_sanitizer(self, text=SANITIZER):
        return self.path_with("compute-sanitizer", text)

    def path_with(self, name, text):
        return os.path.dirname(self.script(name, text)) + ":" + os.environ["PATH"]

    def path_with_gpu(self, capability):
        return self.path_with("nvidia-smi", f"""#!/bin/sh
case $1 in --query-gpu=name) echo NVIDIA H900;; --query-gpu=compute_cap) echo {capability};; *) exit 1;; esac
""")

    def wait_until(self, true):
        deadline = time.monotonic() + 30
        while not true():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def failed(self, result):
        return {step["name"]: step["note"] for step in result["steps"] if step["outcome"] == "FAILED"}

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "this machine has a GPU")
    def test_without_a_gpu_it_is_skipped(self):
        ended, result = check(self.out)
        self.assertEqual(ended.returncode, SKIPPED, ended.stderr)
        self.assertRegex(ended.stdout, "gpu-check: there is no GPU: ")
        self.assertIsNone(result)

    def test_where_weft_has_no_cuda_it_is_said_what_to_install(self):
        program = self.script("weft-bench", "#!/bin/sh\necho there is no GPU: weft was built without CUDA; build it; exit 1\n")
        ended, result = check(self.out, "--bench", program, path=self.path_with_gpu("9.0"))
        self.assertEqual((ended.returncode, result), (SKIPPED, None), ended.stderr)
        self.assertIn("there is no GPU: weft was built without CUDA", ended.stdout)
        self.assertIn("This machine HAS a GPU (NVIDIA H900)", ended.stdout)
        self.assertIn("Install NVIDIA's CUDA toolkit 12.4 or newer", ended.stdout)

    @unittest.skipIf(not gpus.built_for(BIN.parent), "the build does not say which architectures it is for")
    def test_gpus_that_weft_was_not_built_for(self):
        for capability, told in (("12.7", '-DWEFT_CUDA_ARCHITECTURES="127"'), ("7.0", "weft needs 8.9 or newer")):
            ended, result = check(self.out, "--bench", self.pretender("exit 3"), path=self.path_with_gpu(capability))
            self.assertEqual((ended.returncode, result), (1, None))
            self.assertIn(f"this machine has GPUs of compute capability {capability}", ended.stderr)
            self.assertIn(told, ended.stderr)

    def test_what_was_built_for_a_gpu(self):
        for here, built, runs in (([90], [90], True), ([90], [80, 90], True), ([103], [100], True), ([100], [103], False),
                                  ([90, 100], [90], False), ([90], [], True), ([], [90], True)):
            self.assertEqual(gpus.why_not_built_for(here, built) is None, runs, (here, built))

    def test_make_builds_for_the_gpus_that_are_here(self):
        for told, architectures in (("9.0; echo 10.0; echo 9.0", "90;100"), ("No devices were found", ""),
                                    ("12.0; echo 7.5", "120"), ("7.5", ""), ("9.0; exit 9", "")):
            script = CHECK.with_name("gpus.py")
            ended = subprocess.run([sys.executable, "-B", script], capture_output=True, text=True, check=True,
                                   env={**os.environ, "PATH": self.path_with_gpu(told)})
            self.assertEqual(ended.stdout.strip(), architectures)

    @unittest.skipIf(EMULATED is None, "built without the emulated kernels")
    def test_on_emulated_gpus(self):
        ended, result = check(self.out, "--bench", EMULATED, path=self.path_with_sanitizer())
        # Those of CUDA would need the GPU itself.
        outcome = {step["name"]: step["outcome"] for step in result["steps"] if "_cuda_test" not in step["name"]}
        for name in ("nccl-tests", "python-ctypes", *(name for name in outcome if name.startswith("launches-"))):
            outcome.pop(name, None)  # without what they need
        for name in ("python-torch", "python-torch-one-gpu", "python-cupy"):
            self.assertEqual(outcome.pop(name), "FAILED")  # /bin/false
        self.assertEqual(set(outcome.values()), {"passed"}, ended.stdout)
        for name in ("sweep-2", "processes-2", "graphs", "graphs-processes", "sweep-2-stream", "graphs-stream",
                     "memcheck-1", "racecheck-2-stream", "memcheck-2", "memcheck-kernels", "hosts-threads", "hosts-processes",
                     "gpus-threads", "gpus-processes", "kernels", "latency-2-graph", "bandwidth-2", "bandwidth-2-processes", "bandwidth-gpus"):
            self.assertIn(name, outcome)
        measured = [target["what"] for target in result["targets"] if target["outcome"] != "not measured"]
        self.assertEqual(measured, ["8 bytes, 2 ranks, from a graph"])
        self.assertEqual((result["gpus"], result["complete"]), (2, True))
        steps = {step["name"]: step for step in result["steps"]}
        self.assertRegex(steps["bandwidth-2"]["note"], r"^65536 bytes: [\d.]+ us, [\d.]+ GB/s(, [\d.]+ of the floor)?$")
        self.assertEqual([rank["device"]["ordinal"] for rank in steps["gpus-threads"]["ranks"]], [0, 1])
        self.assertTrue(steps["bandwidth-2"]["floor"]["gpus"])
        self.assertRegex(steps["kernels"]["note"], r"^of the copy's bandwidth: copy_kernel [\d.]+, reduce/float32 [\d.]+, ")

    def test_what_fails_is_named(self):
        ended, result = self.pretend("echo no luck; exit 3")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(self.failed(result)["sweep-1"], "exit status 3: no luck")
        self.assertIn("sweep-1: see ", ended.stdout)

    def test_ranks_get_as_many_work_queues_as_there_are(self):
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
            _, result = self.pretend('echo "$CUDA_DEVICE_MAX_CONNECTIONS queues"; exit 3', "--only", "^sweep-1")
        self.assertEqual(self.failed(result)["sweep-1"], "exit status 3: 32 queues")

    def test_wrong_values_fail(self):
        _, result = self.pretend(self.measures(wrong=1, touched=2))
        self.assertEqual(self.failed(result)["sweep-1"], "3 elements are wrong")

    def test_what_another_engine_runs_fails(self):
        _, result = self.pretend(self.measures(wrong=0, touched=0), "--only", "^sweep-2")
        self.assertEqual(self.failed(result), {"sweep-2-stream": "another engine ran it"})

    def test_a_sanitizer_that_runs_one_kernel_at_a_time(self):
        path = self.path_with_sanitizer(SANITIZER.replace("|| exit", "; exit"))
        pretender = self.pretender("echo weft-bench: timeout: no word from rank 1; exit 1")
        _, result = check(self.out, "--bench", pretender, "--only", "^(mem|race|sync)", path=path)
        failed = self.failed(result)
        for tool in ("memcheck", "racecheck", "synccheck"):
            for step in (f"{tool}-1", f"{tool}-2-stream"):
                self.assertEqual(failed.pop(step), "exit status 1: weft-bench: timeout: no word from rank 1")
        self.assertEqual(failed, {})
        notes = {step["name"]: (step["outcome"], step["note"]) for step in result["steps"]}
        self.assertEqual(notes["memcheck-2"], ("skipped", "not run: the sanitizer does not run kernels side by side"))

    def test_what_a_sanitizer_finds_fails(self):
        path = self.path_with_sanitizer("#!/bin/sh\necho timeout: too, because of that; exit 9\n")
        _, result = check(self.out, "--bench", self.pretender("exit 3"), "--only", "^memcheck-2$", path=path)
        self.assertEqual(self.failed(result), {"memcheck-2": "exit status 9: timeout: too, because of that"})

    def test_programs_of_nccl_tests(self):
        folder = pathlib.Path(self.out) / "build"
        folder.mkdir()
        for name, wrong in (("all_reduce_perf", "0 OK"), ("broadcast_perf", "2 FAILED")):
            program = folder / name
            program.write_text(f"""#!/bin/sh
echo "NCCL version 2.28.9${{LD_PRELOAD:+ (weft 0.1.0)}}"
echo "           8             2     float     sum      -1    ${{LD_PRELOAD:+1}}1.50    0.00    0.00      0"
echo "# Out of bounds values : {wrong}"
""")
            program.chmod(0o755)
        program = folder / "static_perf"  # the preloaded library does not reach it
        program.write_text("#!/bin/sh\necho NCCL version 2.28.9; echo '# Out of bounds values : 0 OK'\n")
        program.chmod(0o755)
        _, result = self.pretend("exit 3", "--nccl-tests", self.out)
        failed = self.failed(result)
        for name in ("all_reduce_perf", "all_reduce_perf-graph"):
            self.assertNotIn(f"nccl-tests-{name}", failed)
        self.assertEqual(failed["nccl-tests-broadcast_perf"], "it does not say that 0 values are wrong")
        self.assertEqual(failed["nccl-tests-static_perf"], "it did not use weft, but another NCCL")
        target = result["targets"][1]
        self.assertEqual((target["measured"], target["wanted"]), (11.5, 1.5))
        self.assertEqual(target["outcome"], "MISSED by a factor of 7.67")

    def compare_launches(self, weft, installed):
        """Outcome and note of each step, where a program does that by one library or the other."""
        build, another = pathlib.Path(self.out) / "built", pathlib.Path(self.out) / "another"
        for folder in ("bin", "lib"):
            (build / folder).mkdir(parents=True)
        for library in (build / "lib" / "libnccl.so.2", another):
            library.touch()
        (build / "bin" / "weft-micro-nccl").symlink_to(self.script("launches", f"""#!/bin/sh
case $1 in *libnccl.so.2) {weft};; *) {installed};; esac
"""))
        _, result = self.pretend("exit 3", "--build", str(build), "--nccl", str(another), "--only", "^launches")
        return {step["name"]: (step["outcome"], step["note"]) for step in result["steps"]}, result["targets"]

    def test_launches_beside_the_nccl_that_is_installed(self):
        def writes(told, says=""):
            return f"""echo '{says}'; echo '{json.dumps({"version": 22809, "ranks": 2, "rows": [], **told})}' > "$5" """
        rows = [{"way": way, "gpu_us": 3.5, "host_us": 2} for way in ("eager", "graph")]
        refuses = f'case $3 in 1) {writes({"rows": rows})};; *) {writes({"refused": "one GPU each"})};; esac'
        steps, aims = self.compare_launches(writes({"rows": rows}, "NCCL version 2.28.9 (weft 0.1.0)"), refuses)
        measured = ("passed", "NCCL 2.28.9: eager 3.50 us (host 2.00), graph 3.50 us (host 2.00)")
        self.assertEqual(steps, {"launches-weft": measured, "launches-weft-2": measured, "launches-installed": measured,
                                 "launches-installed-2": ("passed", "NCCL 2.28.9 refuses 2 ranks on a GPU: one GPU each")})
        self.assertEqual([(aim["measured"], aim["wanted"]) for aim in aims[2:4]], [(3.5, 3.5)] * 2)

    def test_launches_that_fail_do_so_by_weft_only(self):
        says = "echo no luck; exit 1"
        steps, _ = self.compare_launches(says, says)
        for name in ("launches-weft", "launches-weft-2"):
            self.assertEqual(steps[name], ("FAILED", "exit status 1: no luck"))
        for name in ("launches-installed", "launches-installed-2"):
            self.assertEqual(steps[name], ("skipped", "by the NCCL that is installed: exit status 1: no luck"))

    def test_weft_may_not_refuse_and_has_to_be_weft(self):
        told = {"version": 22809, "ranks": 2, "rows": []}
        refuses = f"""echo '{json.dumps({**told, "refused": "never"})}' > "$5" """
        another = f"""echo '{json.dumps({**told, "rows": [{"way": "eager", "gpu_us": 1, "host_us": 1}]})}' > "$5" """
        steps, _ = self.compare_launches(f"case $3 in 1) {another};; *) {refuses};; esac", "echo '(weft 0.1.0)'")
        self.assertEqual(steps["launches-weft"], ("FAILED", "it did not use weft, but another NCCL"))
        self.assertEqual(steps["launches-weft-2"], ("FAILED", "it refused: never"))
        self.assertEqual(steps["launches-installed"], ("skipped", "what is installed is weft"))

    def test_no_rows_fail(self):
        _, result = self.pretend("exit 0")
        self.assertEqual(self.failed(result)["large"], "it measured nothing")

    def test_a_step_that_hangs_is_killed(self):
        pids = pathlib.Path(self.out) / "pids"
        ended, result = self.pretend(f"sleep 1000 & echo $! $$ >> {pids}; wait", "--only", "^(sweep-.|large)$", "--limit", "1.5")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(self.failed(result), {name: "it did not end within its limit"
                                               for name in ("sweep-1", "sweep-2", "large")})
        self.assertIn("large: see ", ended.stdout)
        self.assertEqual(len(result["steps"]), 3)
        for pid in pids.read_text().split():
            self.wait_until(lambda pid=pid: not self.runs(pid))

    def runs(self, pid):
        try:
            return ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False

    def test_targets(self):
        row = {"size_bytes": 256 << 20, "floor_us": 90, "out_of_place": {"time_us": 100}}
        rates = {"copy": 100, "reduce/float32": 96, **{f"reduce/{of}": 90 for of in targets.NARROW_TYPES}, "reduce/int8": 17}
        kernels = [{"run_name": f"{name}/iterations:3/manual_time", "aggregate_name": "median", "bytes_per_second": rate}
                   for name, rate in rates.items()]
        launches = {who: {"rows": [{"way": "eager", "gpu_us": 5}, {"way": "graph", "gpu_us": graph_us}]}
                    for who, graph_us in (("launches-weft", 4), ("launches-installed", 2))}
        passed = {**launches, "bandwidth-2": {"rows": [row]}, "bandwidth-8": {"rows": [{**row, "floor_us": 40}]},
                  "kernels": {"command": ["weft-micro-gpu", str(targets.KERNEL_BYTES)], "rows": kernels}}
        outcomes = [target.outcome() for target in targets.targets(passed, pathlib.Path(self.out))]
        self.assertEqual(outcomes, ["not measured"] * 2 + ["met", "MISSED by a factor of 2.00"] +
                         ["met", "not measured", "MISSED by a factor of 2.00",
                                    "not measured", "not measured", "not measured", "met",
                                    "MISSED by a factor of 5.00"])
        passed["kernels"]["command"][1] = "65536"  # another size is not what is aimed at
        outcomes = [target.outcome() for target in targets.targets(passed, pathlib.Path(self.out))]
        self.assertEqual(outcomes[-2:], ["not measured", "not measured"])

    def test_figures_of_earlier_runs_do_not_count(self):
        figures = pathlib.Path(self.out) / "old.json"
        figures.write_text('{"rows": [1]}')
        the_check.take(Step("old", ["true"], 10, figures=figures), pathlib.Path(self.out))
        self.assertFalse(figures.exists())

    def test_who_ends_it_ends_its_steps(self):
        program = self.pretender("echo $$ > $(dirname $0)/pid; exec sleep 1000")
        pid = pathlib.Path(self.out) / "pid"
        with subprocess.Popen([*COMMAND, "--out", self.out, "--bench", program], stdout=subprocess.DEVNULL) as process:
            self.wait_until(pid.exists)
            self.wait_until(lambda: pid.read_text().strip())
            process.terminate()
            self.assertEqual(process.wait(30), 128 + signal.SIGTERM)
        self.wait_until(lambda: not self.runs(pid.read_text().strip()))
        self.assertFalse(json.loads((pathlib.Path(self.out) / "gpu-check.json").read_text())["complete"])

    def test_without_weft_bench_it_fails(self):
        ended, result = check(self.out, "--bench", "/nonexistent")
        self.assertEqual((ended.returncode, result), (1, None))
        self.assertIn("/nonexistent does not say how many GPUs there are", ended.stderr)

    @unittest.skipIf(len(options.built) < 2, "built without CUDA")
    def test_what_it_runs_is_built_before(self):
        build = BIN.parent.resolve()
        of_steps = argparse.Namespace(build=build, bench=None, quick=False, nccl_tests=None, nccl=None, python=sys.executable)
        used = set()
        for step in the_check.steps_of(of_steps, pathlib.Path(self.out), gpus=2):
            words = [str(word) for word in [*step.command, *(step.environment or {}).values()]]
            used |= {word for word in words if word.startswith(f"{build}/")}
        # The build's link to the library is not the file that it is.
        self.assertEqual({os.path.realpath(file) for file in used}, {os.path.realpath(file) for file in options.built})

    def test_the_scripts_compile(self):
        for script in CHECK.parent.glob("*.py"):
            py_compile.compile(str(script), cfile=os.path.join(self.out, "compiled"), doraise=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

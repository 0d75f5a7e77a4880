#!/usr/bin/env python3
"""Tests check.py: check_test.py CHECK BIN [BENCH-ON-EMULATED-GPUS]. BIN is the build's folder of programs."""

import json
import os
import pathlib
import py_compile
import stat
import subprocess
import sys
import tempfile
import unittest

CHECK, BIN = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
EMULATED = sys.argv[3] if len(sys.argv) > 3 else None
SKIPPED = 77

# Finds a GPU, and then does what each test says.
PRETENDER = """#!/bin/sh
case "$*" in *"--gpus 65535"*) echo "there is no GPU 65535; there are 1"; exit 2;; esac
{}
"""


def check(out, *arguments):
    ended = subprocess.run([sys.executable, "-B", CHECK, "--build", BIN.parent, "--out", out, "--quick",
                            "--python", "/bin/false", *arguments], capture_output=True, text=True, timeout=100, check=False)
    file = pathlib.Path(out) / "gpu-check.json"
    return ended, json.loads(file.read_text()) if file.exists() else None


class Check(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def pretend(self, does, *arguments):
        program = pathlib.Path(self.out) / "weft-bench"
        program.write_text(PRETENDER.format(does))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return check(self.out, "--bench", str(program), *arguments)

    def failed(self, result):
        return {step["name"]: step["note"] for step in result["steps"] if step["outcome"] == "FAILED"}

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "this machine has a GPU")
    def test_without_a_gpu_it_is_skipped(self):
        ended, result = check(self.out)
        self.assertEqual(ended.returncode, SKIPPED, ended.stderr)
        self.assertRegex(ended.stdout, "gpu-check: there is no GPU: ")
        self.assertIsNone(result)

    @unittest.skipIf(EMULATED is None, "built without the emulated kernels")
    def test_on_emulated_gpus(self):
        ended, result = check(self.out, "--bench", EMULATED, "--threads-only")
        outcome = {step["name"]: step["outcome"] for step in result["steps"]}
        # These would need the GPU itself, or what is not there.
        for name in ("device_cuda_test", "nccl_cuda_test", "nccl-tests", "memcheck", "gpus-processes", "bandwidth-gpus"):
            outcome.pop(name, None)
        for name in ("python-torch", "python-cupy"):
            self.assertEqual(outcome.pop(name), "FAILED")  # /bin/false
        self.assertEqual(set(outcome.values()), {"passed"}, ended.stdout)
        for name in ("sweep-2", "graphs", "gpus-threads", "latency-2-graph", "bandwidth-2"):
            self.assertIn(name, outcome)
        self.assertEqual([target["what"] for target in result["targets"]], ["8 bytes, 2 ranks, from a graph"])
        self.assertEqual(result["gpus"], 2)

    def test_what_fails_is_named(self):
        ended, result = self.pretend("echo no luck; exit 3")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(self.failed(result)["sweep-1"], "exit status 3: no luck")
        self.assertIn("sweep-1: see ", ended.stdout)

    def test_wrong_values_fail(self):
        _, result = self.pretend("""while [ "$1" != -J ]; do shift; done; cat > "$2" <<END
            {"rows": [{"size_bytes": 8, "out_of_place": {"wrong": 1, "touched": 2, "time_us": 1}, "in_place": null}]}
END""".replace("{", "{{").replace("}", "}}").format())
        self.assertEqual(self.failed(result)["sweep-1"], "3 elements are wrong")

    def test_programs_of_nccl_tests(self):
        folder = pathlib.Path(self.out) / "build"
        folder.mkdir()
        for name, wrong in (("all_reduce_perf", 0), ("broadcast_perf", 2)):
            program = folder / name
            program.write_text(f"""#!/bin/sh
echo "           8             2     float     sum      -1    ${{LD_PRELOAD:+1}}1.50    0.00    0.00      0"
echo "# Out of bounds values : {wrong} OK"
""")
            program.chmod(0o755)
        _, result = self.pretend("exit 3", "--nccl-tests", self.out)
        failed = self.failed(result)
        self.assertNotIn("nccl-tests-all_reduce_perf", failed)
        self.assertEqual(failed["nccl-tests-broadcast_perf"], "it does not say that 0 values are wrong")
        self.assertEqual(result["targets"], [{"what": "8 bytes, 1 rank, nccl-tests", "measured": "11.50 us", "met": False,
                                              "wanted": "at most 1.50 us, by what it is linked with"}])

    def test_no_rows_fail(self):
        _, result = self.pretend("exit 0")
        self.assertEqual(self.failed(result)["large"], "it measured nothing")

    def test_a_step_that_hangs_is_killed(self):
        sys.path.insert(0, str(CHECK.parent))
        sys.dont_write_bytecode = True
        import check as module  # pylint: disable=import-outside-toplevel
        step = module.Step("hangs", ["sh", "-c", "sleep 1000 & sleep 1000"], 0.2)
        outcome, note, seconds = module.take(step, pathlib.Path(self.out))
        self.assertEqual((outcome, note), ("FAILED", "it did not end within its limit"))
        self.assertLess(seconds, 10)

    def test_the_scripts_compile(self):
        for script in CHECK.parent.glob("*.py"):
            py_compile.compile(str(script), cfile=os.path.join(self.out, "compiled"), doraise=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

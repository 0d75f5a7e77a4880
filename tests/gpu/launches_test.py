#!/usr/bin/env python3
"""Tests weft-micro-nccl with weft inside, on GPUs made of threads: launches_test.py PROGRAM."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]


def measure(*arguments, library="", **environment):
    """The process that has ended, and its figures."""
    with tempfile.TemporaryDirectory() as folder:
        figures = os.path.join(folder, "figures.json")
        ended = subprocess.run(
            [PROGRAM, library, *arguments, "--calls", "5", "--rounds", "3", "-J", figures], capture_output=True, text=True,
            timeout=60, check=False, env={**os.environ, "WEFT_TUNING": "off", "WEFT_DEVICE": "0", "WEFT_TIMEOUT": "20",
                                          **environment})
        if not os.path.exists(figures):
            return ended, None
        with open(figures, encoding="utf-8") as file:
            return ended, json.load(file)


class Launches(unittest.TestCase):
    def test_ranks_that_share_a_gpu(self):
        for ranks in (1, 2):
            ended, figures = measure("--ranks", str(ranks))
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertEqual((figures["gpu"], figures["ranks"], figures["version"] // 10000), ("emulated", ranks, 2))
            self.assertEqual([row["way"] for row in figures["rows"]], ["eager", "graph"])
            for row in figures["rows"]:
                self.assertGreater(row["gpu_us"], 0)
                self.assertGreater(row["host_us"], 0)

    def test_a_refusal_is_a_result(self):
        ended, figures = measure("--ranks", "9", CUDA_DEVICE_MAX_CONNECTIONS="8")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("work queues", figures["refused"])
        self.assertEqual(figures["rows"], [])

    def test_wrong_values_fail(self):
        # Without a device its calls are the host's, which graphs do not capture.
        ended, figures = measure("--ranks", "2", WEFT_DEVICE="none")
        self.assertEqual((ended.returncode, figures), (1, None))
        self.assertIn("has 0.000000, not 3.000000", ended.stderr)

    def test_what_is_no_nccl_is_named(self):
        for library, why in (("/nonexistent", "/nonexistent: cannot open"), ("libm.so.6", "libm.so.6 has no ncclAllReduce")):
            ended, figures = measure(library=library)
            self.assertEqual((ended.returncode, figures), (1, None))
            self.assertIn(why, ended.stderr)

    def test_usage(self):
        ended, _ = measure("--ranks", "0")
        self.assertEqual(ended.returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

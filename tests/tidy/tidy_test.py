#!/usr/bin/env python3
"""Every rule of tidy.py can fail, and passes what is right."""

import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import settings
import tidy

HEADER = "#pragma once\n"


def violations(**files):
    """Of files given as base__clock_h="text"."""
    named = {}
    for name, text in files.items():
        stem, suffix = name.replace("__", "/").rsplit("_", 1)
        named[f"{stem}.{suffix}"] = text
    return list(tidy.check(named))


def sizes(text):
    return [(first, lines) for first, lines, _ in tidy.functions(textwrap.dedent(text))]


class Edges(unittest.TestCase):
    def edge(self, source, target):
        """Whether `source` may include `target`."""
        files = {source: f'{HEADER}#include "{target}"\n', target: HEADER}
        return not [v for v in tidy.check(files) if "may not include" in v]

    def test_allowed(self):
        for source, target in [
            ("kernels/reduce.h", "base/types.h"),
            ("transport/tcp/tcp.h", "transport/transport.h"),
            ("transport/backends.cc", "transport/tcp/tcp.h"),
            ("engine/communicator.cc", "engine/tuner/tuner.h"),
            ("engine/communicator.cc", "bootstrap/rendezvous.h"),
            ("engine/tuner/tuner.h", "engine/algorithms/catalog.h"),
            ("engine/executor/cpu.h", "engine/schedule/schedule.h"),
            ("nccl/nccl.cc", "engine/communicator.h"),
            ("bench/micro_reduce.cc", "kernels/reduce.h"),
            ("tools/schedule.cc", "engine/tuner/tuner.h"),
            ("tests/base/clock_test.cc", "engine/executor/cpu.h"),
        ]:
            self.assertTrue(self.edge(source, target), f"{source} -> {target}")

    def test_forbidden(self):
        for source, target in [
            ("base/clock.h", "kernels/reduce.h"),
            ("kernels/reduce.h", "transport/transport.h"),
            ("transport/tcp/tcp.h", "transport/shm/shm.h"),
            ("bootstrap/rendezvous.h", "transport/transport.h"),
            ("engine/schedule/schedule.h", "engine/algorithms/ring.h"),
            ("engine/algorithms/ring.h", "engine/tuner/tuner.h"),
            ("engine/tuner/tuner.h", "engine/executor/cpu.h"),
            ("engine/executor/cpu.h", "engine/tuner/tuner.h"),
            ("engine/executor/cpu.h", "engine/communicator.h"),
            ("fabric/fabric.h", "engine/plan.h"),
            ("nccl/nccl.cc", "fabric/fabric.h"),
            ("bench/main.cc", "kernels/reduce.h"),
            ("tools/schedule.cc", "engine/executor/cpu.h"),
            ("engine/communicator.cc", "tests/support/cluster.h"),
        ]:
            self.assertFalse(self.edge(source, target), f"{source} -> {target}")

    def test_missing_file_and_unknown_layer(self):
        self.assertIn("is not a file", violations(base__a_h=HEADER + '#include "clock.h"\n')[0])
        self.assertIn("no such layer", violations(other__a_cc="")[0])

    def test_cycle(self):
        found = violations(base__a_h=HEADER + '#include "base/b.h"\n',
                           base__b_h=HEADER + '#include "base/a.h"\n')
        self.assertEqual(found, ["base/a.h:1: includes go in a circle: "
                                 "base/a.h -> base/b.h -> base/a.h"])


class Types(unittest.TestCase):
    def test_one_name_for_two_types(self):
        a = HEADER + "namespace weft {\nstruct Place {\n};\n}  // namespace weft\n"
        self.assertEqual(violations(base__a_h=a, base__b_h=a),
                         ["base/b.h:3: weft::Place is the name of another type, in base/a.h"])
        for other in [a.replace("struct Place {", "class Place final : public X {"),
                      a.replace("struct Place", "class [[nodiscard]] Place"),
                      a.replace("struct Place", "enum class Place : int")]:
            self.assertEqual(len(violations(base__a_h=a, base__b_h=other)), 1, other)

    def test_names_of_their_own(self):
        a = HEADER + "namespace weft {\nstruct Place {\n};\n}  // namespace weft\n"
        for other in [a.replace("weft", "weft::fabric"), a.replace("struct Place {\n}", "struct Place"),
                      a.replace("Place", "Way::Place"), "namespace {\nstruct Place {\n};\n}  // namespace\n",
                      a.replace("weft {", "weft {\nnamespace {").replace("}  //", "}  // namespace\n}  //")]:
            self.assertEqual(violations(base__a_h=a, base__b_h=HEADER + other.replace(HEADER, "")), [], other)


class Text(unittest.TestCase):
    def test_file_size(self):
        self.assertEqual(violations(base__a_cc="\n" * 500), [])
        self.assertIn("501 lines", violations(base__a_cc="\n" * 501)[0])

    def test_markers(self):
        self.assertIn("do it now", violations(base__a_cc="// TO" "DO: later\n")[0])

    def test_environment(self):
        self.assertIn("reads the env", violations(base__a_cc='auto x = getenv("A");\n')[0])
        self.assertIn("reads the env", violations(tests__a_cc="extern char** environ;\n")[0])
        self.assertEqual(violations(base__env_cc="extern char** environ;\n"), [])
        self.assertEqual(violations(base__a_cc='// environ\nauto x = "getenv";\n'), [])

    def test_iostream(self):
        self.assertIn("<iostream>", violations(base__a_cc="#include <iostream>\n")[0])
        self.assertEqual(violations(tools__a_cc="#include <iostream>\n"), [])

    def test_pragma_once(self):
        self.assertIn("#pragma once", violations(base__a_h="int f();\n")[0])
        self.assertIn("#pragma once", violations(base__a_h="// #pragma once\n")[0])

    def test_own_header_first(self):
        first = '#include "base/a.h"\n#include <map>\n'
        self.assertEqual(violations(base__a_h=HEADER, base__a_cc="// What.\n" + first), [])
        for text in ("#include <map>\n" + first, ""):
            self.assertIn('"base/a.h" first', violations(base__a_h=HEADER, base__a_cc=text)[0])

    def test_standard_headers(self):
        uses = "std::vector<int> x;\n"
        self.assertEqual(violations(base__a_cc="\n" + uses), ["base/a.cc:2: std::vector without #include <vector>"])
        for header in ("thread", "memory"):  # with names that differ by more than a letter
            for name in ("std::this_thread::yield()", "std::make_unique_for_overwrite<int[]>(1)"):
                missing = violations(base__a_cc=f"#include <{header}>\nauto x = {name};\n")
                self.assertEqual(not missing, (header == "thread") == ("thread" in name), missing)
        for text in ("#include <vector>\n" + uses, "// " + uses, "own::vector x;\n",
                     "#include <string>\nstd::string_view x;\n"):
            self.assertEqual(violations(base__a_cc=text), [], text)

    def test_standard_headers_of_headers(self):
        a, b = HEADER + "#include <map>\n", HEADER + '#include "base/a.h"\n'
        uses = '#include "base/b.h"\nstd::map<int, int> x;\n'
        self.assertEqual(violations(base__a_h=a, base__b_h=b, base__c_cc=uses), [])
        self.assertEqual(len(violations(base__a_h=HEADER, base__b_h=b, base__c_cc=uses)), 1)

    def test_function_size(self):
        body = "  g();\n"
        self.assertEqual(violations(base__a_cc="void f() {\n" + body * 68 + "}\n"), [])
        found = violations(base__a_cc="namespace weft {\nvoid f() {\n" + body * 69 + "}\n}\n")
        self.assertEqual(found, ["base/a.cc:2: 71 lines; a function has at most 70: void f()"])

    def test_unbalanced(self):
        self.assertIn("balance", violations(base__a_cc="void f() {\n")[0])


class Functions(unittest.TestCase):
    def test_signatures(self):
        self.assertEqual(sizes("""\
            namespace weft {
            class A final : public B<decltype(x)> {
             public:
              A(int x) : x_{x}, y_(x) {
                f();
              }
              int get() const { return x_; }
              auto g(X x = {}) -> int {
                return 0;
              }
              int x_ = 0;
            };
            struct alignas(64) Slot {
              int a[2] = {1, 2};
            };
            template <class T>
            void Long(const T& value,
                      std::function<void(int)> f) {
              if (value) {
                [&] { f(1); }();
              }
            }
            }  // namespace weft
            """), [(4, 3), (7, 1), (8, 3), (16, 7)])

    def test_initializers_are_no_functions(self):
        self.assertEqual(sizes("""\
            constexpr std::array<Pair, 2> kTable{{
                {"{", f(1)},
                {"}", 2},
            }};
            const std::map<int, int> kMap = {
                {1, 2},
            };
            void f() {
              return;
            }
            """), [(8, 3)])

    def test_literals_and_comments(self):
        self.assertEqual(sizes("""\
            void f() {  // {
              char c = '{';
              int n = 1'000'000;
              auto s = R"x({{{)x";  /* {
              { */
            }
            """), [(1, 6)])

    def test_preprocessor_branches(self):
        self.assertEqual(sizes("""\
            #define OPEN(x) \\
              if (x) {
            #ifdef A
            void f(int a) {
            #else
            void f(long a) {
            #endif
              g(a);
            }
            """), [(4, 6)])

    def test_operators_and_macros(self):
        self.assertEqual(sizes("""\
            TEST(Suite, Name) {
              EXPECT_EQ(1, 1);
            }
            bool operator==(const A& a, const A& b) noexcept {
              return true;
            }
            const auto kCompare = [](int a, int b) {
              return a < b;
            };
            """), [(1, 3), (4, 3), (7, 3)])


class Settings(unittest.TestCase):
    def test_both_ways(self):
        sources = ['read("WEFT_A", x); read("WEFT_IB_C", y); "WEFT_LAUNCHED"']
        listed = '"WEFT_CUDA"; kSettings[] = "WEFT_A", "WEFT_IB_C", "WEFT_LAUNCHED"'
        self.assertEqual(list(settings.check(sources, "| `WEFT_A`, `WEFT_IB_B`, `_C` |", listed)),
                         ["docs/settings.md has WEFT_IB_B, which nothing reads"])
        self.assertEqual(list(settings.check(sources, "| `WEFT_A` | WEFT_IB_C", listed)),
                         ["WEFT_IB_C is not in docs/settings.md"])
        self.assertEqual(list(settings.check(sources, "`WEFT_A`, `WEFT_IB_C`", 'kSettings[] = "WEFT_A", "WEFT_D"')),
                         ["WEFT_IB_C is not in base/settings.cc", "WEFT_LAUNCHED is not in base/settings.cc",
                          "base/settings.cc has WEFT_D, which nothing reads"])


class Script(unittest.TestCase):
    def test_exit_status(self):
        script = pathlib.Path(tidy.__file__)
        for text, status in [("#pragma once\n", 0), ("", 1)]:
            with tempfile.TemporaryDirectory() as root:
                (pathlib.Path(root) / "base").mkdir()
                (pathlib.Path(root) / "base" / "a.h").write_text(text)
                run = subprocess.run([sys.executable, script, root], capture_output=True)
                self.assertEqual(run.returncode, status, run.stdout)


if __name__ == "__main__":
    unittest.main()

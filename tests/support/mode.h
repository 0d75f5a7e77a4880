// How the ranks of a test run.
#pragma once

#include <string>

namespace weft::test {

enum class Mode { threads, processes };
inline std::string name(Mode mode) { return mode == Mode::threads ? "threads" : "processes"; }

}  // namespace weft::test

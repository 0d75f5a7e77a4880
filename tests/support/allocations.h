// Counts what this thread allocates by operator new. A test that uses it has allocations.cc among
// its own sources.
#pragma once

namespace weft::test {

void count_allocations();
int counted_allocations();  // since then; counting ends

}  // namespace weft::test

#include <cstdio>

#include "engine/communicator.h"

int main() {
  auto made = weft::Communicator::create_from_environment();
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.status().to_string().c_str());
    return 1;
  }
  const float in[2] = {1, 2};
  float out[2] = {0, 0};
  const weft::Status status =
      (*made)->all_reduce(in, out, 2, weft::DataType::float32, weft::ReduceOp::sum);
  std::puts(status.ok() && out[0] == 1 && out[1] == 2 ? "ok" : "wrong");
  return status.ok() ? 0 : 1;
}

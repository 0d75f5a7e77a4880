// CommConfig: an ncclConfig_t, read.
#pragma once

#include <string>

#include "base/env.h"
#include "base/status.h"
#include "nccl/nccl.h"

namespace weft::nccl {

// What this library takes from it; other fields are checked, and mean nothing without a GPU.
struct CommConfig {
  bool blocking = true;
  int min_ctas = 0;  // 0: not said
  int max_ctas = 0;
  std::string comm_name{};
  std::string net_name{};  // "Socket", "IB"; empty: not said
  int traffic_class = -1;  // of InfiniBand; -1: not said
};

// As NCCL reads it: a structure of another release may be shorter or longer; fields that its
// version did not have are not looked at. `usual`: where `config` is null, and of fields that are
// left to the library. NCCL_COMM_BLOCKING, NCCL_MIN_CTAS, NCCL_MAX_CTAS (and their older names),
// NCCL_NET and NCCL_IB_TC go before.
Result<CommConfig> read_config(const ncclConfig_t* config, const CommConfig& usual,
                               const Environment& env);

}  // namespace weft::nccl

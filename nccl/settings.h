// NCCL_* environment variables: what each is here, and the engine's Options that come of them.
#pragma once

#include <span>
#include <string_view>

#include "base/env.h"
#include "base/options.h"
#include "base/status.h"
#include "nccl/config.h"
#include "nccl/values.h"

namespace weft::nccl {

// One of NCCL's settings.
struct Setting {
  enum class Use : uint8_t {
    honoured,   // means what it means to NCCL
    no_gpu,     // about GPUs, NVLink or NVSwitch: nothing here
    no_plugin,  // about plugins: there are none
  };
  std::string_view name;
  std::string_view usual;  // its value where it is not set
  Use use;
  Values values{};
};

// All that are known, by name.
std::span<const Setting> settings();
// Null where it is not known. With or without "NCCL_" in front.
const Setting* find_setting(std::string_view name);

// Without those whose values mean nothing: they are as if they were not set. Numbers are decimal.
Environment meaningful(Environment env);

// The engine's options: WEFT_* variables, and where they say nothing NCCL_* ones and `config`.
Result<Options> options_for(const CommConfig& config, const Environment& env);

// NCCL_MULTI_RANK_GPU_ENABLE.
bool ranks_may_share_gpu(const Environment& env);

// Says on a process's first rank 0, once, which settings that are set do nothing here, and which
// values mean nothing, or cannot be kept to.
void report_unused(const Environment& env, int rank);

}  // namespace weft::nccl

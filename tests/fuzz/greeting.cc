// What ranks tell each other when a communicator is made, split, or shrunk.
#include "engine/greeting.h"

#include <algorithm>
#include <cstring>

#include "engine/algorithms/imported.h"
#include "engine/gather_texts.h"
#include "engine/import.h"
#include "engine/survivors.h"
#include "engine/tuner/tuning.h"
#include "tests/fuzz/target.h"

namespace {

using namespace weft;

Greeting good_greeting() {
  Greeting greeting;
  greeting.host = "here";
  greeting.cpus = {0, 1, 5};
  greeting.name = std::string(32, 'a');
  greeting.options = shared_options(Options());
  return greeting;
}

// As rank 1's greeting, and as that of all ranks.
void greet(const std::string& text) {
  static const std::string* const good = new std::string(to_text(good_greeting()));
  (void)read_greetings({*good, text}, "a.json");
  const auto read = read_greetings({text, text, text}, "a.json");
  if (!read.ok()) return;
  if (number_hosts(*read) != std::vector<int>{0, 0, 0}) __builtin_trap();
  if (shares_cpus(*read, 2) != (read->front().cpus.size() < 3)) __builtin_trap();
  const std::string written = to_text(read->front());
  const auto again = read_greetings({written}, "a.json");
  if (!again.ok() || to_text(again->front()) != written) __builtin_trap();
  const auto tuning = tuning_from_json(read->front().tuning);
  if (tuning.ok()) (void)network_of_job(*tuning, {0, 0, 1, 1}, "auto");
}

void introduce(const std::string& text) {
  const auto read = read_introductions({text, text});
  if (!read.ok()) return;
  const std::string written = to_text(read->front());
  const auto again = read_introductions({written});
  if (!again.ok() || to_text(again->front()) != written) __builtin_trap();
}

void prove(const std::string& text) {
  static const ImportedAlgorithm* const imported = [] {
    auto* made = new ImportedAlgorithm;
    const Schedule ring = schedule_of(*find_algorithm("ring"), {Kind::all_reduce, 2, 0, false}, {});
    made->file = std::make_shared<const ScheduleFile>(ScheduleFile{"ring", "", {ring}});
    return made;
  }();
  (void)with_proof(*imported, text);
}

void survive(std::string_view text) {
  constexpr int kRanks = 5;
  if (const auto ranks = survivors_from(text, kRanks, 0); ranks.ok())
    for (const Rank rank : *ranks)
      if (rank < 0 || rank >= kRanks) __builtin_trap();
  (void)survivors_texts_from(text, 2, 0);
}

// Every rank announces a length of two bytes, or one that cannot be; their texts follow.
void gather(std::string_view bytes) {
  constexpr size_t kRanks = 3;
  const auto run = [&bytes](const Call& call) {
    if (call.varying) {
      size_t total = 0;
      for (const size_t count : call.counts) total += count;
      const size_t there = std::min(total, bytes.size());
      std::memcpy(call.output, bytes.data(), there);
      return there == total ? Status() : Status(Code::peer_lost, "a rank died");
    }
    uint64_t lengths[kRanks] = {};
    for (uint64_t& length : lengths) {
      uint16_t number = 0;
      if (bytes.size() < 3) return Status(Code::peer_lost, "a rank died");
      std::memcpy(&number, bytes.data() + 1, sizeof number);
      length = uint64_t{number} << (bytes[0] % 2 == 0 ? 0 : 48);
      bytes.remove_prefix(3);
    }
    std::memcpy(call.output, lengths, sizeof lengths);
    return Status();
  };
  const auto texts = gather_texts(kRanks, run, "mine");
  if (texts.ok() && texts->size() != kRanks) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(fuzz::text_of(data, size));
  greet(text);
  introduce(text);
  prove(text);
  survive(text);
  gather(text);
  return 0;
}

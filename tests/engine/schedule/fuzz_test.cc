// Texts that were damaged at random, from a seed, are refused or proven, and never more than that:
// sanitizers watch.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "engine/algorithms/imported.h"
#include "tests/engine/schedule/samples.h"

namespace weft {
namespace {

constexpr int kSlots[] = {2, 3};

class Damage {
 public:
  // Every other seed changes numbers only: what is JSON still, gets further.
  explicit Damage(uint32_t seed) : random_(seed), numbers_only_(seed % 2 == 1) {}

  std::string inflict(std::string text) {
    for (size_t n = 1 + below(3); n > 0 && !text.empty(); --n) once(text);
    return text;
  }

 private:
  size_t below(size_t limit) { return random_() % limit; }

  void once(std::string& text) {
    switch (numbers_only_ ? 4 : below(5)) {
      case 0: text[below(text.size())] = static_cast<char>(random_()); break;
      case 1: text.erase(below(text.size()), 1 + below(30)); break;
      case 2: text.resize(below(text.size())); break;
      case 3: repeat_part(text); break;
      default: change_number(text); break;
    }
  }
  void repeat_part(std::string& text) {
    const size_t begin = below(text.size());
    text.insert(below(text.size()), text.substr(begin, 1 + below(200)));
  }
  void change_number(std::string& text) {
    static constexpr std::array kNumbers{
        "0",    "1",       "2",          "3",          "4",    "0",     "1",    "2",  "-1", "64",
        "1000", "1048576", "2147483647", "2147483648", "1e99", "false", "null", "[]", "{}"};
    constexpr const char* kDigits = "0123456789";
    const size_t begin = text.find_first_of(kDigits, below(text.size()));
    if (begin == std::string::npos) return;
    const size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    text.replace(begin, end - begin, kNumbers[below(kNumbers.size())]);
  }

  std::mt19937 random_;
  bool numbers_only_;
};

std::vector<std::string> good_texts() {
  std::vector<std::string> texts{to_json(samples::window_all_reduce(3)),
                                 to_json(samples::doubling_all_gather(4)),
                                 to_json(samples::chain_broadcast(3))};
  const auto ring = [](Kind kind, int ranks) {
    return schedule_of(*find_algorithm("ring"), {kind, ranks, 0, false}, {});
  };
  texts.push_back(to_json(
      ScheduleFile{"two", "of them", {ring(Kind::all_reduce, 2), ring(Kind::broadcast, 3)}}));
  return texts;
}

TEST(Fuzz, DamagedTextsAreRefusedOrProven) {
  int read = 0, proven = 0;
  const std::vector<std::string> texts = good_texts();
  for (uint32_t seed = 0; seed < 6000; ++seed) {
    const std::string text = Damage(seed).inflict(texts[seed / 2 % texts.size()]);
    const Result<ScheduleFile> file = import_schedules(text, "my.json");
    if (!file.ok()) {
      EXPECT_NE(file.status().message().find("my.json: "), std::string::npos) << text;
      continue;
    }
    ++read;
    const Result<Evidence> evidence = prove(*file, 0, kSlots);
    if (!evidence.ok()) {
      EXPECT_FALSE(evidence.status().message().empty());
      continue;
    }
    ++proven;
    const Result<ScheduleFile> again = import_schedules(to_json(*file), "my.json");
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, *file) << text;
  }
  // Damage of every depth was among it.
  EXPECT_GT(read, 300);
  EXPECT_GT(proven, 50);
}

}  // namespace
}  // namespace weft

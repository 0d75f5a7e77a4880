// The tables of docs/algorithms.md say what is chosen.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "base/text.h"
#include "engine/tuner/choose.h"

namespace weft {
namespace {

struct PageRow {
  std::string kinds, ranks, algorithms;  // the row's cells
  bool windows = false;                  // it is in the first table
};

// A line of a table that is not its head; a cell that is empty is as above.
std::vector<PageRow> rows_of_page() {
  std::ifstream page(WEFT_ALGORITHMS_PAGE);
  const std::regex cells(R"(\| (.*)\| (\d.*|more.*|all) \| (.*) \|)");
  std::vector<PageRow> rows;
  std::string line, kinds;
  bool inside = false, windows = false;
  while (std::getline(page, line)) {
    if (line == "**All ranks share memory:**") inside = windows = true;
    if (line == "**Over links:**") windows = false;
    std::smatch found;
    if (!inside || !std::regex_match(line, found, cells)) continue;
    if (found[1].length() > 0) kinds = found[1];
    rows.push_back({kinds, found[2], found[3], windows});
  }
  return rows;
}

std::vector<std::string> all_of(const std::string& text, const char* pattern) {
  const std::regex wanted(pattern);
  return {std::sregex_token_iterator(text.begin(), text.end(), wanted),
          std::sregex_token_iterator()};
}

// The ends of "3, 4", "5 to 8", "more than 64", "9 and more" or "all".
std::vector<int> ranks_of(const std::string& text) {
  constexpr int kMany = 130;
  std::vector<int> ranks;
  for (const std::string& number : all_of(text, R"(\d+)")) ranks.push_back(std::stoi(number));
  if (text == "all") return {2, kMany};
  if (text.starts_with("more")) return {ranks[0] + 1, kMany};
  if (text.ends_with("more")) return {ranks[0], kMany};
  return ranks;
}

std::string chosen(Kind kind, int ranks, size_t bytes, bool windows) {
  Surroundings around{.ranks = ranks, .windows = windows};
  around.slot_bytes = 512 << 10;
  around.slots = 4;
  const Call call{.kind = kind, .count = bytes, .type = DataType::uint8};
  const Result<Choice> choice = choose(call, around, {});
  return choice.ok() ? std::string(choice->algorithm->name) : choice.status().to_string();
}

void expect_chosen(const PageRow& row, Kind kind, int ranks) {
  const auto label = concat(name(kind), " of ", ranks, " ranks, ", row.algorithms);
  size_t least = 64;
  if (row.algorithms == "as over links") {
    for (size_t bytes = least; bytes <= 64 << 20; bytes *= 8)
      EXPECT_EQ(chosen(kind, ranks, bytes, true), chosen(kind, ranks, bytes, false)) << label;
    return;
  }
  const std::regex clause(
      R"((up to (\d+) ([KM])iB |then |above |)`(\w+)`( while all blocks are up to (\d+) MiB)?)");
  std::sregex_iterator found(row.algorithms.begin(), row.algorithms.end(), clause), end;
  ASSERT_NE(found, end) << label;
  for (; found != end; ++found) {
    const std::smatch& match = *found;
    size_t most = 64 << 20;
    if (match[2].matched) most = std::stoul(match[2]) << (match[3] == "K" ? 10 : 20);
    if (match[6].matched) most = (std::stoul(match[6]) << 20) / static_cast<size_t>(ranks);
    EXPECT_EQ(chosen(kind, ranks, least, row.windows), match[4]) << label << ", " << least;
    EXPECT_EQ(chosen(kind, ranks, most, row.windows), match[4]) << label << ", " << most;
    least = most + 1;
  }
  EXPECT_EQ(least, (size_t{64} << 20) + 1) << label << ": what runs above?";
}

TEST(ChoosePage, SaysWhatRuns) {
  const std::vector<PageRow> rows = rows_of_page();
  std::vector<int> cases(2 * kKinds, 0);
  for (const PageRow& row : rows)
    for (const std::string& word : all_of(row.kinds, R"(\w+)")) {
      const std::optional<Kind> kind = parse_kind(word);
      ASSERT_TRUE(kind) << word;
      for (const int ranks : ranks_of(row.ranks)) expect_chosen(row, *kind, ranks);
      ++cases[2 * static_cast<size_t>(*kind) + row.windows];
    }
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(cases[i] > 0, Kind(i / 2) != Kind::exchange) << name(Kind(i / 2));
}

}  // namespace
}  // namespace weft

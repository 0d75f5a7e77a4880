#include "bench/versus.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::bench {
namespace {

using Words = std::vector<std::string>;

Result<std::vector<Library>> find(const Words& words) {
  const Result<BenchOptions> options = parse_options(words, {});
  EXPECT_TRUE(options.ok()) << options.status().message();
  return find_libraries(*options, "/nowhere");
}

TEST(Versus, TheWholeComparisonsArgumentsAreNotThePeers) {
  EXPECT_EQ(arguments_of_one(Words{"all_reduce", "--vs", "openmpi", "-b", "8", "--rounds=3", "-J",
                                   "a.json", "--plot", "a.svg", "-n", "5"}),
            (Words{"all_reduce", "-b", "8", "-n", "5"}));
  EXPECT_EQ(arguments_of_one(Words{"--vs=all", "-Ja.json", "--output_file=b.json", "--json-lines",
                                   "--transport=tcp"}),
            (Words{"--transport=tcp"}));
}

TEST(Versus, WeftComesFirstAndAllGetTheSameSweep) {
  const auto found = find({"reduce", "-e", "1K", "--vs", "a=/bin/sh,b=/bin/true"});
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ((*found)[0].name, "weft");
  EXPECT_EQ((*found)[1].program, "/bin/sh");
  EXPECT_EQ((*found)[0].arguments,
            (Words{"--one-form", "--json-lines", "--ranks", "2", "reduce", "-e", "1K"}));
  const Words peers{"--one-form", "--json-lines", "--ranks", "2",
                    "--no-floor", "reduce",       "-e",      "1K"};
  EXPECT_EQ((*found)[1].arguments, peers);
  EXPECT_EQ((*found)[2].arguments, peers);
}

// All that is behind a "--" is a collective.
TEST(Versus, WhatIsAddedIsAddedInFront) {
  const auto found = find({"-e", "1K", "--vs", "a=/bin/sh", "--", "reduce"});
  ASSERT_TRUE(found.ok()) << found.status().message();
  for (const Library& library : *found) {
    const Result<BenchOptions> options = parse_options(library.arguments, {});
    ASSERT_TRUE(options.ok()) << options.status().message();
    EXPECT_TRUE(options->one_form);
    EXPECT_EQ(options->operations, std::vector{Operation::reduce});
  }
}

TEST(Versus, HowWeftsProcessesStartIsNotThePeers) {
  const auto found = find({"reduce", "--no-bind", "--processes", "--vs", "a=/bin/sh"});
  ASSERT_TRUE(found.ok()) << found.status().message();
  const auto has = [](const Library& library, std::string_view flag) {
    return std::ranges::find(library.arguments, flag) != library.arguments.end();
  };
  EXPECT_TRUE(has((*found)[0], "--no-bind") && has((*found)[0], "--processes"));
  EXPECT_FALSE(has((*found)[1], "--no-bind") || has((*found)[1], "--processes"));
}

TEST(Versus, MissingLibrariesSayWhatToInstall) {
  const auto found = find({"--vs", "all"});
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 4u);
  for (const auto& [index, package] : {std::pair(1, "libopenmpi-dev"), std::pair(2, "libmpich-dev"),
                                       std::pair(3, "libgloo-dev")}) {
    const Library& library = (*found)[static_cast<size_t>(index)];
    EXPECT_TRUE(library.program.empty());
    EXPECT_NE(library.note.find(package), std::string::npos) << library.note;
  }
}

TEST(Versus, NamesThatNobodyKnowsAreErrors) {
  for (const char* list :
       {"mvapich", "all,gloo", "gloo,gloo", "x=/no/such", "=/bin/sh", "weft=/bin/sh"})
    EXPECT_FALSE(find({"--vs", list}).ok()) << list;
}

TEST(Versus, WhatCannotBeComparedIsAnError) {
  for (const Words& words :
       {Words{"--rounds", "3"}, Words{"--plot", "a.gif"}, Words{"--vs", "all", "--threads"},
        Words{"--vs", "all", "-z", "0"}, Words{"--vs", "all", "--hosts", "2"},
        Words{"--vs", "all", "--rounds", "0"}, Words{"--one-form", "all_gatherv"}})
    EXPECT_FALSE(parse_options(words, {}).ok()) << words[0];
  const Result<BenchOptions> all = parse_options(Words{"all", "--one-form"}, {});
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->operations.size(), 9u);
}

}  // namespace
}  // namespace weft::bench

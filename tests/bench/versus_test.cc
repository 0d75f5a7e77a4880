#include "bench/versus.h"

#include <gtest/gtest.h>

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
  const Words same{"reduce", "-e", "1K", "--ranks", "2", "--one-form", "--json-lines"};
  EXPECT_EQ((*found)[0].arguments, same);
  Words peers = same;
  peers.emplace_back("--no-floor");
  EXPECT_EQ((*found)[1].arguments, peers);
  EXPECT_EQ((*found)[2].arguments, peers);
}

TEST(Versus, HowWeftsProcessesStartIsNotThePeers) {
  const auto found = find({"reduce", "--no-bind", "--processes", "--vs", "a=/bin/sh"});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)[0].arguments[1], "--no-bind");
  EXPECT_EQ((*found)[1].arguments[1], "--ranks");
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

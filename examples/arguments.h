// What the examples take: a number of ranks, or nothing.
#pragma once

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

// The first argument, or `otherwise` where there is none. What is no number of ranks, and what
// comes behind one, ends the program, with a message and status 2.
inline int ranks_from(int argc, char** argv, int otherwise) {
  if (argc < 2) return otherwise;
  const std::string_view text = argv[1];
  const char* const end = text.data() + text.size();
  int ranks = 0;
  const auto [read, error] = std::from_chars(text.data(), end, ranks);
  const bool good = error == std::errc() && read == end && ranks > 0;
  if (good && argc == 2) return ranks;
  if (good)
    std::fprintf(stderr, "%s: \"%s\" is one argument too many; give a number of ranks alone.\n",
                 argv[0], argv[2]);
  else
    std::fprintf(stderr, "%s: \"%s\" is no number of ranks; give 1 or more, or nothing (%d).\n",
                 argv[0], argv[1], otherwise);
  std::exit(2);
}

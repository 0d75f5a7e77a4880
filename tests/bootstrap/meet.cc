// A rank of a job, started by a launcher: meets the others twice and prints what they say, one line
// per rank: "RANK LAUNCHER: WORD0 WORD1 ...". Options: --seconds S (patience), --word W (what this
// one says; by default its rank).
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "bootstrap/rendezvous.h"

namespace {

int failed(const weft::Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 20;
  std::string word;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (argv[i] == std::string("--seconds")) seconds = std::atof(argv[i + 1]);
    if (argv[i] == std::string("--word")) word = argv[i + 1];
  }
  const weft::Environment env = weft::Environment::of_process();
  const auto member = weft::membership_from(env);
  if (!member.ok()) return failed(member.status());
  const auto meeting =
      weft::make_rendezvous({member->rank, member->size, member->rendezvous, member->job}, env);
  if (!meeting.ok()) return failed(meeting.status());
  const auto deadline = weft::Deadline::after(seconds);
  if (word.empty()) word = std::to_string(member->rank);
  const auto first = (*meeting)->all_gather(word, deadline);
  if (!first.ok()) return failed(first.status());
  const auto second = (*meeting)->all_gather(weft::concat((*first)[0], "+", word), deadline);
  if (!second.ok()) return failed(second.status());
  std::string line = weft::concat(member->rank, " ", member->launcher, ":");
  for (const std::string& said : *second) line.append(" ").append(said);
  std::printf("%s\n", line.c_str());
  return 0;
}

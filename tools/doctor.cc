// weft-doctor: reads the dumps that ranks have written and says which rank did what.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/text.h"
#include "tools/diagnosis.h"
#include "tools/usage.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr int kExitWrong = 1;   // something is wrong with the job
constexpr int kExitUnread = 2;  // nothing is, in the dumps that could be read

struct Asked {
  std::vector<std::string> paths;
  bool json = false;
  size_t operations = 0;
};

// Files as they are, of folders the dumps in them.
std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("weft-") && name.ends_with(".json")) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void report(std::string_view what) { std::cerr << "weft-doctor: " << what << '\n'; }

Result<Dump> read_dump(const std::string& file) {
  const Result<std::string> text = read_regular(file);
  if (!text.ok()) return text.status();
  Result<Dump> dump = dump_from_json(*text);
  if (!dump.ok()) return dump.status().within(file);
  return dump;
}

// By communicator, of each rank the newest.
using Jobs = std::map<std::string, std::vector<Dump>>;

void add(Jobs& jobs, Dump dump) {
  std::vector<Dump>& dumps = jobs[dump.communicator];
  const auto same = std::find_if(dumps.begin(), dumps.end(),
                                 [&](const Dump& other) { return other.rank == dump.rank; });
  if (same == dumps.end())
    dumps.push_back(std::move(dump));
  else if (same->written_ns < dump.written_ns)
    *same = std::move(dump);
}

// What could not be read is reported; false where there is such a file.
bool read_all(const Asked& asked, Jobs& jobs) {
  const std::vector<std::string> files = files_of(asked.paths);
  if (files.empty())
    report(
        "There is no dump there. Ranks write them into the folder that WEFT_DUMP names, when they "
        "fail or get the signal of WEFT_DUMP_SIGNAL (USR1).");
  bool all = !files.empty();
  for (const std::string& file : files) {
    Result<Dump> dump = read_dump(file);
    if (dump.ok())
      add(jobs, dump.take());
    else
      report(concat("Left out a file: ", dump.status().message()));
    all = all && dump.ok();
  }
  return all;
}

void print_operations(const Dump& dump, size_t most) {
  const size_t skip = dump.operations.size() - std::min(most, dump.operations.size());
  for (size_t i = skip; i < dump.operations.size(); ++i) {
    const Dump::Operation& o = dump.operations[i];
    std::cout << "  rank " << dump.rank << " #" << o.number << ' ' << o.call << ", " << o.algorithm
              << ", " << o.state << '\n';
  }
}

void print(const Diagnosis& diagnosis, const std::vector<Dump>& dumps, size_t operations) {
  std::cout << "communicator " << diagnosis.communicator.substr(0, 12) << " of " << diagnosis.size
            << (diagnosis.size == 1 ? " rank" : " ranks") << ", with the dumps of "
            << rank_list(diagnosis.here) << " (" << dumps.front().program << ")\n";
  for (const Finding& finding : diagnosis.findings) std::cout << "- " << finding.text << '\n';
  if (operations > 0)
    for (const Dump& dump : dumps) print_operations(dump, operations);
}

nlohmann::ordered_json json_of(const Diagnosis& diagnosis) {
  nlohmann::ordered_json out{{"communicator", diagnosis.communicator},
                             {"size", diagnosis.size},
                             {"dumps_of", diagnosis.here},
                             {"findings", nlohmann::ordered_json::array()}};
  for (const Finding& finding : diagnosis.findings)
    out["findings"].push_back({{"text", finding.text}, {"ranks", finding.ranks}});
  return out;
}

// The exit status, once what was printed is out.
int told(int status) {
  std::cout.flush();
  const Status finished = finish_standard_output();
  if (finished.ok()) return status;
  report(finished.message());
  return status == 0 ? kExitUnread : status;
}

int examine(const Asked& asked) {
  Jobs jobs;
  const bool all_read = read_all(asked, jobs);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  bool wrong = false;
  for (const auto& [name, dumps] : jobs) {
    const Diagnosis diagnosis = diagnose(dumps);
    wrong |= diagnosis.wrong;
    if (asked.json)
      all.push_back(json_of(diagnosis));
    else
      print(diagnosis, dumps, asked.operations);
  }
  if (asked.json && !jobs.empty()) std::cout << all.dump(2) << '\n';
  if (wrong) return kExitWrong;
  return all_read ? 0 : kExitUnread;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  CLI::App app(
      "Says in plain words what the ranks of a job did before it failed or hung, from the dumps "
      "that they wrote into the folder of WEFT_DUMP.",
      "weft-doctor");
  app.set_version_flag("--version", "weft-doctor " WEFT_VERSION);
  weft::Asked asked;
  app.add_option("DUMPS", asked.paths, "Dumps, or folders of dumps")->required()->type_name("");
  app.add_flag("--json", asked.json, "Findings as JSON");
  weft::whole_number(app.add_option("--operations", asked.operations,
                                    "Print the last so many operations of each rank"),
                     1, 1'000'000)
      ->excludes("--json");
  app.footer(
      "Exit status: 0 where nothing is wrong, 1 where something is, 2 where nothing is in what "
      "could be read and some of it could not, where arguments are wrong, and where what is "
      "printed "
      "cannot be.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return weft::told(weft::say_usage(app, error));
  }
  return weft::told(weft::examine(asked));
}

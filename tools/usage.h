// What tools say of a command line that they do not understand.
#pragma once

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "base/text.h"

namespace weft {

// The exit status: 0 for help and the like, else 2.
inline int say_usage(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> words = app.remaining(true);
  std::string commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.append(concat(commands.empty() ? "" : ", ", command->get_name()));
  const bool lacks_command = !commands.empty() && app.get_subcommands().empty();
  if (error.get_exit_code() == 0 || (words.empty() && !lacks_command))
    return app.exit(error) == 0 ? 0 : 2;
  std::cerr << app.get_name() << ": ";
  if (!words.empty()) std::cerr << unexpected(words) << "; ";
  if (lacks_command) std::cerr << "give one of " << commands << ". ";
  std::cerr << app.get_name() << " --help says more.\n";
  return 2;
}

}  // namespace weft

// What tools say of a command line that they do not understand.
#pragma once

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "base/text.h"

namespace weft {

inline std::string command_list(const CLI::App& app) {
  std::string commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.append(concat(commands.empty() ? "" : ", ", command->get_name()));
  return commands;
}

// The option takes a whole number of that range, which is what --help shows.
inline CLI::Option* whole_number(CLI::Option* option, int least, int most) {
  const CLI::Range range(least, most);
  const auto why_not = [range, least, most](std::string& text) {
    return range(text).empty()
               ? std::string()
               : concat("\"", text, "\" is not one whole number from ", least, " to ", most);
  };
  return option->type_name(concat(least, "-", most))->check(CLI::Validator(why_not, ""));
}

// Likewise one of these words.
inline CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all.append(concat(all.empty() ? "" : "|", word));
  return option->type_name(all)->check(CLI::IsMember(words).description(""));
}

// Where algorithms have one. 0 stays where nothing is said, for 2 (parameters_of).
inline void add_radix(CLI::App& command, int& radix) {
  whole_number(command.add_option("--radix", radix, "Of trees and groups that have one (2)"), 2,
               1024);
}

// The exit status: 0 for help and the like, else 2.
inline int say_usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const std::vector<CLI::App*> asked = app.get_subcommands();
  const std::string commands = command_list(app);
  const std::vector<std::string> words = app.remaining(true);
  std::string name = app.get_name(), what = error.what();
  const bool lacks_command = asked.empty() && !commands.empty();
  if (!asked.empty()) name.append(concat(" ", asked.back()->get_name()));
  if (lacks_command && words.empty())
    what = concat("give one of ", commands);
  else if (lacks_command && words[0][0] != '-')
    what = concat("\"", words[0], "\" is none of ", commands);
  else if (lacks_command || dynamic_cast<const CLI::ExtrasError*>(&error) ||
           (dynamic_cast<const CLI::RequiredError*>(&error) && !words.empty()))
    what = unexpected(words);  // it may be what is missing, misspelt
  std::cerr << name << ": " << what << ". " << name << " --help lists what there is.\n";
  return 2;
}

}  // namespace weft

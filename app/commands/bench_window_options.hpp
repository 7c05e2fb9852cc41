#pragma once

#include <string>

#include <CLI/App.hpp>

#include "app/commands/console.hpp"

namespace keyscope::commands {

// What benchmarks of the window have in common.
struct BenchWindowOptions {
  std::string size = "1280x800";
  JsonTarget json;
  bool quiet = false;

  // Adds the options, and what has to be known before the example.
  void add_to(CLI::App& command, const std::string& example);
};

}  // namespace keyscope::commands

#include "app/commands/bench_window_options.hpp"

namespace keyscope::commands {

void BenchWindowOptions::add_to(CLI::App& command, const std::string& example) {
  command.add_option("--size", size, "WIDTHxHEIGHT in pixels (default: 1280x800)");
  command.add_option("--json", json.path, "Write the measurements as JSON; - for stdout");
  command.add_flag("--force", json.replace, "Replace an existing --json file");
  command.add_flag("--quiet", quiet, "No progress");
  command.footer(
      "Needs a display; without one, run it under `xvfb-run -a -s '-screen 0 1280x800x24'`.\n\n"
      "Example:\n" +
      example);
}

}  // namespace keyscope::commands

#include "app/commands/options.hpp"

#include <fmt/format.h>

#include "app/commands/option_checks.hpp"

namespace keyscope::commands {

void add_block(CLI::App& command, std::int64_t& block) {
  command.add_option("--block", block, "B: prompt tokens per block")
      ->check(one_or_more())
      ->capture_default_str();
}

void add_seed(CLI::App& command, std::uint64_t& seed, const std::string& of) {
  command.add_option("--seed", seed, "Seed of " + of)->check(zero_or_more())->capture_default_str();
}

CLI::Option* add_out(CLI::App& command, std::string& out, const std::string& run) {
  return command
      .add_option("--out", out, fmt::format("Folder for results; an interrupted {} goes on there", run))
      ->check(not_empty());
}

void add_discard(CLI::App& command, bool& force) {
  command.add_flag("--force", force, "Discard results of other settings in --out");
}

void add_quiet(CLI::App& command, bool& quiet) { command.add_flag("--quiet", quiet, "No progress"); }

}  // namespace keyscope::commands

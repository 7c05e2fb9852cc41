#pragma once

#include <cstdint>
#include <string>

#include <CLI/App.hpp>

namespace keyscope::commands {

// Options that commands which run a model have in common, each the same wherever it stands.

// `--block`: B, 1 or more.
void add_block(CLI::App& command, std::int64_t& block);

// `--seed`, 0 or more.
//   of: what is drawn, the end of "Seed of …"
void add_seed(CLI::App& command, std::uint64_t& seed, const std::string& of);

// `--out`, a folder in which an interrupted run goes on.
//   run: what the command calls it: "evaluation"
CLI::Option* add_out(CLI::App& command, std::string& out, const std::string& run);

// `--force`, where it throws away results of other settings and nothing else.
void add_discard(CLI::App& command, bool& force);

void add_quiet(CLI::App& command, bool& quiet);

}  // namespace keyscope::commands

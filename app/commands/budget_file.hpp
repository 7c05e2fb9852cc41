#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/model/config.hpp"

namespace keyscope::commands {

// Budgets of their own for layers or heads: a JSON array with one entry per layer, each a number of rows for
// all of the layer's KV heads or an array of one number per KV head.
//   result: (n_layers, n_kv_heads), row after row
//   throws FileError naming the file, the entry, what was found and what was expected
std::vector<std::int64_t> read_budget_file(const std::string& path, const capture::ModelConfig& config);

}  // namespace keyscope::commands

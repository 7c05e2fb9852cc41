#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "capture/model/config.hpp"

namespace keyscope::capture {

enum class HeadNumbers { kRows, kWeights };  // whole numbers from 1, numbers above 0

// A number for every layer's KV heads, out of JSON that has one entry per layer: a number, or a list of one
// per KV head.
//   where: the file, which messages name
//   returns (n_layers · n_kv_heads); what a layer's heads leave over repeats its last
//   throws FileError naming the entry where it has another shape, or a number is none of the kind
std::vector<double> head_numbers(std::string_view json, const std::string& where, const ModelConfig& config,
                                 HeadNumbers kind);

// N of a KV head that keeps all its rows: more than any text has.
inline constexpr std::int64_t kAllRows = std::int64_t{1} << 32;

// What each layer's KV heads keep: where a policy's `split` deals N out among layers, over those that it
// evicts, N on average; kAllRows of heads that the policy never cuts, which take nothing from the others.
//   returns (n_layers · n_kv_heads); nothing where all have N
//   throws FileError on a file of weights that cannot be read or does not fit the model; UsageError where it
//   gives heads that have one set of rows different weights
std::vector<std::int64_t> split_budgets(const ModelConfig& config, const analysis::Policy& policy,
                                        std::int64_t budget, std::int64_t n_prompt);

// Whether there are heads that the policy never cuts in layers that it evicts from.
bool keeps_whole_heads(const ModelConfig& config, const analysis::Policy& policy);

// Rows up to which no KV head is cut under these budgets, as split_budgets gives them.
std::int64_t rows_uncut(const analysis::Policy& policy, const std::vector<std::int64_t>& budgets,
                        std::int64_t budget);

// Whether a policy and a budget fit the model.
//   throws UsageError where they do not, saying what would
void check_slots(const ModelConfig& config, const analysis::PolicySpec& spec, const analysis::Policy& policy,
                 std::int64_t budget);

}  // namespace keyscope::capture

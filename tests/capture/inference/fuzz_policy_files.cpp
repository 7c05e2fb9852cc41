// libFuzzer target: what a user says of policies, in words and in files. The input's first byte says what the
// rest is: a policy, a budget, or a file with something for each layer and KV head of a model.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "analysis/policies/registry.hpp"
#include "capture/inference/budget_split.hpp"
#include "capture/model/policy_file.hpp"
#include "tests/support/fuzzed.hpp"

namespace {

using namespace keyscope;

const capture::ModelConfig& config() {
  static const capture::ModelConfig config = capture::parse_config(
      R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 2,
          "num_key_value_heads": 2, "intermediate_size": 8, "vocab_size": 8, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-5})",
      "config.json");
  return config;
}

void read_head_file(const char* policy, std::string_view bytes) {
  const test::MemoryFile file(bytes);
  capture::policy_for(analysis::parse_policy(std::string(policy) + ":file=" + file.path()), 1, config());
}

// All N are there, each at least one row.
void read_weights(const std::string& policy, std::string_view bytes, std::int64_t budget) {
  const test::MemoryFile file(bytes);
  const auto made = analysis::make_policy(analysis::parse_policy(policy + file.path()), 1);
  std::int64_t all = 0;
  for (const std::int64_t n : capture::split_budgets(config(), *made, budget, 100)) {
    if (n < 1) std::abort();
    all += n;
  }
  if (all != 4 * budget) std::abort();
}

void read_policy(std::string_view text) {
  const analysis::PolicySpec spec = analysis::parse_policy(text);
  analysis::with_defaults(spec, 1);
  if (const auto policy = analysis::make_policy(spec, 1)) capture::check_slots(config(), spec, *policy, 16);
}

void read_budget(std::string_view text) {
  const analysis::Budget budget = analysis::parse_budget(text);
  for (const std::int64_t n : {1, 1000, 1 << 30})
    if (budget.rows_for(n) < 1) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return test::by_first_byte(data, size, [](char kind, std::string_view rest) {
    switch (kind) {
      case 'p':
        return read_policy(rest);
      case 'b':
        return read_budget(rest);
      case 'd':
        return read_head_file("duo", rest);
      case 'q':
        return read_head_file("qfilters", rest);
      case 't':
        return read_head_file("triattention", rest);
      case 'w':
        return read_weights("keydiff:split=file:", rest, 16);
      case 'l':
        return read_weights("keydiff:granularity=layer,split=file:", rest, 1);
      case 'r':
        capture::head_numbers(rest, "rows", config(), capture::HeadNumbers::kRows);
        return;
      default:
        return;
    }
  });
}

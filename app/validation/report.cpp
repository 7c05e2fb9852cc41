#include "app/validation/validation_report.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace keyscope::validation {
namespace {

std::string counted(std::int64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

}  // namespace

Report make_report(const Settings& settings, std::span<const Prompt> prompts, Records records) {
  Report report;
  report.settings = settings;
  report.bootstrap.seed = settings.seed;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const PromptRecord& record = records[i];
    report.prompts.push_back(
        {prompts[i].name, prompts[i].beginning, record.key, record.n_tokens, record.budget});
    report.n_tokens += record.n_tokens;
  }
  for (const auto& run : records.front().runs) report.runs.push_back(run.run);
  report.layers = layers_of(records);
  report.n_kv_heads = std::ssize(records.front().bounds) / std::ssize(report.layers);
  report.claims = examine_claims(records, report.bootstrap);
  report.summary = summarise(records, report.bootstrap);
  return report;
}

std::string describe_extent(const Report& report) {
  const auto [shortest, longest] =
      std::ranges::minmax(report.prompts, {}, [](const ReportedPrompt& prompt) { return prompt.n_tokens; });
  const std::string lengths = shortest.n_tokens == longest.n_tokens
                                  ? counted(longest.n_tokens, "token")
                                  : fmt::format("{} to {} tokens", shortest.n_tokens, longest.n_tokens);
  return fmt::format("{} of {}, {} × {}", counted(std::ssize(report.prompts), "prompt"), lengths,
                     counted(std::ssize(report.layers), "layer"), counted(report.n_kv_heads, "KV head"));
}

std::string describe_eviction(const Report& report) {
  const results::Budget& budget = report.settings.budget;
  const std::string rows =
      budget.rows > 0 ? counted(budget.rows, "row") : fmt::format("{:g} of the prompt", budget.share);
  return fmt::format("N = {}, B = {}", rows, report.settings.block_size);
}

}  // namespace keyscope::validation

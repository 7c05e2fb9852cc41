#include "app/validation/memory_check.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "app/validation/measure_prompt.hpp"

namespace keyscope::validation {
namespace {

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

void check_memory(const capture::Model& model, const Settings& settings, std::span<const Prompt> prompts,
                  const std::string& file, std::int64_t available) {
  if (prompts.empty()) return;
  const Prompt& longest =
      *std::ranges::max_element(prompts, {}, [](const Prompt& prompt) { return std::ssize(prompt.ids); });
  const auto estimate = capture::estimate_capture(
      model, capture::plan_capture(model, prompt_capture_options(settings, longest)));
  // What a file would hold is what memory holds.
  const std::int64_t needed = estimate.disk_bytes + estimate.cache_bytes;
  if (needed <= available) return;
  const auto n_tokens = static_cast<double>(longest.ids.size());
  const double fitting = n_tokens * static_cast<double>(available) / static_cast<double>(needed);
  throw FileError(fmt::format(
      "{}, line {}: the prompt has {} tokens; keys, queries and values of its {} runs and their caches need "
      "{:.2f} GiB of memory, and {:.2f} GiB are available; take --max-tokens {} or fewer policies",
      file, longest.line, longest.ids.size(), settings.policies.size(), gib(needed), gib(available),
      static_cast<std::int64_t>(fitting)));
}

}  // namespace keyscope::validation

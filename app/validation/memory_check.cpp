#include "app/validation/memory_check.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/validation/measure_prompt.hpp"

namespace keyscope::validation {
namespace {

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// What a file would hold is what memory holds.
std::int64_t needed_bytes(const capture::Model& model, const Settings& settings, const Prompt& prompt) {
  const auto estimate = capture::estimate_capture(
      model, capture::plan_capture(model, prompt_capture_options(settings, prompt)));
  return estimate.disk_bytes + estimate.cache_bytes;
}

// The most tokens of a prompt too long that fit. Not in proportion: logits take the same whatever its length.
std::size_t fitting_tokens(const capture::Model& model, const Settings& settings, Prompt prompt,
                           std::int64_t available) {
  std::size_t fits = 0, too_many = prompt.ids.size();
  while (too_many - fits > 1) {
    const std::size_t middle = fits + (too_many - fits) / 2;
    prompt.ids.resize(middle);  // which tokens they are does not matter
    (needed_bytes(model, settings, prompt) <= available ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace

void check_memory(const capture::Model& model, const Settings& settings, std::span<const Prompt> prompts,
                  const PromptWords& words, std::int64_t available) {
  if (prompts.empty()) return;
  const Prompt& longest =
      *std::ranges::max_element(prompts, {}, [](const Prompt& prompt) { return std::ssize(prompt.ids); });
  const std::int64_t needed = needed_bytes(model, settings, longest);
  if (needed <= available) return;
  const std::size_t fitting = fitting_tokens(model, settings, longest, available);
  throw FileError(fmt::format(
      "{}: the prompt has {} tokens; keys, queries and values of its {} runs and their caches need "
      "{:.2f} GiB of memory, and {:.2f} GiB are available; take {}fewer policies",
      words.where(longest), longest.ids.size(), settings.policies.size(), gib(needed), gib(available),
      fitting > 0 ? fmt::format("{} {} or ", words.shorter, fitting) : ""));
}

}  // namespace keyscope::validation

#include "app/validation/settings.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"
#include "app/results/policy_json.hpp"
#include "base/sha256.hpp"

namespace keyscope::validation {
namespace {

using Json = nlohmann::ordered_json;
using analysis::PolicySpec;

// Of what is measured and how it is stored; numbers of another format are not mixed with these.
constexpr int kFormat = 1;

}  // namespace

std::vector<PolicySpec> default_policies() {
  std::vector<PolicySpec> policies;
  for (const char* name : {"none", "keydiff", "sink", "tova", "snapkv", "h2o", "l2norm", "random"})
    policies.push_back(analysis::parse_policy(name));
  return policies;
}

std::vector<PolicySpec> complete_policies(std::vector<PolicySpec> asked) {
  if (asked.empty()) return default_policies();
  std::vector<PolicySpec> policies;
  for (const char* first : {"none", "keydiff"}) {
    const auto found = std::ranges::find(asked, first, &PolicySpec::name);
    policies.push_back(found != asked.end() ? *found : analysis::parse_policy(first));
    if (found != asked.end()) asked.erase(found);
  }
  for (PolicySpec& spec : asked) {
    if (std::ranges::find(policies, spec.name, &PolicySpec::name) != policies.end())
      throw UsageError(
          fmt::format("--policy: {} is given twice; claims are about one run of each policy", spec.name));
    policies.push_back(std::move(spec));
  }
  return policies;
}

Json settings_json(const Settings& settings) {
  Json json{{"format", kFormat}};
  results::add_identity(json, settings.model);
  json["policies"] = Json::array();
  for (const PolicySpec& spec : settings.policies)
    json["policies"].push_back(results::policy_json(spec, settings.seed));
  json["budget"] = settings.budget.text();
  json["block"] = settings.block_size;
  json["max_tokens"] = settings.max_tokens ? Json(*settings.max_tokens) : Json();
  json["score_last"] = settings.score_last;
  json["seed"] = settings.seed;
  return json;
}

std::string prompt_key(const Json& settings, std::span<const std::int32_t> ids) {
  capture::Sha256 hash;
  hash.add(settings.dump());
  for (const std::int32_t id : ids) hash.add(fmt::format(" {}", id));
  return hash.hex();
}

void check_lengths(const Settings& settings, std::span<const Prompt> prompts, const std::string& file) {
  for (const Prompt& prompt : prompts) {
    const auto n = static_cast<std::int64_t>(prompt.ids.size());
    const std::string where = fmt::format("{}, line {}: the prompt has {} tokens", file, prompt.line, n);
    if (n <= settings.budget.rows_for(n))
      throw FileError(
          fmt::format("{}, and a budget of {} evicts none of them; take a smaller --budget or a "
                      "longer prompt",
                      where, settings.budget.rows_for(n)));
    if (n <= settings.block_size)
      throw FileError(
          fmt::format("{}, which are one block of {}, so that nothing is evicted while it is read; "
                      "take a smaller --block or a longer prompt",
                      where, settings.block_size));
  }
}

}  // namespace keyscope::validation

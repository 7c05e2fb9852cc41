#include "analysis/policies/registry.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/policies/policy.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

// Every policy there is; a new one joins with its line here.
const std::vector<PolicyDefinition>& definitions() {
  static const std::vector<PolicyDefinition> kDefinitions = {
      {"none",
       "nothing is evicted: the full cache, which every other policy is measured against",
       {},
       nullptr},
      keydiff_definition(),
      sink_definition(),
      l2norm_definition(),
      tova_definition(),
      h2o_definition(),
      snapkv_definition(),
      random_definition(),
      // Scores in circulation, for comparison.
      manifold_definition(),
      cur_definition(),
      leverage_definition(),
      logdet_definition(),
      // Scorers of 2024 to 2026.
      lagkv_definition(),
      expected_definition(),
      capkv_definition(),
      triattention_definition(),
      compactor_definition(),
      rkv_definition(),
      dropkv_definition(),
      defensive_definition(),
      qfilters_definition(),
      duo_definition(),
  };
  return kDefinitions;
}

const PolicyDefinition& definition_of(const std::string& name) {
  std::vector<std::string_view> known;
  for (const auto& definition : definitions()) {
    if (definition.name == name) return definition;
    known.push_back(definition.name);
  }
  throw UsageError(fmt::format("policy \"{}\" is not known; there are {}", name, fmt::join(known, ", ")));
}

std::vector<std::string> option_list(const std::vector<OptionDefinition>& options) {
  std::vector<std::string> list;
  list.reserve(options.size());
  for (const auto& option : options) list.push_back(option.key + "=" + option.accepted);
  return list;
}

// What its scorer takes, and then what every scorer does.
std::vector<OptionDefinition> all_options(const PolicyDefinition& definition) {
  std::vector<OptionDefinition> options = definition.options;
  if (definition.make != nullptr) options.insert(options.end(), slot_options().begin(), slot_options().end());
  return options;
}

std::string what_it_takes(const PolicyDefinition& definition) {
  const auto options = all_options(definition);
  if (options.empty()) return "it takes none";
  return fmt::format("it takes {}", fmt::join(option_list(options), ", "));
}

PolicySpec complete(const PolicyDefinition& definition, const PolicySpec& spec, std::uint64_t seed) {
  PolicySpec filled{spec.name, {}};
  for (const auto& option : all_options(definition))
    filled.options[option.key] =
        option.fallback.empty() && !option.required ? std::to_string(seed) : option.fallback;
  for (const auto& [key, value] : spec.options) {
    const auto known = filled.options.find(key);
    if (known == filled.options.end())
      throw UsageError(
          fmt::format("policy {} has no option \"{}\"; {}", spec.name, key, what_it_takes(definition)));
    known->second = value;
  }
  for (const auto& option : definition.options)
    if (option.required && filled.options.at(option.key).empty())
      throw UsageError(fmt::format("policy {} needs {}={}; {}", spec.name, option.key, option.accepted,
                                   what_it_takes(definition)));
  return filled;
}

// Splits off what stands before `separator`, or all that is left.
std::string_view take_until(std::string_view& text, char separator) {
  const auto end = text.find(separator);
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return piece;
}

void add_option(PolicySpec& spec, std::string_view piece) {
  const auto equals = piece.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw UsageError(fmt::format("policy {}: \"{}\" is not an option; write key=value, {}", spec.name, piece,
                                 what_it_takes(definition_of(spec.name))));
  const auto [at, is_new] =
      spec.options.emplace(std::string(piece.substr(0, equals)), std::string(piece.substr(equals + 1)));
  if (!is_new) throw UsageError(fmt::format("policy {}: option {} is given twice", spec.name, at->first));
}

}  // namespace

std::vector<PolicyEntry> registered_policies() {
  std::vector<PolicyEntry> entries;
  for (const auto& definition : definitions()) {
    std::vector<OptionDefinition> required = definition.options;
    std::erase_if(required, [](const OptionDefinition& option) { return !option.required; });
    entries.push_back(
        {definition.name, definition.summary, option_list(definition.options), option_list(required)});
  }
  return entries;
}

PolicySpec parse_policy(std::string_view text) {
  const bool has_options = text.find(':') != std::string_view::npos;
  PolicySpec spec{std::string(take_until(text, ':')), {}};
  definition_of(spec.name);
  if (has_options) {
    const bool dangling = text.empty() || text.back() == ',';
    while (!text.empty()) add_option(spec, take_until(text, ','));
    if (dangling) add_option(spec, "");
  }
  make_policy(spec, 0);  // refuses what the policy refuses
  return spec;
}

namespace {

// A policy that its user keeps.
class OwnPolicy final : public Policy {
 public:
  explicit OwnPolicy(std::shared_ptr<const Policy> own) : own_(std::move(own)) {}

  PolicyNeeds needs() const override { return own_->needs(); }
  bool evicts(int layer) const override { return own_->evicts(layer); }
  void score(const PolicyInput& input, std::span<double> scores) const override {
    own_->score(input, scores);
  }
  void force(const PolicyInput& input, std::int64_t budget, std::span<std::uint8_t> forced) const override {
    own_->force(input, budget, forced);
  }
  std::shared_ptr<SharedMemory> row_memory() const override { return own_->row_memory(); }
  void cancel() const override { own_->cancel(); }

 private:
  std::shared_ptr<const Policy> own_;
};

}  // namespace

std::unique_ptr<Policy> make_policy(const PolicySpec& spec, std::uint64_t seed) {
  if (spec.own != nullptr) {
    std::unique_ptr<Policy> policy = std::make_unique<OwnPolicy>(spec.own);
    policy->slots_ = std::make_shared<const Slots>(read_slots(spec));
    return policy;
  }
  const PolicyDefinition& definition = definition_of(spec.name);
  PolicySpec filled = complete(definition, spec, seed);
  if (definition.make == nullptr) return nullptr;
  auto policy = definition.make(filled);
  policy->slots_ = std::make_shared<const Slots>(read_slots(filled));
  policy->spec_ = std::move(filled);
  return policy;
}

const Slots& Policy::slots() const {
  static const Slots kNeutral;
  return slots_ == nullptr ? kNeutral : *slots_;
}

PolicySpec with_defaults(const PolicySpec& spec, std::uint64_t seed) {
  if (spec.own != nullptr) {
    PolicySpec filled = spec;
    for (const OptionDefinition& slot : slot_options()) filled.options.emplace(slot.key, slot.fallback);
    return filled;
  }
  return complete(definition_of(spec.name), spec, seed);
}

namespace {

const std::string& value_of(const PolicySpec& spec, std::string_view key) {
  return spec.options.at(std::string(key));
}

[[noreturn]] void refuse(const PolicySpec& spec, std::string_view key, std::string_view accepted) {
  throw UsageError(fmt::format("policy {}: {}={} is not accepted; {} takes {}", spec.name, key,
                               value_of(spec, key), key, accepted));
}

template <typename T>
bool read_all(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc{} && result.ptr == end;
}

}  // namespace

std::size_t read_choice(const PolicySpec& spec, std::string_view key,
                        std::initializer_list<std::string_view> accepted) {
  const std::string& value = value_of(spec, key);
  std::size_t index = 0;
  for (const auto& choice : accepted) {
    if (value == choice) return index;
    ++index;
  }
  refuse(spec, key, fmt::format("{}", fmt::join(accepted, ", ")));
}

std::uint64_t read_whole_number(const PolicySpec& spec, std::string_view key, std::uint64_t least,
                                std::uint64_t most) {
  std::uint64_t value = 0;
  if (!read_all(value_of(spec, key), value) || value < least || value > most)
    refuse(spec, key, fmt::format("a whole number from {} to {}", least, most));
  return value;
}

double read_fraction(const PolicySpec& spec, std::string_view key) {
  double value = 0;
  if (!read_all(value_of(spec, key), value) || !(value >= 0 && value <= 1))
    refuse(spec, key, "a fraction from 0 to 1");
  return value;
}

double read_positive(const PolicySpec& spec, std::string_view key) {
  double value = 0;
  if (!read_all(value_of(spec, key), value) || !(value > 0) || !std::isfinite(value))
    refuse(spec, key, "a number above 0");
  return value;
}

std::int64_t round_half_up(double fraction, std::int64_t whole) {
  return static_cast<std::int64_t>(std::floor(fraction * static_cast<double>(whole) + 0.5 + 1e-9));
}

Budget Budget::of_share(double share) {
  Budget budget;
  budget.share = share;
  return budget;
}

std::int64_t Budget::rows_for(std::int64_t n_tokens) const {
  if (rows > 0 || share <= 0) return rows;
  return std::max<std::int64_t>(1, round_half_up(share, n_tokens));
}

std::string Budget::text() const {
  if (rows > 0) return std::to_string(rows);
  return share == 1 ? "100%" : fmt::format("{}", share);  // "1" would be a row
}

std::optional<Budget> budget_in(std::string_view text) {
  const char* const end = text.data() + text.size();
  Budget budget;
  if (const auto [stop, error] = std::from_chars(text.data(), end, budget.rows);
      error == std::errc() && stop == end && budget.rows >= 1)
    return budget.rows <= kMostBudgetRows ? std::optional(budget) : std::nullopt;
  budget.rows = 0;
  const bool percent = text.ends_with('%');
  if (const auto [stop, error] = std::from_chars(text.data(), end, budget.share);
      error == std::errc() && stop + (percent ? 1 : 0) == end) {
    if (percent) budget.share /= 100;
    if (budget.share > 0 && budget.share <= 1) return budget;
  }
  return std::nullopt;
}

Budget parse_budget(std::string_view text) {
  if (const auto budget = budget_in(text)) return *budget;
  throw UsageError(
      fmt::format("--budget: found '{}'; expected 1 or more rows (to {}), such as 64, or a share of the "
                  "prompt, such as 0.25 "
                  "or 25%",
                  text, kMostBudgetRows));
}

}  // namespace keyscope::analysis

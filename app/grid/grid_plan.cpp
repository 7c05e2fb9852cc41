#include "app/grid/grid_plan.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/evaluation/task_data.hpp"
#include "base/errors.hpp"

namespace keyscope::grid {

namespace {

constexpr std::string_view kNoProtection = "none";

// The value that a method has where its policy does not say: what every policy was before slots.
std::string_view default_of(Slot slot) {
  switch (slot) {
    case Slot::kProtection:
      return kNoProtection;
    case Slot::kGranularity:
      return "head";
    case Slot::kSplit:
      return "uniform";
    case Slot::kScorer:
      break;
  }
  return "";
}

std::string policy_text(const analysis::PolicySpec& spec) {
  std::string text = spec.name;
  for (const auto& [key, value] : spec.options)
    text += fmt::format("{}{}={}", text == spec.name ? ":" : ",", key, value);
  return text;
}

// The policy of a method: options of slots that have their default are left away, so that it is the same
// policy, under the same name, as that of any other evaluation.
std::string method_text(const BySlot<std::vector<std::string>>& values, const BySlot<std::size_t>& at) {
  analysis::PolicySpec spec = analysis::parse_policy(values[Slot::kScorer][at[Slot::kScorer]]);
  for (const Slot slot : kSlots) {
    const std::string& value = values[slot][at[slot]];
    if (slot != Slot::kScorer && value != default_of(slot))
      spec.options[std::string(slot_name(slot))] = value;
  }
  std::string text = policy_text(spec);
  analysis::parse_policy(text);  // refuses what the policy refuses
  return text;
}

// A scorer as it is called in the grid.
std::string scorer_text(const std::string& asked) {
  const analysis::PolicySpec spec = analysis::parse_policy(asked);
  if (spec.name == "none") throw UsageError("--scorer none: it evicts nothing; the full cache always runs");
  for (const Slot slot : kSlots)
    if (const std::string key(slot_name(slot)); spec.options.contains(key))
      throw UsageError(
          fmt::format("--scorer {}: {} is a slot of its own; give it by --{} or in --base", asked, key, key));
  return policy_text(spec);
}

// Takes the slots' options out of the base.
void set_base(const std::string& base, GridPlan& plan) {
  analysis::PolicySpec spec = analysis::parse_policy(base);
  if (spec.name == "none") throw UsageError("--base none: it evicts nothing; expected a policy that does");
  BySlot<std::string> own;
  for (const Slot slot : kSlots) {
    own[slot] = default_of(slot);
    if (const auto option = spec.options.extract(std::string(slot_name(slot)))) own[slot] = option.mapped();
  }
  own[Slot::kScorer] = policy_text(spec);
  for (const Slot slot : kSlots) {
    auto& values = plan.values[slot];
    if (std::ranges::find(values, own[slot]) == values.end()) values.insert(values.begin(), own[slot]);
    plan.base[slot] = static_cast<std::size_t>(std::ranges::find(values, own[slot]) - values.begin());
  }
}

void set_crossed(const std::vector<std::string>& names, GridPlan& plan) {
  for (const std::string& name : names) {
    const auto slot = std::ranges::find(kSlots, name, slot_name);
    if (slot == kSlots.end())
      throw UsageError(
          fmt::format("--cross {}: there is no such slot; there are scorer, protect, granularity "
                      "and split",
                      name));
    plan.crossed[*slot] = true;
  }
}

// Whether a grid has this combination.
bool belongs(const GridPlan& plan, const BySlot<std::size_t>& at) {
  int n_varied = 0;
  bool crossed_at_base = true;
  for (const Slot slot : kSlots) {
    if (at[slot] == plan.base[slot]) continue;
    if (plan.crossed[slot])
      crossed_at_base = false;
    else
      ++n_varied;
  }
  return n_varied == 0 || (n_varied == 1 && crossed_at_base);
}

void add_methods(GridPlan& plan) {
  const auto& values = plan.values;
  plan.methods.push_back({plan.base, method_text(values, plan.base)});
  BySlot<std::size_t> at;
  const auto each = [&](Slot slot, const auto& next) {
    for (at[slot] = 0; at[slot] < values[slot].size(); ++at[slot]) next();
  };
  each(Slot::kScorer, [&] {
    each(Slot::kProtection, [&] {
      each(Slot::kGranularity, [&] {
        each(Slot::kSplit, [&] {
          if (at != plan.base && belongs(plan, at)) plan.methods.push_back({at, method_text(values, at)});
        });
      });
    });
  });
}

}  // namespace

std::string_view slot_name(Slot slot) {
  constexpr std::array<std::string_view, kSlots.size()> kNames{"scorer", "protect", "granularity", "split"};
  return kNames[static_cast<std::size_t>(slot)];
}

std::string_view slot_words(Slot slot) {
  constexpr std::array<std::string_view, kSlots.size()> kWords{"scorer", "protection", "granularity",
                                                               "budget split"};
  return kWords[static_cast<std::size_t>(slot)];
}

std::optional<std::size_t> GridPlan::find(const BySlot<std::size_t>& at) const {
  const auto found = std::ranges::find(methods, at, &Method::at);
  if (found == methods.end()) return std::nullopt;
  return static_cast<std::size_t>(found - methods.begin());
}

GridPlan plan_grid(const GridChoice& choice) {
  GridPlan plan;
  plan.values = choice.values;
  for (std::string& scorer : plan.values[Slot::kScorer]) scorer = scorer_text(scorer);
  for (const Slot slot : kSlots)
    evaluation::check_given_once(plan.values[slot], fmt::format("--{}", slot_name(slot)).c_str());
  set_base(choice.base, plan);
  set_crossed(choice.crossed, plan);
  add_methods(plan);
  const auto place = [](const std::vector<std::string>& values,
                        const std::string& value) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(values, value);
    if (found == values.end()) return std::nullopt;
    return static_cast<std::size_t>(found - values.begin());
  };
  plan.reference = place(plan.values[Slot::kScorer], scorer_text(choice.reference));
  plan.unprotected = place(plan.values[Slot::kProtection], std::string(kNoProtection));
  return plan;
}

nlohmann::ordered_json plan_json(const GridPlan& plan) {
  nlohmann::ordered_json json{{"base", plan.methods.front().policy}};
  auto crossed = nlohmann::ordered_json::array();
  for (const Slot slot : kSlots) {
    json[std::string(slot_name(slot))] = plan.values[slot];
    if (plan.crossed[slot]) crossed.push_back(slot_name(slot));
  }
  json["crossed"] = crossed;
  json["reference"] = nullptr;
  if (plan.reference) json["reference"] = plan.values[Slot::kScorer][*plan.reference];
  return json;
}

}  // namespace keyscope::grid

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace keyscope::grid {

// The four choices that an eviction method bundles. A method is a scorer with the other three as its options:
// keydiff:granularity=layer,protect=sinks:4.
enum class Slot : std::uint8_t { kScorer, kProtection, kGranularity, kSplit };
inline constexpr std::array kSlots{Slot::kScorer, Slot::kProtection, Slot::kGranularity, Slot::kSplit};

// What a value is chosen by on the command line: "scorer", "protect", "granularity", "split". The last three
// are also what the option of a policy is called.
std::string_view slot_name(Slot slot);
// What people call it: "scorer", "protection", "granularity", "budget split".
std::string_view slot_words(Slot slot);

// Something for every slot.
template <typename T>
class BySlot {
 public:
  T& operator[](Slot slot) { return all_[static_cast<std::size_t>(slot)]; }
  const T& operator[](Slot slot) const { return all_[static_cast<std::size_t>(slot)]; }
  bool operator==(const BySlot&) const = default;

 private:
  std::array<T, kSlots.size()> all_{};
};

// What a grid was asked to vary.
struct GridChoice {
  std::string base = "keydiff";             // a policy, with the values that slots have while others vary
  BySlot<std::vector<std::string>> values;  // scorers are policies without the options of slots
  std::vector<std::string> crossed{"scorer", "protect"};  // slots all of whose values are combined
  std::string reference = "random";                       // the scorer that leads are measured from
};

// One method: which value each slot has.
struct Method {
  BySlot<std::size_t> at;
  std::string policy;  // as `--policy` takes it
};

// All methods of a grid: every combination of the values of slots that are crossed, and of each other slot
// its values, one at a time, with all others at the base.
struct GridPlan {
  BySlot<std::vector<std::string>> values;  // in the order given; the base's first where it was not
  BySlot<std::size_t> base;                 // the place of the base's value
  BySlot<bool> crossed;
  std::vector<Method> methods;           // the base first
  std::optional<std::size_t> reference;  // place of the reference among scorers; none: it is not one of them
  std::optional<std::size_t> unprotected;  // place of "none" among protections

  // The method with these values.
  std::optional<std::size_t> find(const BySlot<std::size_t>& at) const;
  const std::string& value(Slot slot, const Method& method) const { return values[slot][method.at[slot]]; }
};

//   throws UsageError on a policy or a value that there is not, a value given twice, a scorer with an option
//   of a slot, and a slot to cross that there is not
GridPlan plan_grid(const GridChoice& choice);

// {"base", "scorer", "protect", "granularity", "split", "crossed", "reference"}: what a grid depends on
// beside tasks, budgets and blocks.
nlohmann::ordered_json plan_json(const GridPlan& plan);

}  // namespace keyscope::grid

#pragma once

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {

// A list of an option's values; `shown` is what of a value is compared and named.
//   throws UsageError where one is given twice
template <typename Range, typename Shown = std::identity>
void check_given_once(const Range& values, const char* option, Shown shown = {}) {
  for (auto value = values.begin(); value != values.end(); ++value)
    if (std::ranges::find(values.begin(), value, shown(*value), shown) != value)
      throw UsageError(
          fmt::format("{}: {} is given twice; its examples would count twice", option, shown(*value)));
}

}  // namespace keyscope::evaluation

#pragma once

#include <cstddef>
#include <string_view>

#include "app/figures/figure.hpp"

namespace keyscope::figures {

// How a policy is drawn where several are compared: `none`, the baseline, looks the same in every figure; the
// others take theirs in turn.
class PolicyLooks {
 public:
  struct Look {
    Colour colour;
    Marker marker;
  };

  // The look of the next policy.
  Look next(std::string_view policy);

 private:
  std::size_t turn_ = 0;
};

}  // namespace keyscope::figures

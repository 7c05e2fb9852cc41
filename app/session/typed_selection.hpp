#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "app/session/selection.hpp"

namespace keyscope::session {

// "layer 3", "head 2", "block 7", "l3 h2 b7": numbers of the command line behind words or their first
// letters, in any order. Empty where the text is anything else.
std::optional<SelectionRequest> typed_selection(std::string_view text);

// "Layer 3, KV head 2, block 7".
std::string describe_request(const SelectionRequest& request);

// Why `request` cannot be selected with what is selected now, and what there is; empty where it can.
//   info: with runs and layers
std::string selection_refusal(const recording::RecordingInfo& info, const Selection& now,
                              const SelectionRequest& request);

}  // namespace keyscope::session

#pragma once

#include <cstdint>

#include "capture/model/config.hpp"

namespace keyscope::capture {

// Multiply-adds of all layers' products for one token, attention's own and the head's not counted: of experts
// those that it goes to.
double token_products(const ModelConfig& config);

// F of the model's feed-forward (D, F): of layers without experts if there are any, else of one expert.
std::int64_t feed_forward_size(const ModelConfig& config);

}  // namespace keyscope::capture

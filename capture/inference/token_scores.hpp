#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/model/transformer.hpp"

namespace keyscope::capture {

// float32 logits (vocab) of one position.
//   hidden: (1, hidden_size) that the last layer gave for it
//   position: for the message
//   throws InvalidInput where one is not finite
std::vector<float> finite_logits(const Transformer& transformer, const at::Tensor& hidden,
                                 std::int64_t position);

// ln p(next_ids[i]) by the hidden states (n, hidden_size) that the last layer gave for positions first, …:
// the softmax over the vocabulary, in float64. Logits are made of a few positions at a time and reduced at
// once, 16 MiB of them however many positions there are.
//   next_ids: at most n; rows past them are not looked at
//   throws InvalidInput where a logit is not finite
std::vector<double> log_probabilities(const Transformer& transformer, const at::Tensor& hidden,
                                      std::span<const std::int32_t> next_ids, std::int64_t first);

}  // namespace keyscope::capture

#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace keyscope::capture {

// What a Gated DeltaNet (arXiv 2412.06464) mixes, before its convolution; n tokens. For sizes see
// RecurrentConfig and RecurrentWeights.
struct RecurrentProjections {
  at::Tensor mixed;          // (n, C): queries, keys, values
  at::Tensor gate;           // (n, H·V)
  at::Tensor update, decay;  // (n, H) twice
};

// What one sequence leaves behind in such a layer: all that later tokens know of earlier ones.
struct RecurrentState {
  at::Tensor inputs;  // (tokens - 1, C) the convolution's last ones, in the model's dtype
  at::Tensor memory;  // (H, key_dim, V) float32: the state that maps a key to a value

  RecurrentState copy() const { return {inputs.clone(), memory.clone()}; }
  std::int64_t n_bytes() const { return static_cast<std::int64_t>(inputs.nbytes() + memory.nbytes()); }
};

// Of each value head and token: the state forgets by `decay`, learns key -> value by `update`, and is asked
// with the query:
//   S ← decay S;  S ← S + update k (v - Sᵀk)ᵀ;  out = Sᵀq
// All float32 and contiguous.
struct DeltaRuleInput {
  at::Tensor queries, keys;  // (n, key heads, key_dim), of unit length; queries also divided by √key_dim
  at::Tensor values;         // (n, H, V)
  at::Tensor decay, update;  // (n, H), in [0, 1]
};

}  // namespace keyscope::capture

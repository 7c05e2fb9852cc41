#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "capture/inference/attention.hpp"
#include "capture/kernels/kernels.hpp"

namespace keyscope::capture {

// Memory that grows and is used again; aligned to a cache line.
class ScratchBuffer {
 public:
  template <typename T>
  T* reserve(std::int64_t n) {
    grow(static_cast<std::size_t>(n) * sizeof(T));
    return reinterpret_cast<T*>(bytes_.get());
  }

 private:
  void grow(std::size_t n_bytes);
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
};

// Keys and values of one KV head as products with tiles of queries need them, in panels of kPanel rows.
//
// Two-byte elements go through LibTorch's block products (AMX where the processor has it) in pairs; where
// those are missing, and for float32, panels are float32 and multiplied by our own loop.
class AttentionOperands {
 public:
  AttentionOperands(const kernels::Kernels& kernels, at::ScalarType dtype, std::int64_t head_dim);

  // Takes rows [first, n_rows); what it has taken is valid until the next call.
  void pack(const HeadRows& rows, std::int64_t first);
  std::int64_t n_panels() const { return n_panels_; }

  // scores: [panel][row][kPanel] of n queries (n, head_dim) against panels [0, n_panels)
  void score(const void* queries, std::int64_t n, std::int64_t n_panels, float* scores);

  // out (n, head_dim) = weights · values, over panels [0, n_panels).
  //   weights: float32 [panel][row][kPanel]; paired: the same as elements, where `paired()`
  void mix(const float* weights, const void* paired_weights, std::int64_t n, std::int64_t n_panels,
           float* out);

  bool paired() const { return paired_; }

  // Gives back what the processor holds for block products; to be called when a thread has done its share.
  void release() const;

 private:
  std::size_t element_bytes() const { return paired_ ? 2 : 4; }

  const kernels::Kernels& kernels_;
  at::ScalarType dtype_;
  std::int64_t head_dim_;
  bool paired_;
  std::int64_t n_panels_ = 0;
  ScratchBuffer keys_, values_, queries_;
};

}  // namespace keyscope::capture

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/quantisation.hpp"
#include "capture/model/safetensors.hpp"

namespace keyscope::capture {

using Shape = std::vector<std::int64_t>;

// One tensor of a checkpoint by the shape that its architecture gives it, however it is stored: as it is, or
// packed into a few bits with scales of its own. `first` and `n` count entries of the first dimension: a
// matrix' rows, or one matrix of several.
class StoredWeight {
 public:
  StoredWeight() = default;
  StoredWeight(const StoredWeight&) = delete;
  StoredWeight& operator=(const StoredWeight&) = delete;
  virtual ~StoredWeight() = default;

  virtual const Shape& shape() const = 0;
  virtual const std::string& form() const = 0;  // "F32", "BF16", "MXFP4", "Q4_K", …
  virtual const std::string& file() const = 0;  // for messages

  // Whether its elements lie in the file as they are: float32, bfloat16 or float16, as `form` says. `bytes`
  // then is one piece, possibly unaligned.
  virtual bool is_plain() const = 0;

  // What of mapped files holds entries [first, first + n).
  virtual std::vector<std::span<const std::byte>> bytes(std::int64_t first, std::int64_t n) const = 0;

  // Entries [first, first + n), exactly as the format defines them, into `out`: n times the elements of one.
  virtual void unpack(std::int64_t first, std::int64_t n, float* out) const = 0;

  std::int64_t n_elements() const;
  std::int64_t entry_elements() const;  // of one entry; 0 where there are none

  //   name: for the message
  //   throws FileError where its elements are no floats of a kind that is known
  virtual void check_form(const std::string& name) const = 0;
};

using WeightTable = std::map<std::string, std::unique_ptr<StoredWeight>, std::less<>>;

// A tensor of a safetensors file as it lies there; the tensor must outlive it.
std::unique_ptr<StoredWeight> plain_weight(const StoredTensor& tensor);

// Elements [first, first + n) of a tensor that is F32, BF16 or F16.
void widen(const StoredTensor& tensor, std::int64_t first, std::int64_t n, float* out);

// All of a checkpoint's tensors, by the names that Hugging Face gives them.
class StoredWeights {
 public:
  // Those of a GGUF file, or of safetensors files, unpacked where the configuration says that they are
  // packed: the tensors that they are packed in are not among them. The checkpoint must outlive them.
  //   throws FileError naming file and tensor where what is packed is not as the configuration says
  explicit StoredWeights(const Checkpoint& checkpoint, const Quantisation& quantisation = {});

  const StoredWeight* find(std::string_view name) const;  // null if there is none
  const WeightTable& tensors() const { return tensors_; }
  // What an index says of a tensor that is not there; empty where it says nothing.
  std::string why_missing(std::string_view name) const { return checkpoint_->why_missing(name); }
  const std::string& source() const { return checkpoint_->source(); }
  // As config.json would say it: "float32", "bfloat16" or "float16", of the first tensor that is stored as
  // one; else empty.
  std::string float_dtype() const;

 private:
  const Checkpoint* checkpoint_;
  WeightTable tensors_;
};

}  // namespace keyscope::capture

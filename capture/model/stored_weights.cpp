#include "capture/model/stored_weights.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/model/gguf_weights.hpp"
#include "capture/model/packed_weight.hpp"

namespace keyscope::capture {

namespace {

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

float from_float16(std::uint16_t bits) {
  _Float16 value{};
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<float>(value);
}

template <typename Convert>
void widen_halves(std::span<const std::byte> bytes, float* out, Convert convert) {
  for (std::size_t i = 0; i < bytes.size() / 2; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, sizeof bits);
    out[i] = convert(bits);
  }
}

// As it lies in a safetensors file.
class PlainWeight : public StoredWeight {
 public:
  explicit PlainWeight(const StoredTensor& tensor) : tensor_(tensor) {}

  const Shape& shape() const override { return tensor_.shape; }
  const std::string& form() const override { return tensor_.dtype; }
  const std::string& file() const override { return tensor_.file; }
  bool is_plain() const override { return form() == "F32" || form() == "BF16" || form() == "F16"; }

  std::vector<std::span<const std::byte>> bytes(std::int64_t first, std::int64_t n) const override {
    const auto n_entries = static_cast<std::size_t>(std::max<std::int64_t>(1, shape().front()));
    const std::size_t entry = tensor_.data.size() / n_entries;
    return {
        tensor_.data.subspan(entry * static_cast<std::size_t>(first), entry * static_cast<std::size_t>(n))};
  }

  void unpack(std::int64_t first, std::int64_t n, float* out) const override {
    widen(tensor_, first * entry_elements(), n * entry_elements(), out);
  }

  void check_form(const std::string& name) const override {
    if (!is_plain())
      throw FileError(fmt::format("{}: tensor {} is {}, expected F32, BF16 or F16", file(), name, form()));
  }

 private:
  const StoredTensor& tensor_;
};

}  // namespace

std::int64_t StoredWeight::n_elements() const {
  std::int64_t n = 1;
  for (const std::int64_t size : shape()) n = size == 0 || n == 0 ? 0 : n * size;
  return n;
}

std::int64_t StoredWeight::entry_elements() const {
  return n_elements() / std::max<std::int64_t>(1, shape().front());
}

std::unique_ptr<StoredWeight> plain_weight(const StoredTensor& tensor) {
  return std::make_unique<PlainWeight>(tensor);
}

void widen(const StoredTensor& tensor, std::int64_t first, std::int64_t n, float* out) {
  const std::int64_t size = tensor.dtype == "F32" ? 4 : 2;
  const auto from =
      tensor.data.subspan(static_cast<std::size_t>(first * size), static_cast<std::size_t>(n * size));
  if (size == 4)
    std::memcpy(out, from.data(), from.size());
  else if (tensor.dtype == "BF16")
    widen_halves(from, out, from_bfloat16);
  else
    widen_halves(from, out, from_float16);
}

StoredWeights::StoredWeights(const Checkpoint& checkpoint, const Quantisation& quantisation)
    : checkpoint_(&checkpoint),
      tensors_(checkpoint.gguf() != nullptr ? gguf_weights(*checkpoint.gguf())
                                            : weights_of(checkpoint.tensors(), quantisation)) {}

std::string StoredWeights::float_dtype() const {
  for (const auto& [name, weight] : tensors_) {
    if (weight->form() == "F32") return "float32";
    if (weight->form() == "BF16") return "bfloat16";
    if (weight->form() == "F16") return "float16";
  }
  return {};
}

const StoredWeight* StoredWeights::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second.get();
}

}  // namespace keyscope::capture

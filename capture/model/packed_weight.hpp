#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/quantisation.hpp"
#include "capture/model/stored_weights.hpp"

namespace keyscope::capture {

using RawTensors = std::map<std::string, const StoredTensor*, std::less<>>;

// A stored tensor that holds a part of a packed weight: codes, scales, zero points, an order of inputs.
// Everything throws FileError naming file and tensor.
struct WeightPart {
  std::string name;
  const StoredTensor* tensor = nullptr;

  const Shape& shape() const { return tensor->shape; }
  const std::string& dtype() const { return tensor->dtype; }
  std::span<const std::byte> data() const { return tensor->data; }
  std::int64_t size(std::size_t dimension) const { return tensor->shape[dimension]; }

  [[noreturn]] void fail(const std::string& what) const;
  void expect_dtype(std::initializer_list<std::string_view> dtypes) const;
  void expect_dimensions(std::size_t n) const;  // so many, none of them empty
  //   why: ends the message, such as "as qweight implies"
  void expect_shape(const Shape& shape, std::string_view why) const;

  // Elements [first, first + n) of scales: floats as they are, and of bytes (U8, F8_E8M0) the power of two
  // whose biased exponent they are. Zero and negative scales are numbers as others: a block of zeros has the
  // one, some symmetric quantisers write the other.
  //   throws FileError where one is NaN or infinite
  void read_scales(std::int64_t first, std::int64_t n, float* out) const;
};

// Values of all bytes. Source of the formats: OCP 8-bit Floating Point Specification (OFP8) 1.0; OCP
// Microscaling Formats (MX) 1.0.
std::span<const float> float8_values(std::string_view dtype);  // F8_E4M3 or F8_E5M2
std::span<const float> power_values();                         // E8M0: 2^(byte - 127), 255 is NaN
std::span<const float> float4_pairs();                         // E2M1, two a byte, the low nibble's first

// The tensors that hold packed weights, and which of them have found their weight.
class WeightParts {
 public:
  explicit WeightParts(const RawTensors& tensors) : tensors_(tensors) {}

  std::optional<WeightPart> find(const std::string& name);
  //   of: the part that needs it, for the message
  //   throws FileError where it is not there
  WeightPart need(const std::string& name, const WeightPart& of);
  void drop(const std::string& name) { used_.insert(name); }
  bool is_used(const std::string& name) const { return used_.contains(name); }

 private:
  const RawTensors& tensors_;
  std::set<std::string, std::less<>> used_;
};

// A packed weight: what all formats have in common.
class PackedWeight : public StoredWeight {
 public:
  PackedWeight(std::string name, std::string form, Shape shape, const WeightPart& codes)
      : name_(std::move(name)), form_(std::move(form)), shape_(std::move(shape)), codes_(codes) {}

  const Shape& shape() const override { return shape_; }
  const std::string& form() const override { return form_; }
  const std::string& file() const override { return codes_.tensor->file; }
  bool is_plain() const override { return false; }
  void check_form(const std::string&) const override {}  // its parts were checked when it was made

 protected:
  const std::string& name() const { return name_; }
  const WeightPart& codes() const { return codes_; }

 private:
  std::string name_, form_;
  Shape shape_;
  WeightPart codes_;
};

// Makers of packed weights. `leading` is the part by which one is found, `module` what stands before its
// suffix.
//   throws FileError naming file and tensor where a part is missing, or parts do not fit each other
using WeightMaker = std::unique_ptr<StoredWeight> (*)(const std::string& module, const WeightPart& leading,
                                                      WeightParts& parts, const Quantisation& quantisation);
std::unique_ptr<StoredWeight> make_fp8(const std::string& module, const WeightPart& leading,
                                       WeightParts& parts, const Quantisation& quantisation);
std::unique_ptr<StoredWeight> make_compressed(const std::string& module, const WeightPart& leading,
                                              WeightParts& parts, const Quantisation& quantisation);
std::unique_ptr<StoredWeight> make_int8(const std::string& module, const WeightPart& leading,
                                        WeightParts& parts, const Quantisation& quantisation);
std::unique_ptr<StoredWeight> make_gptq(const std::string& module, const WeightPart& leading,
                                        WeightParts& parts, const Quantisation& quantisation);
std::unique_ptr<StoredWeight> make_awq(const std::string& module, const WeightPart& leading,
                                       WeightParts& parts, const Quantisation& quantisation);
std::unique_ptr<StoredWeight> make_mxfp4_experts(const std::string& module, const WeightPart& leading,
                                                 WeightParts& parts, const Quantisation& quantisation);
std::unique_ptr<StoredWeight> make_codes4(const std::string& module, const WeightPart& leading,
                                          WeightParts& parts, const Quantisation& quantisation);

// Which of compressed-tensors' schemes a module has: that of its name, else of an expression, else of its
// class, which is Linear for all but embeddings. Null where it has none.
const PackingScheme* scheme_of(const Quantisation& quantisation, const std::string& module);

// All weights of a checkpoint, those that are packed under the names that Hugging Face gives them unpacked.
// What the raw tensors hold must outlive them.
//   throws FileError naming file and tensor
WeightTable weights_of(const RawTensors& tensors, const Quantisation& quantisation);

}  // namespace keyscope::capture

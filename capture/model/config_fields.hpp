#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "capture/model/family.hpp"

namespace keyscope::capture {

// Generous bounds, far above every known model: what exceeds them is a damaged file.
inline constexpr std::int64_t kMostLayers = 4096;
inline constexpr std::int64_t kMostHeads = 65536;
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;

// The fields of one JSON object, with the place that every complaint names. A null counts as not there.
// Everything throws FileError naming the field, what was found and what was expected.
class ConfigFields {
 public:
  // json must outlive the fields.
  ConfigFields(const nlohmann::json& json, std::string where) : json_(&json), where_(std::move(where)) {}

  bool has(const std::string& name) const;
  bool is_null(const std::string& name) const;
  const nlohmann::json& at(const std::string& name) const;

  std::int64_t count(const std::string& name, std::int64_t least, std::int64_t most) const;
  std::int64_t count_or(const std::string& name, std::int64_t otherwise, std::int64_t least,
                        std::int64_t most) const;
  double positive(const std::string& name) const;
  double positive_or(const std::string& name, double otherwise) const;
  double not_negative(const std::string& name) const;
  bool flag_or(const std::string& name, bool otherwise) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;

  const nlohmann::json& json() const { return *json_; }

  // The object in field `name`, which must be there.
  ConfigFields inside(const std::string& name) const;

  const std::string& where() const { return where_; }
  [[noreturn]] void fail(const std::string& name, const std::string& found,
                         const std::string& expected) const;

 private:
  const nlohmann::json* json_;
  std::string where_;
};

// Parts of a config.json that have a file of their own, read into a configuration whose shape has been read.
//   throw FileError naming the field

// Rotary positions: what of a head rotates and in which layers, theta, scaling, a theta of layers with a
// window. Older files have `rope_theta` and `rope_scaling` side by side, newer ones both inside
// `rope_parameters`. Where the scaling grows with the length seen, the context grows by its factor.
void read_rope(const ConfigFields& fields, const Family& family, ModelConfig& config);

// What layers have of their own: heads of another shape, keys of another layer's, an input beside the hidden
// state. Windows have been read.
void read_layer_shapes(const ConfigFields& fields, const Family& family, ModelConfig& config);

// How many experts there are, in which layers, how they are chosen and weighted, and whether some are shared;
// without any, the size of the feed-forward that there is.
void read_experts(const ConfigFields& fields, const Family& family, ModelConfig& config);

}  // namespace keyscope::capture

#include "analysis/row_quantisation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

constexpr std::array kDtypes{std::pair{CacheDtype::kModel, std::string_view("model")},
                             std::pair{CacheDtype::kFp8, std::string_view("fp8")},
                             std::pair{CacheDtype::kInt8, std::string_view("int8")},
                             std::pair{CacheDtype::kInt4, std::string_view("int4")}};
constexpr std::array kScales{std::pair{CacheScales::kChannel, std::string_view("channel")},
                             std::pair{CacheScales::kToken, std::string_view("token")},
                             std::pair{CacheScales::kHead, std::string_view("head")}};

template <typename Table, typename Value>
std::string_view name_in(const Table& table, Value value) {
  return std::ranges::find(table, value, [](const auto& entry) { return entry.first; })->second;
}

template <typename Table>
auto find_in(const Table& table, std::string_view name, const char* option) {
  const auto found = std::ranges::find(table, name, [](const auto& entry) { return entry.second; });
  if (found != table.end()) return found->first;
  std::string names;
  for (const auto& [value, known] : table) names += (names.empty() ? "" : ", ") + std::string(known);
  throw UsageError(fmt::format("{}: there is no '{}'; expected one of {}", option, name, names));
}

bool is_normal(float step) { return step >= std::numeric_limits<float>::min(); }

// Numbers with one scale and one zero point, `stride` apart.
void round_to_integers(float* numbers, std::int64_t n, std::int64_t stride, float levels) {
  float low = numbers[0], high = numbers[0];
  for (std::int64_t i = 1; i < n; ++i) {
    low = std::min(low, numbers[i * stride]);
    high = std::max(high, numbers[i * stride]);
  }
  const float step = (high - low) / levels;
  for (std::int64_t i = 0; i < n; ++i) {
    float& x = numbers[i * stride];
    if (step < std::numeric_limits<float>::min()) {
      x = std::isnan(x) ? x : low + 0.0F;  // of minus zero, zero
      continue;
    }
    const float code = std::clamp(std::nearbyint((x - low) / step), 0.0F, levels);
    x = code * step + low;
  }
}

void round_to_fp8(float* numbers, std::int64_t n, float scale) {
  for (std::int64_t i = 0; i < n; ++i) numbers[i] = round_to_e4m3(numbers[i] / scale) * scale;
}

float token_scale(const float* row, std::int64_t head_dim) {
  float largest = 0;
  for (std::int64_t i = 0; i < head_dim; ++i) largest = std::max(largest, std::abs(row[i]));
  const float scale = largest / kLargestE4m3;
  return is_normal(scale) ? scale : 1;
}

}  // namespace

int CacheFormat::bits() const {
  switch (dtype) {
    case CacheDtype::kFp8:
    case CacheDtype::kInt8:
      return 8;
    case CacheDtype::kInt4:
      return 4;
    case CacheDtype::kModel:
      break;
  }
  return 0;
}

std::string_view cache_dtype_name(CacheDtype dtype) { return name_in(kDtypes, dtype); }

std::string_view cache_scales_name(CacheScales scales) { return name_in(kScales, scales); }

CacheFormat cache_format(std::string_view dtype, std::string_view scales) {
  CacheFormat format;
  format.dtype = find_in(kDtypes, dtype, "--cache-dtype");
  const bool fp8 = format.dtype == CacheDtype::kFp8;
  format.scales = fp8 ? CacheScales::kHead : CacheScales::kChannel;
  if (!scales.empty()) format.scales = find_in(kScales, scales, "--cache-scales");
  const CacheScales missing = fp8 ? CacheScales::kChannel : CacheScales::kHead;
  if (format.quantises() && format.scales == missing)
    throw UsageError(fmt::format("--cache-scales: {} has no scales by {}; expected {} or token", dtype,
                                 scales, fp8 ? "head" : "channel"));
  return format;
}

float round_to_e4m3(float x) {
  constexpr int kLeastExponent = -6, kMantissaBits = 3;
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), kLeastExponent);
  const float step = std::ldexp(1.0F, exponent - kMantissaBits);  // a power of two: both products are exact
  return std::clamp(std::nearbyint(x / step) * step, -kLargestE4m3, kLargestE4m3);
}

float head_scale(float largest, bool keys) {
  const float scale = largest / (keys ? 224.0F : 112.0F);
  return is_normal(scale) ? scale : 1;
}

void round_rows(float* rows, std::int64_t n, std::int64_t head_dim, const RowRounding& rounding) {
  const CacheFormat& format = rounding.format;
  if (format.dtype == CacheDtype::kFp8) {
    for (float* row = rows; row < rows + n * head_dim; row += head_dim)
      round_to_fp8(row, head_dim,
                   format.scales == CacheScales::kHead ? rounding.scale : token_scale(row, head_dim));
    return;
  }
  const auto levels = static_cast<float>((1 << format.bits()) - 1);
  if (rounding.by_channel()) {
    for (std::int64_t first = 0; first < n; first += kQuantisedGroup)
      for (std::int64_t channel = 0; channel < head_dim; ++channel)
        round_to_integers(rows + first * head_dim + channel, kQuantisedGroup, head_dim, levels);
    return;
  }
  for (float* row = rows; row < rows + n * head_dim; row += head_dim)
    for (std::int64_t first = 0; first < head_dim; first += kQuantisedGroup)
      round_to_integers(row + first, std::min(kQuantisedGroup, head_dim - first), 1, levels);
}

std::int64_t held_bytes(const CachedRows& rows) {
  return 2 * rows.n_rows * rows.head_dim * rows.element_bytes;
}

std::int64_t packed_bytes(const CachedRows& rows, const CacheFormat& format) {
  if (!format.quantises()) return held_bytes(rows);
  constexpr std::int64_t kNumber = sizeof(float), kScaleAndZero = 2 * kNumber;
  const std::int64_t codes = (rows.head_dim * format.bits() + 7) / 8;  // of one key or value
  if (format.dtype == CacheDtype::kFp8) {
    const std::int64_t scales = format.scales == CacheScales::kHead ? 1 : rows.n_rows;
    return 2 * (rows.n_rows * codes + scales * kNumber);
  }
  const std::int64_t by_token = codes + (rows.head_dim - 1) / kQuantisedGroup * kScaleAndZero + kScaleAndZero;
  if (!format.groups_keys()) return 2 * rows.n_rows * by_token;
  const std::int64_t keys = (rows.n_rows - rows.n_waiting) * codes +
                            rows.n_groups * rows.head_dim * kScaleAndZero +
                            rows.n_waiting * rows.head_dim * rows.element_bytes;
  return keys + rows.n_rows * by_token;
}

}  // namespace keyscope::analysis

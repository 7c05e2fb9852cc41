#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace keyscope::analysis {

// Quantisation of a KV cache, simulated: rows are rounded to the numbers that a quantised cache can hold, and
// go on in the dtype that they came in. Scales and zero points are float32.
//   sources: int4 and int8: KIVI (arXiv 2402.02750), Section 3 and Algorithm 1; fp8: E4M3 of FP8 Formats for
//   Deep Learning (arXiv 2209.05433), Section 3, with scales as vLLM takes them for its cache

enum class CacheDtype { kModel, kFp8, kInt8, kInt4 };

// What has a scale of its own.
//   kChannel: integers. Keys: each channel of kQuantisedGroup tokens; values as kToken. KIVI
//   kToken: integers: up to kQuantisedGroup channels of a token; fp8: a token of a head
//   kHead: fp8. A KV head's keys, and its values
enum class CacheScales { kChannel, kToken, kHead };

// KIVI's G: tokens whose keys share a channel's scale, and channels of a value that share theirs.
inline constexpr std::int64_t kQuantisedGroup = 32;

struct CacheFormat {
  CacheDtype dtype = CacheDtype::kModel;
  CacheScales scales = CacheScales::kToken;  // not looked at where rows stay in the model's dtype

  bool quantises() const { return dtype != CacheDtype::kModel; }
  // Whether keys wait, unquantised, until kQuantisedGroup of them make a group.
  bool groups_keys() const { return quantises() && scales == CacheScales::kChannel; }
  int bits() const;  // of one number; 0: as the model has them

  bool operator==(const CacheFormat& other) const {
    return dtype == other.dtype && (!quantises() || scales == other.scales);
  }
};

// "model", "fp8", "int8", "int4"; "channel", "token", "head": what options and recordings call them.
std::string_view cache_dtype_name(CacheDtype dtype);
std::string_view cache_scales_name(CacheScales scales);

// The format of these names.
//   scales: empty: channel for integers, head for fp8
//   throws UsageError where there is no such name, or the dtype does not have such scales
CacheFormat cache_format(std::string_view dtype, std::string_view scales = {});

// How rows of one head are rounded.
struct RowRounding {
  CacheFormat format;
  bool keys = false;  // else values, which have scales by channel in no format
  float scale = 1;    // with scales by head: what the head's rows are divided by

  bool by_channel() const { return keys && format.groups_keys(); }
};

// Rounds rows in place, each to the nearest number that their scale gives, ties to even.
//   rows: (n, head_dim). By channel, n is a multiple of kQuantisedGroup, and each so many rows are a group
//   integers: z = min, s = (max - min) / (2^bits - 1) of the numbers that share a scale; x becomes
//   round((x - z) / s) s + z, all in float32. Where s is no normal float32, x becomes z
//   fp8: x becomes e4m3(x / s) s, with s = max |x| / 448 of a token, or the head's; beyond ±448 s it is that
// Numbers that share a scale with NaN or Inf become NaN, all or some of them, the NaN or Inf always; with the
// scale of a head, NaN and Inf stay as they are.
void round_rows(float* rows, std::int64_t n, std::int64_t head_dim, const RowRounding& rounding);

// To the nearest E4M3 number, ties to even: 3 bits of mantissa, exponents from -6, no more than ±448, and
// steps of 2^-9 below 2^-6. NaN and Inf stay as they are.
float round_to_e4m3(float x);

inline constexpr float kLargestE4m3 = 448;

// The scale of a head's keys or values: the largest |x| of its first rows over 224 (keys) or 112 (values), so
// that later rows have room up to twice and four times as much. As vLLM's --calculate-kv-scales, by head; its
// constants, 200 and 100, put the largest number in the middle between two of E4M3, where chance decides, and
// these are of E4M3.
//   returns 1 where that would be no normal float32
float head_scale(float largest, bool keys);

// Rows of one head in a cache.
struct CachedRows {
  std::int64_t n_rows = 0;
  std::int64_t n_waiting = 0;  // of them, whose keys wait for a group
  std::int64_t n_groups = 0;   // groups of keys of which a row is left
  std::int64_t head_dim = 0;
  std::int64_t element_bytes = 4;  // of the model's dtype
};

// Bytes of these keys and values, scales and zero points (float32) included: as they are held in the model's
// dtype, and as a packed cache holds them. A group's scales stay as long as one of its rows does.
std::int64_t held_bytes(const CachedRows& rows);
std::int64_t packed_bytes(const CachedRows& rows, const CacheFormat& format);

}  // namespace keyscope::analysis

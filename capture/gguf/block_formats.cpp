#include "capture/gguf/block_formats.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace keyscope::gguf {

// Layouts: https://github.com/ggml-org/ggml, ggml-common.h (block_q4_0 and its like). d, m: float16 scale and
// offset. Of the K formats a block has 256 values in 8 or 16 parts, whose scales are packed themselves.
//
// The order of operations is that of the package's float32 arrays, each rounded by itself
// (-ffp-contract=off); with other roundings results would differ in the last bit.

namespace {

using Bytes = const std::uint8_t*;

float half_at(Bytes at) {
  _Float16 value{};
  std::memcpy(&value, at, sizeof value);
  return static_cast<float>(value);
}

// One block of a format into its values, in a loop over blocks.
template <std::int64_t kValues, std::int64_t kBytes, void (*kBlock)(Bytes, float*)>
void unpack_each(const std::byte* blocks, std::int64_t n_blocks, float* out) {
  const auto* at = reinterpret_cast<Bytes>(blocks);
  for (std::int64_t i = 0; i < n_blocks; ++i, at += kBytes, out += kValues) kBlock(at, out);
}

void f32_block(Bytes at, float* out) { std::memcpy(out, at, sizeof *out); }

void f16_block(Bytes at, float* out) { *out = half_at(at); }

void bf16_block(Bytes at, float* out) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  *out = std::bit_cast<float>(std::uint32_t{bits} << 16);
}

constexpr int kShort = 32;  // values of the older formats' blocks

// 16 bytes: the low halves are the first 16 values, the high ones the others.
void q4_0_block(Bytes at, float* out) {
  const float d = half_at(at);
  at += 2;
  for (int i = 0; i < kShort / 2; ++i) {
    out[i] = d * static_cast<float>((at[i] & 15) - 8);
    out[i + kShort / 2] = d * static_cast<float>((at[i] >> 4) - 8);
  }
}

void q4_1_block(Bytes at, float* out) {
  const float d = half_at(at), m = half_at(at + 2);
  at += 4;
  for (int i = 0; i < kShort / 2; ++i) {
    out[i] = d * static_cast<float>(at[i] & 15) + m;
    out[i + kShort / 2] = d * static_cast<float>(at[i] >> 4) + m;
  }
}

// Fifth bits: 32 of them, one per value, in front of the halves.
std::array<int, kShort> five_bits(Bytes at) {
  std::uint32_t high = 0;
  std::memcpy(&high, at, sizeof high);
  at += sizeof high;
  std::array<int, kShort> values{};
  for (int i = 0; i < kShort / 2; ++i) {
    values[i] = (at[i] & 15) | static_cast<int>((high >> i & 1U) << 4);
    values[i + kShort / 2] = (at[i] >> 4) | static_cast<int>((high >> (i + kShort / 2) & 1U) << 4);
  }
  return values;
}

void q5_0_block(Bytes at, float* out) {
  const float d = half_at(at);
  const auto values = five_bits(at + 2);
  for (int i = 0; i < kShort; ++i) out[i] = d * static_cast<float>(values[i] - 16);
}

void q5_1_block(Bytes at, float* out) {
  const float d = half_at(at), m = half_at(at + 2);
  const auto values = five_bits(at + 4);
  for (int i = 0; i < kShort; ++i) out[i] = d * static_cast<float>(values[i]) + m;
}

void q8_0_block(Bytes at, float* out) {
  const float d = half_at(at);
  at += 2;
  for (int i = 0; i < kShort; ++i) out[i] = static_cast<float>(static_cast<std::int8_t>(at[i])) * d;
}

constexpr int kLong = 256;                          // values of the K formats' blocks
constexpr std::ptrdiff_t kRun = 32, kHalfRun = 16;  // bytes that share a shift

// Two bits a value: of each 32 bytes the lowest two bits are the first 32 values, and so on.
void q2_k_block(Bytes at, float* out) {
  const Bytes scales = at, low = at + 16;
  const float d = half_at(at + 80), m = half_at(at + 82);
  for (int part = 0; part < kLong / 16; ++part) {
    const float scale = d * static_cast<float>(scales[part] & 15);
    const float offset = m * static_cast<float>(scales[part] >> 4);
    const Bytes bytes = low + part / 8 * kRun + part % 2 * kHalfRun;
    const int shift = part % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) *out++ = scale * static_cast<float>(bytes[i] >> shift & 3) - offset;
  }
}

// A third bit in front: bit k of byte i is of value 32 k + i; where it is not set, 4 is taken away. Scales
// have four bits in 8 bytes (low halves first) and two more in 4 bytes.
void q3_k_block(Bytes at, float* out) {
  const Bytes high = at, low = at + 32, scales = at + 96;
  const float d = half_at(at + 108);
  for (int part = 0; part < kLong / 16; ++part) {
    const int four = scales[part % 8] >> (part < 8 ? 0 : 4) & 15;
    const int two = scales[8 + part % 4] >> (part / 4 * 2) & 3;
    const float scale = d * static_cast<float>((four | two << 4) - 32);
    const Bytes bytes = low + part / 8 * kRun + part % 2 * kHalfRun, bits = high + part % 2 * kHalfRun;
    const int shift = part % 8 / 2 * 2, bit = part / 2;
    for (int i = 0; i < 16; ++i)
      *out++ = scale * static_cast<float>((bytes[i] >> shift & 3) - (bits[i] >> bit & 1 ? 0 : 4));
  }
}

// Scales and offsets of Q4_K and Q5_K, six bits each, in 12 bytes: those of the first four parts as they are,
// of the other four the low halves in the last four bytes and two bits on top of the first eight.
struct PartScales {
  PartScales(float d, float m, Bytes packed) {
    for (int i = 0; i < 4; ++i) {
      scale[i] = d * static_cast<float>(packed[i] & 63);
      offset[i] = m * static_cast<float>(packed[i + 4] & 63);
      scale[i + 4] = d * static_cast<float>((packed[i + 8] & 15) | (packed[i] >> 6) << 4);
      offset[i + 4] = m * static_cast<float>(packed[i + 8] >> 4 | (packed[i + 4] >> 6) << 4);
    }
  }
  std::array<float, 8> scale{}, offset{};
};

void q4_k_block(Bytes at, float* out) {
  const PartScales parts(half_at(at), half_at(at + 2), at + 4);
  const Bytes low = at + 16;
  for (int part = 0; part < 8; ++part, out += 32) {
    const Bytes bytes = low + part / 2 * kRun;
    const int shift = part % 2 * 4;
    const float scale = parts.scale[part], offset = parts.offset[part];
    for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(bytes[i] >> shift & 15) - offset;
  }
}

void q5_k_block(Bytes at, float* out) {
  const PartScales parts(half_at(at), half_at(at + 2), at + 4);
  const Bytes high = at + 16, low = at + 48;
  for (int part = 0; part < 8; ++part, out += 32) {
    const Bytes bytes = low + part / 2 * kRun;
    const int shift = part % 2 * 4;
    const float scale = parts.scale[part], offset = parts.offset[part];
    for (int i = 0; i < 32; ++i)
      out[i] = scale * static_cast<float>((bytes[i] >> shift & 15) | (high[i] >> part & 1) << 4) - offset;
  }
}

// Of each 128 values, four low bits in 64 bytes (low halves first) and two high ones in 32.
void q6_k_block(Bytes at, float* out) {
  const Bytes low = at, high = at + 128, scales = at + 192;
  const float d = half_at(at + 208);
  for (int part = 0; part < kLong / 16; ++part, out += 16) {
    const int half = part / 8, within = part % 8;  // of 128 values; which 16 of them
    const Bytes bytes = low + half * kRun * 2 + within % 4 * kHalfRun,
                bits = high + half * kRun + within % 2 * kHalfRun;
    const int shift = within / 4 * 4, bit = within / 2 * 2;
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[part]));
    for (int i = 0; i < 16; ++i)
      out[i] = scale * static_cast<float>(((bytes[i] >> shift & 15) | (bits[i] >> bit & 3) << 4) - 32);
  }
}

// An exponent, then as in Q4_0 two numbers a byte, of a sign, two bits of exponent and one of mantissa. They
// are kept doubled and the exponent's power of two halved, down to what float32 can hold below its normal
// numbers.
void mxfp4_block(Bytes at, float* out) {
  constexpr std::array<float, 16> kDoubled{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const std::uint32_t exponent = *at++;
  const float d = std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23);
  for (int i = 0; i < kShort / 2; ++i) {
    out[i] = d * kDoubled[at[i] & 15];
    out[i + kShort / 2] = d * kDoubled[at[i] >> 4];
  }
}

constexpr std::array kFormats{
    BlockFormat{0, "F32", 1, 4, unpack_each<1, 4, f32_block>},
    BlockFormat{1, "F16", 1, 2, unpack_each<1, 2, f16_block>},
    BlockFormat{30, "BF16", 1, 2, unpack_each<1, 2, bf16_block>},
    BlockFormat{2, "Q4_0", 32, 18, unpack_each<32, 18, q4_0_block>},
    BlockFormat{3, "Q4_1", 32, 20, unpack_each<32, 20, q4_1_block>},
    BlockFormat{6, "Q5_0", 32, 22, unpack_each<32, 22, q5_0_block>},
    BlockFormat{7, "Q5_1", 32, 24, unpack_each<32, 24, q5_1_block>},
    BlockFormat{8, "Q8_0", 32, 34, unpack_each<32, 34, q8_0_block>},
    BlockFormat{10, "Q2_K", 256, 84, unpack_each<256, 84, q2_k_block>},
    BlockFormat{11, "Q3_K", 256, 110, unpack_each<256, 110, q3_k_block>},
    BlockFormat{12, "Q4_K", 256, 144, unpack_each<256, 144, q4_k_block>},
    BlockFormat{13, "Q5_K", 256, 176, unpack_each<256, 176, q5_k_block>},
    BlockFormat{14, "Q6_K", 256, 210, unpack_each<256, 210, q6_k_block>},
    BlockFormat{39, "MXFP4", 32, 17, unpack_each<32, 17, mxfp4_block>},
    BlockFormat{9, "Q8_1", 32, 40, nullptr},
    BlockFormat{15, "Q8_K", 256, 292, nullptr},
    BlockFormat{16, "IQ2_XXS", 256, 66, nullptr},
    BlockFormat{17, "IQ2_XS", 256, 74, nullptr},
    BlockFormat{18, "IQ3_XXS", 256, 98, nullptr},
    BlockFormat{19, "IQ1_S", 256, 50, nullptr},
    BlockFormat{20, "IQ4_NL", 32, 18, nullptr},
    BlockFormat{21, "IQ3_S", 256, 110, nullptr},
    BlockFormat{22, "IQ2_S", 256, 82, nullptr},
    BlockFormat{23, "IQ4_XS", 256, 136, nullptr},
    BlockFormat{24, "I8", 1, 1, nullptr},
    BlockFormat{25, "I16", 1, 2, nullptr},
    BlockFormat{26, "I32", 1, 4, nullptr},
    BlockFormat{27, "I64", 1, 8, nullptr},
    BlockFormat{28, "F64", 1, 8, nullptr},
    BlockFormat{29, "IQ1_M", 256, 56, nullptr},
    BlockFormat{34, "TQ1_0", 256, 54, nullptr},
    BlockFormat{35, "TQ2_0", 256, 66, nullptr},
    BlockFormat{40, "NVFP4", 64, 36, nullptr},
    BlockFormat{41, "Q1_0", 128, 18, nullptr},
};

}  // namespace

const BlockFormat* find_block_format(std::uint32_t id) {
  const auto* found = std::ranges::find(kFormats, id, &BlockFormat::id);
  return found == kFormats.end() ? nullptr : found;
}

std::string supported_block_formats() {
  std::vector<std::string_view> names;
  for (const BlockFormat& format : kFormats)
    if (format.unpack != nullptr) names.push_back(format.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace keyscope::gguf

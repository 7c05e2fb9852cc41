#pragma once

#include <cstdint>

namespace keyscope::analysis {

// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection that mixes every bit.
// Of seed + t · kSplitmixStep, t = 0, 1, …, it is that generator's stream, any draw of which can be had
// without those before it, the same on every platform.
inline constexpr std::uint64_t kSplitmixStep = 0x9e3779b97f4a7c15u;

constexpr std::uint64_t splitmix(std::uint64_t x) {
  x += kSplitmixStep;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The leading 53 bits as a number of [0, 1).
constexpr double unit_interval(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace keyscope::analysis

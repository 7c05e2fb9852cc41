#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analysis/splitmix.hpp"

namespace keyscope::evaluation {

// The seed of one sample, which is no other sample's, whatever the two seeds, but by chance.
constexpr std::uint64_t sample_seed_of(std::uint64_t seed, std::int64_t sample) {
  return analysis::splitmix(analysis::splitmix(seed) + static_cast<std::uint64_t>(sample));
}

// Numbers drawn one after another for one purpose, the same on every platform: SplitMix64's stream from a
// seed that was mixed with what tells this purpose from others.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t purpose)
      : seed_(analysis::splitmix(analysis::splitmix(seed) ^ purpose)) {}

  double unit() {
    return analysis::unit_interval(analysis::splitmix(seed_ + n_++ * analysis::kSplitmixStep));
  }
  // Of [0, n), n >= 1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(unit() * static_cast<double>(n)); }

  // k different entries of [0, n), k <= n, in the order drawn.
  std::vector<std::size_t> different(std::size_t k, std::size_t n) {
    std::vector<std::size_t> all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = i;
    for (std::size_t i = 0; i < k; ++i) std::swap(all[i], all[i + below(n - i)]);
    all.resize(k);
    return all;
  }

  // So many decimal digits; the first may be 0.
  std::string digits(std::int64_t n) {
    std::string text;
    for (std::int64_t i = 0; i < n; ++i) text += static_cast<char>('0' + below(10));
    return text;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t n_ = 0;
};

}  // namespace keyscope::evaluation

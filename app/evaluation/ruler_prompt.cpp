#include "app/evaluation/ruler_prompt.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace keyscope::evaluation {

namespace {

constexpr std::size_t kUnitsAtFirst = 16;  // more than the least, to see how many tokens a unit has
constexpr int kAimedSteps = 12;            // before what is left is halved

// Aims at the limit by the tokens that a unit had between the last two tries.
class UnitAim {
 public:
  void saw(std::size_t n, std::int64_t tokens) {
    if (n != n_ && tokens != tokens_)
      units_per_token_ =
          (static_cast<double>(n) - static_cast<double>(n_)) / static_cast<double>(tokens - tokens_);
    n_ = n;
    tokens_ = tokens;
  }

  // Strictly between the two.
  std::size_t next(std::size_t low, std::size_t high, std::int64_t limit) const {
    const double aimed =
        static_cast<double>(n_) + std::max(0.0, units_per_token_) * static_cast<double>(limit - tokens_);
    return static_cast<std::size_t>(
        std::clamp(aimed, static_cast<double>(low + 1), static_cast<double>(high - 1)));
  }

 private:
  std::size_t n_ = 0;
  std::int64_t tokens_ = 0;
  double units_per_token_ = 0;
};

}  // namespace

std::optional<RulerPrompt> longest_prompt(const GrowingPrompt& growing, std::int64_t most_tokens,
                                          const EncodeRuler& encode, std::size_t near) {
  const auto made = [&](std::size_t n) {
    RulerText text = growing.made(n);
    std::vector<std::int32_t> ids = encode(text);
    return RulerPrompt{std::move(text), std::move(ids), n};
  };
  if (growing.most < growing.least) return std::nullopt;
  RulerPrompt best = made(growing.least);
  if (std::ssize(best.ids) > most_tokens) return std::nullopt;
  UnitAim aim;
  aim.saw(best.n_units, std::ssize(best.ids));
  std::size_t low = growing.least, high = growing.most + 1;
  for (int step = 0; high - low > 1; ++step) {
    std::size_t n = step < kAimedSteps ? aim.next(low, high, most_tokens) : low + (high - low) / 2;
    if (step == 0) n = std::clamp(near > 0 ? near : low + kUnitsAtFirst, low + 1, high - 1);
    RulerPrompt tried = made(n);
    aim.saw(n, std::ssize(tried.ids));
    if (std::ssize(tried.ids) > most_tokens) {
      high = n;
    } else {
      low = n;
      best = std::move(tried);
    }
  }
  return best;
}

}  // namespace keyscope::evaluation

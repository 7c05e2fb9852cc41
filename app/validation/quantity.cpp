#include "app/validation/quantity.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace keyscope::validation {
namespace {

using measures::HeadMeasures;
using measures::RunMeasures;

constexpr std::array<Quantity, 18> kQuantities{{
    {"spearman", "ρ(−cos, attention per query)", "", &HeadMeasures::spearman},
    {"spearman_total", "ρ(−cos, summed attention)", "", &HeadMeasures::spearman_total},
    {"spearman_given_position", "ρ given position", "", &HeadMeasures::spearman_given_position},
    {"kendall", "Kendall's τ-b", "", &HeadMeasures::kendall},
    {"mean_key_cosine", "cos(key, mean key)", "", &HeadMeasures::mean_key_cosine},
    {"key_query_mean_cosine", "cos(mean key, mean query)", "", &HeadMeasures::key_query_mean_cosine},
    {"top_key_query_cosine", "cos(top KeyDiff key, mean query)", "", &HeadMeasures::top_key_query_cosine},
    {"sink_metric", "attention on the first token", "", &HeadMeasures::sink_metric},
    {"attention_entropy_nats", "entropy of a query's attention", "nats",
     &HeadMeasures::attention_entropy_nats},
    {"attention_gini", "Gini coefficient of attention received", "", &HeadMeasures::attention_gini},
    {"attention_top_share", "attention on the top 1 % of positions", "", &HeadMeasures::attention_top_share},
    {"log_volume_nats", "log volume of the retained keys", "nats", &HeadMeasures::log_volume_nats},
    {"regularised_log_volume_nats", "regularised log volume", "nats",
     &HeadMeasures::regularised_log_volume_nats},
    {"mean_pairwise_cosine", "mean cosine between retained keys", "", &HeadMeasures::mean_pairwise_cosine},
    {"attention_mass_kept", "attention mass kept", "", &HeadMeasures::attention_mass_kept, nullptr, true},
    {"output_error", "relative error of attention's output", "", &HeadMeasures::output_error, nullptr, true},
    {"kl_nats", "KL against the full cache", "nats", nullptr, &RunMeasures::kl_nats, true},
    {"top1_agreement", "same most likely token", "", nullptr, &RunMeasures::top1_agreement, true},
}};

// A mean of what there is.
class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++n_;
  }
  std::optional<double> value() const {
    return n_ > 0 ? std::optional(sum_ / static_cast<double>(n_)) : std::nullopt;
  }

 private:
  double sum_ = 0;
  std::int64_t n_ = 0;
};

}  // namespace

std::span<const Quantity> quantities() { return kQuantities; }

const Quantity& quantity(std::string_view id) {
  const auto found = std::ranges::find(kQuantities, id, &Quantity::id);
  if (found == kQuantities.end()) throw std::logic_error("no such quantity: " + std::string(id));
  return *found;
}

std::optional<double> value_of(const RunMeasures& run, const Quantity& quantity, int layer) {
  if (quantity.of_run != nullptr) return layer < 0 ? run.*quantity.of_run : std::nullopt;
  Mean mean;
  for (const HeadMeasures& head : run.heads)
    if (const auto& value = head.*quantity.of_head; value && (layer < 0 || head.layer == layer))
      mean.add(*value);
  return mean.value();
}

std::optional<double> difference_of(const RunMeasures& a, const RunMeasures& b, const Quantity& quantity,
                                    int layer) {
  if (quantity.of_run != nullptr) {
    const auto of_a = value_of(a, quantity, layer), of_b = value_of(b, quantity, layer);
    return of_a && of_b ? std::optional(*of_a - *of_b) : std::nullopt;
  }
  Mean mean;
  for (std::size_t i = 0; i < std::min(a.heads.size(), b.heads.size()); ++i) {
    const auto &of_a = a.heads[i].*quantity.of_head, &of_b = b.heads[i].*quantity.of_head;
    if (of_a && of_b && (layer < 0 || a.heads[i].layer == layer)) mean.add(*of_a - *of_b);
  }
  return mean.value();
}

}  // namespace keyscope::validation

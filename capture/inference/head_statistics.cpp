#include "capture/inference/head_statistics.hpp"

#include "analysis/concentration.hpp"

namespace keyscope::capture {

HeadStatistics::HeadStatistics(std::int64_t n_heads, std::int64_t n_kv_heads, std::int64_t n_prompt)
    : n_heads_(n_heads),
      n_kv_heads_(n_kv_heads),
      n_prompt_(n_prompt),
      received_(static_cast<std::size_t>(n_heads * n_prompt)),
      window_(static_cast<std::size_t>(n_kv_heads * n_prompt)) {}

void HeadStatistics::add(const KvCache& cache, const PerRow<double>& column_sums,
                         const PerRow<double>* window_sums) {
  const auto group = static_cast<std::size_t>(n_heads_ / n_kv_heads_);
  for (std::size_t head = 0; head < column_sums.size(); ++head) {
    const std::size_t kv_head = head / group;
    const auto positions = cache.positions(static_cast<int>(kv_head));
    double* received = received_.data() + head * static_cast<std::size_t>(n_prompt_);
    double* window = window_.data() + kv_head * static_cast<std::size_t>(n_prompt_);
    for (std::size_t row = 0; row < positions.size(); ++row) {
      const auto at = static_cast<std::size_t>(positions[row]);
      received[at] += column_sums[head][row];
      if (window_sums != nullptr) window[at] += (*window_sums)[head][row] / static_cast<double>(group);
    }
  }
}

void HeadStatistics::finish(recording::LayerBlock& record) const {
  record.attention_window.assign(window_.begin(), window_.end());
  for (std::int64_t head = 0; head < n_heads_; ++head) {
    const std::span<const double> received(received_.data() + head * n_prompt_,
                                           static_cast<std::size_t>(n_prompt_));
    record.gini.push_back(analysis::gini(received));
    record.top_share.push_back(analysis::top_share(received, 0.01));
  }
}

}  // namespace keyscope::capture

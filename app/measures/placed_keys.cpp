#include "app/measures/placed_keys.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "capture/model/rope.hpp"

namespace keyscope::measures {
namespace {

using Eigen::Index;

// In place: rotates one row, or takes a rotation back. Cosines and sines may carry a common factor.
void turn(Eigen::Ref<Eigen::RowVectorXf> row, const float* cosines, const float* sines, bool back) {
  const Index half = row.size() / 2;
  for (Index i = 0; i < half; ++i) {
    const float x = row[i], y = row[half + i], c = cosines[i], s = sines[i];
    const float factor = back ? 1 / (c * c + s * s) : 1, signed_s = back ? -s : s;
    row[i] = (x * c - y * signed_s) * factor;
    row[half + i] = (y * c + x * signed_s) * factor;
  }
}

}  // namespace

PlacedKeys::PlacedKeys(const recording::Recording& recording, int run, int layer, int kv_head,
                       RowMatrixF keys)
    : kv_head_(kv_head), unrotated_(std::move(keys)) {
  const auto info = recording.info();
  run_ = info->runs[static_cast<std::size_t>(run)];
  config_ = capture::parse_config(info->model.config, info->source);
  for (int head = 0; head < info->model.n_kv_heads; ++head)
    evicted_at_.push_back(recording.trace(run, layer, head).evicted_at);
  for (std::int64_t block = 0; block < run_.blocks_done && first_of(block) < unrotated_.rows(); ++block)
    unrotated_ = turned(unrotated_, block, first_of(block), true);
}

RowMatrixF PlacedKeys::met_by(std::int64_t block) const { return turned(unrotated_, block, 0, false); }

std::int64_t PlacedKeys::first_of(std::int64_t block) const {
  return run_.block_start[static_cast<std::size_t>(block)];
}

std::int64_t PlacedKeys::end_of(std::int64_t block) const {
  return block + 1 < run_.blocks_done ? first_of(block + 1) : run_.n_tokens;
}

// Positions of the rows that a head had in a block, the block's own last: the place of each is its index.
std::vector<std::int32_t> PlacedKeys::present(const std::vector<std::int32_t>& evicted_at,
                                              std::int64_t block) const {
  auto positions = recording::retained_positions(evicted_at, first_of(block), block - 1);
  const std::size_t n_old = positions.size();
  positions.resize(n_old + static_cast<std::size_t>(end_of(block) - first_of(block)));
  std::iota(positions.begin() + static_cast<std::ptrdiff_t>(n_old), positions.end(),
            static_cast<std::int32_t>(first_of(block)));
  return positions;
}

// Turns the rows from position `from` on that were there in a block by the places they had in it. Going
// forward, rows that were not there become zero; going back, they stay as they are.
RowMatrixF PlacedKeys::turned(const RowMatrixF& keys, std::int64_t block, std::int64_t from,
                              bool back) const {
  std::size_t largest = 0;  // of any head: where frequencies depend on the length, it is this one
  for (const auto& evicted_at : evicted_at_) largest = std::max(largest, present(evicted_at, block).size());
  const capture::RotaryTable table = capture::Rope(config_).table(0, static_cast<std::int64_t>(largest));
  const auto* cosines = table.cos.const_data_ptr<float>();
  const auto* sines = table.sin.const_data_ptr<float>();
  RowMatrixF result = back ? keys : RowMatrixF::Zero(keys.rows(), keys.cols());
  const auto positions = present(evicted_at_[static_cast<std::size_t>(kv_head_)], block);
  const std::int64_t half = config_.head_dim / 2;
  for (std::size_t place = 0; place < positions.size(); ++place) {
    const Index position = positions[place];
    if (position < from || position >= keys.rows()) continue;
    result.row(position) = keys.row(position);
    const std::int64_t at = static_cast<std::int64_t>(place) * half;
    turn(result.row(position), cosines + at, sines + at, back);
  }
  return result;
}

}  // namespace keyscope::measures

#pragma once

// Scores of a tile of queries become weights, with the statistics that only this moment can give for free.
// As lanes.hpp, in an anonymous namespace: every level of x86-64 has its own.

#include "capture/kernels/kernel_table.hpp"
#include "capture/kernels/lanes.hpp"

namespace keyscope::capture::kernels {
namespace {  // NOLINT(google-build-namespaces)

constexpr float kBelowAll = -3.0e38F;

// One query's row of a tile: vectors of sixteen columns, of which those of columns [begin, end) are visible.
class SoftmaxRow {
 public:
  SoftmaxRow(const SoftmaxTile& tile, int64_t row)
      : tile_(tile), row_(row), begin_(tile.begin[row]), end_(tile.end[row]) {}

  // Scales, caps and hides; returns the largest visible score.
  float prepare() const {
    Floats most = all(kBelowAll);
    for (int64_t at = first_vector(); at < end_; at += kLanes) {
      Floats s = load_vector<Floats>(vector(at)) * tile_.scale;
      if (tile_.softcap > 0) s = tile_.softcap * hyperbolic_tangent(s * (1.F / tile_.softcap));
      if (at < begin_ || at + kLanes > end_) hide(s, at, kBelowAll);
      // What is not a number must not be lost in a comparison.
      most = (s > most || s != s) ? s : most;
      store_vector(vector(at), s);
    }
    return max_of_all(most);
  }

  // Exponentials relative to `most`; returns their sum, and adds Σ e (s - most) to `weighted`.
  float exponentiate(float most, float& weighted) const {
    Floats sum{}, moment{};
    for (int64_t at = first_vector(); at < end_; at += kLanes) {
      const Floats s = load_vector<Floats>(vector(at)) - most;
      Floats e = exponential(s);
      if (at < begin_ || at + kLanes > end_) {
        hide(e, at, 0);
        moment += e * larger(s, all(-87.F));
      } else {
        moment += e * s;
      }
      sum += e;
      store_vector(vector(at), e);
    }
    weighted = sum_of(moment);
    return sum_of(sum);
  }

  // Divides by the sum, writes zeros where nothing is visible, and rounds for the product with the values.
  template <typename T>
  void normalize(float sum) const {
    const float inverse = 1.F / sum;
    const int64_t past = tile_.n_panels * kPanel;
    for (int64_t at = 0; at < past; at += kLanes) {
      const bool visible = at + kLanes > begin_ && at < end_;
      const Floats weight = visible ? load_vector<Floats>(vector(at)) * inverse : Floats{};
      store_vector(vector(at), weight);
      if (tile_.weights != nullptr) T::store(static_cast<T*>(tile_.weights) + offset(at), weight);
    }
  }

 private:
  int64_t first_vector() const { return begin_ / kLanes * kLanes; }
  int64_t offset(int64_t column) const {
    return (column / kPanel * tile_.n_rows + row_) * kPanel + column % kPanel;
  }
  float* vector(int64_t column) const { return tile_.scores + offset(column); }

  void hide(Floats& v, int64_t at, float value) const {
    for (int64_t i = 0; i < kLanes; ++i)
      if (at + i < begin_ || at + i >= end_) v[i] = value;
  }

  static float max_of_all(Floats v) {
    float most = v[0];
    for (int64_t i = 1; i < kLanes; ++i) most = (v[i] > most || v[i] != v[i]) ? v[i] : most;
    return most;
  }

  const SoftmaxTile& tile_;
  int64_t row_, begin_, end_;
};

// Rows of a tile summed by sixteens in float32, sums of sixteen rows in float64.
inline void add_column_sums(const SoftmaxTile& tile) {
  constexpr int64_t kRowsAtOnce = 16;
  for (int64_t panel = 0; panel < tile.n_panels; ++panel)
    for (int64_t lane = 0; lane < kPanel; lane += kLanes) {
      const float* from = tile.scores + panel * tile.n_rows * kPanel + lane;
      double* to = tile.column_sums + panel * kPanel + lane;
      Doubles total = load_vector<Doubles>(to);
      for (int64_t row = 0; row < tile.n_rows; row += kRowsAtOnce) {
        const int64_t end = row + kRowsAtOnce < tile.n_rows ? row + kRowsAtOnce : tile.n_rows;
        Floats sum{};
        for (int64_t i = row; i < end; ++i) sum += load_vector<Floats>(from + i * kPanel);
        total += __builtin_convertvector(sum, Doubles);
      }
      store_vector(to, total);
    }
}

template <typename T>
void softmax(const SoftmaxTile& tile) {
  for (int64_t i = 0; i < tile.n_rows; ++i) {
    const SoftmaxRow row(tile, i);
    const float most = row.prepare();
    float weighted = 0;
    const float sum = row.exponentiate(most, weighted);
    const float log_sum = __builtin_logf(sum);
    tile.log_sum_exp[i] = most + log_sum;
    // H = -Σ p ln p with p = e / sum and ln p = (s - most) - ln sum
    if (tile.entropy != nullptr) tile.entropy[i] = log_sum - weighted / sum;
    row.template normalize<T>(sum);
  }
  if (tile.column_sums != nullptr) add_column_sums(tile);
}

}  // namespace
}  // namespace keyscope::capture::kernels

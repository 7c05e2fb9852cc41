#include "tests/capture/inference/arithmetics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "capture/inference/aten_attention.hpp"

namespace keyscope::test {

std::string name_of(capture::Arithmetic arithmetic) {
  return arithmetic == capture::Arithmetic::kAten ? "Aten" : "Kernels";
}

capture::ModelOptions model_options(capture::Arithmetic arithmetic, capture::DType dtype) {
  const char* device = std::getenv("KEYSCOPE_TEST_DEVICE");
  const bool elsewhere = arithmetic == capture::Arithmetic::kAten && device != nullptr;
  return {.dtype = dtype, .device = elsewhere ? device : "cpu", .arithmetic = arithmetic};
}

namespace {

at::Tensor filled(std::int64_t heads, std::int64_t rows, std::int64_t columns, unsigned seed) {
  at::Tensor tensor = at::empty({heads, rows, columns}, at::TensorOptions().dtype(at::kFloat));
  float* data = tensor.mutable_data_ptr<float>();
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    state = state * 1664525U + 1013904223U;
    data[i] = static_cast<float>(state >> 8U) / 8388608.0F - 1;
  }
  return tensor;
}

std::vector<std::int32_t> positions_of(const AttentionCase& c, std::int64_t head) {
  std::vector<std::int32_t> all;
  const std::int64_t n_old = c.shape.n_rows - c.shape.n_new;
  for (std::int64_t row = c.dropped_rows(head); row < c.shape.n_rows; ++row)
    all.push_back(static_cast<std::int32_t>(row < n_old ? 2 * row : n_old + row));
  return all;
}

// The case as ATen's attention takes it: what lies past a head's rows is of no consequence.
capture::AtenAttentionInput together(const AttentionCase& c) {
  const AttentionShape& s = c.shape;
  capture::AtenAttentionInput input;
  input.queries = c.queries;
  input.keys = at::full({s.n_kv_heads, s.n_rows, s.head_dim}, 7, c.keys.options());
  input.values = at::full({s.n_kv_heads, s.n_rows, s.head_dim}, 7, c.values.options());
  for (std::int64_t head = 0; head < s.n_kv_heads; ++head) {
    const std::int64_t dropped = c.dropped_rows(head), n = s.n_rows - dropped;
    input.keys[head].narrow(0, 0, n).copy_(c.keys[head].narrow(0, dropped, n));
    input.values[head].narrow(0, 0, n).copy_(c.values[head].narrow(0, dropped, n));
    input.head_rows.push_back(n);
  }
  input.positions = [&c](int head) { return std::span<const std::int32_t>(c.positions[head]); };
  input.new_keys = c.keys.narrow(1, s.n_rows - s.n_new, s.n_new);
  input.new_values = c.values.narrow(1, s.n_rows - s.n_new, s.n_new);
  input.rules = c.input.rules;
  input.sinks = c.sinks;
  return input;
}

capture::AttentionOutput checked(capture::AttentionOutput output) {
  if (output.unchecked.defined()) capture::require_finite_sums(output.unchecked);
  return output;
}

}  // namespace

void PrintTo(const AttentionShape& s, std::ostream* out) {
  *out << s.n_heads << " heads on " << s.n_kv_heads << ", " << s.n_new << " of " << s.n_rows << " rows, d "
       << s.head_dim << ", window " << s.window << ", cap " << s.softcap << (s.sinks ? ", sinks" : "");
}

AttentionCase::AttentionCase(const AttentionShape& s, at::ScalarType dtype)
    : shape(s),
      queries(filled(s.n_heads, s.n_new, s.head_dim, 1).mul_(3).to(dtype)),
      keys(filled(s.n_kv_heads, s.n_rows, s.head_dim, 2).to(dtype)),
      values(filled(s.n_kv_heads, s.n_rows, s.head_dim, 3).to(dtype)) {
  input.queries = queries;
  if (s.sinks) sinks = filled(1, 1, s.n_heads, 4).mul_(3).flatten();
  input.sinks = sinks;
  input.rules = {1 / std::sqrt(static_cast<double>(s.head_dim)), s.softcap, s.window};
  for (std::int64_t head = 0; head < s.n_kv_heads; ++head) positions.push_back(positions_of(*this, head));
  for (std::int64_t head = 0; head < s.n_kv_heads; ++head) {
    const std::int64_t offset = head * s.n_rows + dropped_rows(head);
    const std::int64_t n_bytes = offset * s.head_dim * keys.element_size();
    input.heads.push_back({static_cast<const std::byte*>(keys.const_data_ptr()) + n_bytes,
                           static_cast<const std::byte*>(values.const_data_ptr()) + n_bytes,
                           positions[head]});
  }
}

std::int64_t AttentionCase::dropped_rows(std::int64_t head) const {
  return std::min<std::int64_t>(head, shape.n_rows - shape.n_new);
}

std::vector<AttentionWay> attention_ways() {
  using capture::AttentionWants;
  std::vector<AttentionWay> ways;
  for (const auto& kernels : capture::kernels::available())
    ways.push_back({kernels.level, [&kernels](const AttentionCase& c, const AttentionWants& wants) {
                      return capture::attend(c.input, wants, kernels);
                    }});
  ways.push_back({"ATen", [](const AttentionCase& c, const AttentionWants& wants) {
                    return checked(capture::aten_attend(together(c), wants));
                  }});
  for (const std::int64_t n_queries : {1, 7})
    ways.push_back({"ATen in tiles", [n_queries](const AttentionCase& c, const AttentionWants& wants) {
                      return checked(capture::aten_attend(together(c), wants,
                                                          n_queries * c.shape.n_heads * c.shape.n_rows));
                    }});
  return ways;
}

}  // namespace keyscope::test

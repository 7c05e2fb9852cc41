#include "capture/recording/row_store.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include <Eigen/Core>
#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::recording {
namespace {

using hdf5::Dataset;
using hdf5::ElementType;

constexpr const char* kRoundedTo = "rounded_to";

float rounded(float value) { return static_cast<float>(Eigen::bfloat16(value)); }

bool is_bfloat16(float value) { return (std::bit_cast<std::uint32_t>(value) & 0xFFFFU) == 0; }

}  // namespace

Dataset create_row_dataset(hdf5::Group& group, const std::string& name, StoreType store,
                           const hdf5::Shape& shape, const hdf5::DatasetOptions& options) {
  const ElementType type = store == StoreType::kFloat16 ? ElementType::kFloat16 : ElementType::kFloat32;
  Dataset dataset = group.create_dataset(name, type, shape, options);
  mark_store(dataset, store);
  return dataset;
}

void mark_store(Dataset& dataset, StoreType store) {
  if (store == StoreType::kBFloat16) dataset.set_text(kRoundedTo, std::string(store_name(store)));
}

StoreType store_of(const Dataset& dataset) {
  if (!dataset.has_attribute(kRoundedTo))
    return dataset.type() == ElementType::kFloat16 ? StoreType::kFloat16 : StoreType::kFloat32;
  const std::string found = dataset.text(kRoundedTo);
  if (found != store_name(StoreType::kBFloat16) || dataset.type() != ElementType::kFloat32)
    throw FileError(
        fmt::format("{}: found {} with {} '{}'; expected float32 with 'bfloat16', or no such attribute",
                    dataset.where(), hdf5::name_of(dataset.type()), kRoundedTo, found));
  return StoreType::kBFloat16;
}

void store_rows(Dataset& dataset, StoreType store, std::span<const float> rows, const hdf5::Shape& start,
                const hdf5::Shape& count) {
  if (store != StoreType::kBFloat16) return dataset.write(rows, start, count);
  std::vector<float> values(rows.size());
  std::ranges::transform(rows, values.begin(), rounded);
  dataset.write(std::span<const float>(values), start, count);
}

void check_rounded(const Dataset& dataset, std::span<const float> values) {
  if (store_of(dataset) != StoreType::kBFloat16) return;
  const auto other = std::ranges::find_if_not(values, is_bfloat16);
  if (other != values.end())
    throw FileError(fmt::format("{}: holds {}; expected numbers rounded to bfloat16, as {} says",
                                dataset.where(), *other, kRoundedTo));
}

}  // namespace keyscope::recording

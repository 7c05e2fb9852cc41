#include "tests/support/gguf_builder.hpp"

#include <algorithm>
#include <ranges>

namespace keyscope::test {
namespace {

constexpr std::size_t kAlignment = 32;
constexpr std::uint32_t kArray = 9;

std::string padded(std::string bytes) {
  bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
  return bytes;
}

}  // namespace

std::string raw_text(std::string_view text) { return raw<std::uint64_t>(text.size()) + std::string(text); }

GgufBuilder& GgufBuilder::value(std::string_view key, std::uint32_t type, std::string_view bytes) {
  metadata_ += raw_text(key) + raw(type);
  metadata_ += bytes;
  ++n_metadata_;
  return *this;
}

GgufBuilder& GgufBuilder::text(std::string_view key, std::string_view value) {
  return this->value(key, 8, raw_text(value));
}
GgufBuilder& GgufBuilder::count(std::string_view key, std::uint32_t value) {
  return this->value(key, 4, raw(value));
}
GgufBuilder& GgufBuilder::number(std::string_view key, float value) {
  return this->value(key, 6, raw(value));
}
GgufBuilder& GgufBuilder::flag(std::string_view key, bool value) {
  return this->value(key, 7, raw<std::uint8_t>(value ? 1 : 0));
}

GgufBuilder& GgufBuilder::texts(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = raw<std::uint32_t>(8) + raw<std::uint64_t>(values.size());
  for (const std::string& each : values) bytes += raw_text(each);
  return value(key, kArray, bytes);
}

GgufBuilder& GgufBuilder::counts(std::string_view key, const std::vector<std::int32_t>& values) {
  std::string bytes = raw<std::uint32_t>(5) + raw<std::uint64_t>(values.size());
  for (const std::int32_t each : values) bytes += raw(each);
  return value(key, kArray, bytes);
}

GgufBuilder& GgufBuilder::numbers(std::string_view key, const std::vector<float>& values) {
  std::string bytes = raw<std::uint32_t>(6) + raw<std::uint64_t>(values.size());
  for (const float each : values) bytes += raw(each);
  return value(key, kArray, bytes);
}

GgufBuilder& GgufBuilder::tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                                 std::uint32_t type, std::string_view bytes) {
  infos_ += raw_text(name) + raw<std::uint32_t>(static_cast<std::uint32_t>(shape.size()));
  for (const std::uint64_t size : std::views::reverse(shape)) infos_ += raw(size);
  infos_ += raw(type) + raw(offset_);
  data_ = padded(data_ + std::string(bytes));
  offset_ = data_.size();
  ++n_tensors_;
  return *this;
}

GgufBuilder& GgufBuilder::tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                                 const std::vector<float>& values) {
  return tensor(name, shape, 0,
                {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

GgufBuilder& GgufBuilder::next_offset(std::uint64_t offset) {
  offset_ = offset;
  return *this;
}

std::string GgufBuilder::bytes() const {
  return padded("GGUF" + raw(version_) + raw(n_tensors_) + raw(n_metadata_) + metadata_ + infos_) + data_;
}

}  // namespace keyscope::test

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace keyscope::test {

// A GGUF file written part by part, sound as long as nothing unsound is put in.
class GgufBuilder {
 public:
  explicit GgufBuilder(std::uint32_t version = 3) : version_(version) {}

  GgufBuilder& text(std::string_view key, std::string_view value);
  GgufBuilder& count(std::string_view key, std::uint32_t value);
  GgufBuilder& number(std::string_view key, float value);
  GgufBuilder& flag(std::string_view key, bool value);
  GgufBuilder& texts(std::string_view key, const std::vector<std::string>& values);
  GgufBuilder& counts(std::string_view key, const std::vector<std::int32_t>& values);
  GgufBuilder& numbers(std::string_view key, const std::vector<float>& values);
  // A value as its bytes stand in the file, behind the number of its type.
  GgufBuilder& value(std::string_view key, std::uint32_t type, std::string_view bytes);

  //   shape: rows first; type: as GGUF numbers formats, 0 for F32
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
                      std::string_view bytes);
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                      const std::vector<float>& values);
  // Where the next tensor says that it lies; where it does is the end of the others.
  GgufBuilder& next_offset(std::uint64_t offset);

  std::string bytes() const;

 private:
  std::uint32_t version_;
  std::uint64_t n_metadata_ = 0, n_tensors_ = 0, offset_ = 0;
  std::string metadata_, infos_, data_;
};

// A number as it stands in a file.
template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// A string as it stands there, behind its length.
std::string raw_text(std::string_view text);

}  // namespace keyscope::test

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace keyscope::tokenizer {

// Text of a file as an error message may show it: quoted, control characters escaped, at most 40 bytes.
std::string in_quotes(std::string_view text);

// A value of a JSON file that remembers where it stands, so that every complaint names file and field.
// All readers throw FileError where the value is not what they ask for.
class JsonField {
 public:
  //   file, path: for messages, such as "…/tokenizer.json" and "model.merges[3]"
  JsonField(const nlohmann::json& value, std::string file, std::string path)
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& found, const std::string& expected) const;
  [[noreturn]] void fail_type(const std::string& expected) const;  // found: what it is

  bool is_null() const { return value_->is_null(); }
  bool is_string() const { return value_->is_string(); }
  bool is_array() const { return value_->is_array(); }
  bool is_object() const { return value_->is_object(); }

  JsonField member(const std::string& name) const;                          // must be there
  std::optional<JsonField> optional(const std::string& name) const;         // absent and null are the same
  void for_each(const std::function<void(const JsonField&)>& visit) const;  // of an array

  std::string string() const;
  bool boolean() const;
  double number() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;

  std::string string_or(const std::string& name, const std::string& otherwise) const;
  bool boolean_or(const std::string& name, bool otherwise) const;

  const std::string& path() const { return path_; }
  const std::string& file() const { return file_; }

 private:
  const nlohmann::json* value_;
  std::string file_, path_;
};

}  // namespace keyscope::tokenizer

#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace keyscope {

// How deep arrays and objects may be nested. What copies, compares or writes a value calls itself for each
// level, so that a text of a million brackets would end the process.
inline constexpr int kDeepestJson = 64;

// Any JSON text.
//   deepest: 1: no array or object in another
//   returns  a discarded value where it is none, or is nested deeper
nlohmann::json parse_json(std::string_view text, int deepest = kDeepestJson);
nlohmann::ordered_json parse_ordered_json(std::string_view text);  // members in the text's order

// On one line, or indented by `indent` columns a level; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// On one line, as the text of an HTML page's <script type="application/json">, which no string in it can
// end: markup characters are escaped, as are the line separators that JavaScript once took for line ends.
std::string json_script(const nlohmann::ordered_json& value);

// Parses a JSON object as untrusted files need it: the whole text, nothing else; every key once (nlohmann
// alone keeps the last of two without a word); nesting bounded, so that a file of brackets costs no memory.
// NaN, Infinity and -Infinity, which are no JSON and which Python writes, are read as strings: no field takes
// them for a number, and who does not ask for the field is not disturbed.
//   where: the file's name, for messages
//   throws FileError naming it
nlohmann::json parse_json_object(std::string_view text, const std::string& where);
nlohmann::ordered_json parse_ordered_json_object(std::string_view text, const std::string& where);

// A number of a result; null for what JSON has no number for: NaN, an infinity, or none.
nlohmann::ordered_json json_number(double value);
nlohmann::ordered_json json_number(const std::optional<double>& value);
nlohmann::ordered_json json_number(const std::optional<std::int64_t>& value);

// A value's integer; none where it is no integer, or not one of these. What nlohmann makes of 1e300, of -1
// for an unsigned type or of 2^40 for an int is any number.
std::optional<std::int64_t> json_integer(const nlohmann::json& value, std::int64_t least, std::int64_t most);
template <std::signed_integral Int>
std::optional<Int> json_integer(const nlohmann::json& value) {
  const auto integer = json_integer(value, std::numeric_limits<Int>::min(), std::numeric_limits<Int>::max());
  return integer ? std::optional(static_cast<Int>(*integer)) : std::nullopt;
}

// The bytes of a small file.
//   throws FileError where it cannot be read, is no file, or is larger than any configuration
std::string read_small_file(const std::filesystem::path& path);

// Text of a file as a message may show it: in quotes, control characters escaped, not longer than a line.
std::string shown(std::string_view text);

// A value of a JSON file as a message may show it: on one line, not longer than that.
std::string shown_value(const nlohmann::json& value);

// A value of a JSON file that remembers where it stands, so that every complaint names file and field.
// All readers throw FileError where the value is not what they ask for.
class JsonField {
 public:
  //   file, path: for messages, such as "…/tokenizer.json" and "model.merges[3]"
  JsonField(const nlohmann::json& value, std::string file, std::string path)
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& found, const std::string& expected) const;
  [[noreturn]] void fail_type(const std::string& expected) const;  // found: what it is

  bool is_null() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  JsonField member(const std::string& name) const;                          // must be there
  std::optional<JsonField> optional(const std::string& name) const;         // absent and null are the same
  void for_each(const std::function<void(const JsonField&)>& visit) const;  // of an array
  void for_each_member(const std::function<void(const JsonField&)>& visit) const;  // of an object

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

}  // namespace keyscope

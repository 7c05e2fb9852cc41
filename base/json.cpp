#include "base/json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace keyscope {

namespace {

using Json = nlohmann::json;

constexpr std::uintmax_t kLargestSmallFile = 256U << 20U;  // an index of 10^6 tensors has 100 MB

struct TooDeep {};

// Any JSON value; of what is nested deeper nothing more is read.
template <typename Value>
Value parse_shallow(std::string_view text, int deepest) {
  const auto shallow = [&](int depth, typename Value::parse_event_t event, Value&) {
    const bool opens =
        event == Value::parse_event_t::array_start || event == Value::parse_event_t::object_start;
    if (opens && depth >= deepest) throw TooDeep();
    return true;
  };
  try {
    return Value::parse(text, shallow, false);
  } catch (const TooDeep&) {
    return Value(Value::value_t::discarded);
  }
}

}  // namespace

Json parse_json(std::string_view text, int deepest) { return parse_shallow<Json>(text, deepest); }

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return parse_shallow<nlohmann::ordered_json>(text, kDeepestJson);
}

std::string json_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Outside strings JSON has none of these characters, and inside them an escape means the same.
std::string json_script(const nlohmann::ordered_json& value) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kEscapes{{
      {"<", "\\u003c"},
      {">", "\\u003e"},
      {"&", "\\u0026"},
      {"\u2028", "\\u2028"},
      {"\u2029", "\\u2029"},
  }};
  const std::string text = json_text(value);
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 16);
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const auto found =
        std::ranges::find_if(kEscapes, [&](const auto& escape) { return rest.starts_with(escape.first); });
    escaped += found == kEscapes.end() ? rest.substr(0, 1) : found->second;
    at += found == kEscapes.end() ? 1 : found->first.size();
  }
  return escaped;
}

namespace {

// Puts what Python writes for a number that JSON has not into quotes.
std::string with_quoted_constants(std::string_view text) {
  std::string quoted;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (text[at] == '"') {  // a string, as it is
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else {
      for (const std::string_view constant : {"NaN", "Infinity", "-Infinity"}) {
        if (!text.substr(at).starts_with(constant)) continue;
        quoted.append(1, '"').append(constant).append(1, '"');
        at += constant.size();
        end = at;
        break;
      }
    }
    quoted.append(text, at, end - at);
    at = end;
  }
  return quoted;
}

template <typename Value>
Value parse_object(std::string_view text, const std::string& where) {
  if (text.find("NaN") != text.npos || text.find("Infinity") != text.npos) {
    const std::string quoted = with_quoted_constants(text);
    if (quoted != text) return parse_object<Value>(quoted, where);
  }
  // The parser would pass over a byte order mark, which JSON does not allow.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{')
    throw FileError(fmt::format("{}: is no JSON object, which begins with {{; the file is damaged", where));
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, typename Value::parse_event_t event, Value& value) {
    if (depth > kDeepestJson) throw FileError(fmt::format("{}: its JSON is nested too deeply", where));
    if (event == Value::parse_event_t::object_start) keys.emplace_back();
    if (event == Value::parse_event_t::object_end) keys.pop_back();
    if (event == Value::parse_event_t::key && !keys.back().insert(value.template get<std::string>()).second)
      throw FileError(fmt::format("{}: has {} twice, expected every name once", where,
                                  shown(value.template get_ref<const std::string&>())));
    return true;
  };
  Value json = Value::parse(text, watch, false);
  if (!json.is_object())
    throw FileError(fmt::format("{}: is no JSON object in UTF-8; the file is damaged or cut short", where));
  return json;
}

}  // namespace

Json parse_json_object(std::string_view text, const std::string& where) {
  return parse_object<Json>(text, where);
}

nlohmann::ordered_json parse_ordered_json_object(std::string_view text, const std::string& where) {
  return parse_object<nlohmann::ordered_json>(text, where);
}

nlohmann::ordered_json json_number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

nlohmann::ordered_json json_number(const std::optional<double>& value) {
  return value ? json_number(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json json_number(const std::optional<std::int64_t>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

std::optional<std::int64_t> json_integer(const Json& value, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  // An unsigned value beyond int64 would wrap when read as signed.
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
  const auto integer = value.get<std::int64_t>();
  return integer < least || integer > most ? std::nullopt : std::optional(integer);
}

std::string read_small_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw FileError(fmt::format("{}: is not there", path.string()));
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw FileError(fmt::format("{}: cannot be read: {}", path.string(), error.message()));
  if (size > kLargestSmallFile)
    throw FileError(
        fmt::format("{}: has {} bytes, expected a configuration, which has few", path.string(), size));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(fmt::format("{}: cannot be read; may this user?", path.string()));
  return read_to_end(file, path.string());
}

namespace {

constexpr std::size_t kMostShown = 80;  // bytes

// What of a text is shown, no character cut in two.
std::string_view beginning(std::string_view text) {
  return text.size() <= kMostShown ? text : text.substr(0, character_before(text, kMostShown + 1));
}

}  // namespace

std::string shown(std::string_view text) {
  return json_text(Json(std::string(beginning(text)))) + (text.size() > kMostShown ? "…" : "");
}

std::string shown_value(const Json& value) {
  if (value.is_string()) return shown(value.get_ref<const std::string&>());
  const std::string text = json_text(value);
  return std::string(beginning(text)) + (text.size() > kMostShown ? "…" : "");
}

namespace {

std::string describe(const nlohmann::json& value) {
  if (value.is_null()) return "null";
  if (value.is_string()) return "the string " + shown(value.get_ref<const std::string&>());
  if (value.is_number() || value.is_boolean()) return json_text(value);
  return value.is_array() ? fmt::format("an array of {}", value.size()) : std::string("an object");
}

}  // namespace

bool JsonField::is_null() const { return value_->is_null(); }
bool JsonField::is_string() const { return value_->is_string(); }
bool JsonField::is_array() const { return value_->is_array(); }
bool JsonField::is_object() const { return value_->is_object(); }

void JsonField::fail(const std::string& found, const std::string& expected) const {
  throw FileError(fmt::format("{}: {}: found {}, expected {}", file_, path_.empty() ? "the document" : path_,
                              found, expected));
}

void JsonField::fail_type(const std::string& expected) const { fail(describe(*value_), expected); }

JsonField JsonField::member(const std::string& name) const {
  if (!value_->is_object()) fail_type("an object");
  const auto found = value_->find(name);
  if (found == value_->end()) fail("no \"" + name + "\"", "it to be there");
  return {*found, file_, path_.empty() ? name : path_ + "." + name};
}

std::optional<JsonField> JsonField::optional(const std::string& name) const {
  if (!value_->is_object()) fail_type("an object");
  const auto found = value_->find(name);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return member(name);
}

void JsonField::for_each(const std::function<void(const JsonField&)>& visit) const {
  if (!value_->is_array()) fail_type("an array");
  for (std::size_t i = 0; i < value_->size(); ++i)
    visit(JsonField((*value_)[i], file_, fmt::format("{}[{}]", path_, i)));
}

void JsonField::for_each_member(const std::function<void(const JsonField&)>& visit) const {
  if (!value_->is_object()) fail_type("an object");
  for (const auto& [name, value] : value_->items()) visit(member(name));
}

std::string JsonField::string() const {
  if (!value_->is_string()) fail_type("a string");
  return value_->get<std::string>();
}

bool JsonField::boolean() const {
  if (!value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

double JsonField::number() const {
  if (!value_->is_number()) fail_type("a number");
  return value_->get<double>();
}

std::int64_t JsonField::integer(std::int64_t least, std::int64_t most) const {
  const auto integer = json_integer(*value_, least, most);
  if (!integer) fail_type(fmt::format("an integer from {} to {}", least, most));
  return *integer;
}

std::string JsonField::string_or(const std::string& name, const std::string& otherwise) const {
  const auto field = optional(name);
  return field ? field->string() : otherwise;
}

bool JsonField::boolean_or(const std::string& name, bool otherwise) const {
  const auto field = optional(name);
  return field ? field->boolean() : otherwise;
}

}  // namespace keyscope

#include "app/evaluation/row_fields.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::evaluation {
namespace {

using nlohmann::json;

const json& field_of(const json& row, const char* field, const char* expected, const std::string& where) {
  const auto found = row.find(field);
  if (found == row.end())
    throw FileError(fmt::format("{}: \"{}\" is not there; expected {}", where, field, expected));
  return *found;
}

}  // namespace

std::string shown_value(const json& value) {
  return capture::shown(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string text_field(const json& row, const char* field, const std::string& where) {
  const json& value = field_of(row, field, "a text", where);
  if (!value.is_string())
    throw FileError(fmt::format("{}: \"{}\" is {}; expected a text", where, field, shown_value(value)));
  return value.get<std::string>();
}

std::vector<std::string> texts_field(const json& row, const char* field, const std::string& where) {
  const json& value = field_of(row, field, "an array of texts", where);
  if (!value.is_array() || !std::ranges::all_of(value, [](const json& entry) { return entry.is_string(); }))
    throw FileError(
        fmt::format("{}: \"{}\" is {}; expected an array of texts", where, field, shown_value(value)));
  return value.get<std::vector<std::string>>();
}

}  // namespace keyscope::evaluation

#include "base/json.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::tokenizer {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 40;
  const std::string shown = nlohmann::json(std::string(text.substr(0, kMost)))
                                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() > kMost ? shown + "…" : shown;
}

namespace {

std::string describe(const nlohmann::json& value) {
  if (value.is_null()) return "null";
  if (value.is_string()) return "the string " + in_quotes(value.get_ref<const std::string&>());
  if (value.is_number() || value.is_boolean()) return value.dump();
  return value.is_array() ? fmt::format("an array of {}", value.size()) : std::string("an object");
}

}  // namespace

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
  const std::string expected = fmt::format("an integer from {} to {}", least, most);
  if (!value_->is_number_integer()) fail_type(expected);
  // An unsigned value beyond int64 would wrap when read as signed.
  const bool wraps = value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX;
  const auto number = value_->get<std::int64_t>();
  if (wraps || number < least || number > most) fail_type(expected);
  return number;
}

std::string JsonField::string_or(const std::string& name, const std::string& otherwise) const {
  const auto field = optional(name);
  return field ? field->string() : otherwise;
}

bool JsonField::boolean_or(const std::string& name, bool otherwise) const {
  const auto field = optional(name);
  return field ? field->boolean() : otherwise;
}

}  // namespace keyscope::tokenizer

#include "capture/model/config_fields.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::capture {

bool ConfigFields::has(const std::string& name) const {
  return json_->contains(name) && !json_->at(name).is_null();
}

bool ConfigFields::is_null(const std::string& name) const {
  return json_->contains(name) && json_->at(name).is_null();
}

const nlohmann::json& ConfigFields::at(const std::string& name) const { return json_->at(name); }

std::int64_t ConfigFields::count(const std::string& name, std::int64_t least, std::int64_t most) const {
  if (!has(name)) fail(name, "nothing", "an integer");
  const nlohmann::json& value = at(name);
  if (!value.is_number_integer()) fail(name, shown_value(value), "an integer");
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  const std::int64_t n = too_large ? INT64_MAX : value.get<std::int64_t>();
  if (n < least || n > most) fail(name, shown_value(value), fmt::format("{} to {}", least, most));
  return n;
}

std::int64_t ConfigFields::count_or(const std::string& name, std::int64_t otherwise, std::int64_t least,
                                    std::int64_t most) const {
  return has(name) ? count(name, least, most) : otherwise;
}

double ConfigFields::positive(const std::string& name) const {
  if (!has(name)) fail(name, "nothing", "a positive number");
  const nlohmann::json& value = at(name);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
    fail(name, shown_value(value), "a positive number");
  return value.get<double>();
}

double ConfigFields::positive_or(const std::string& name, double otherwise) const {
  return has(name) ? positive(name) : otherwise;
}

double ConfigFields::not_negative(const std::string& name) const {
  if (!has(name)) fail(name, "nothing", "a number from 0");
  const nlohmann::json& value = at(name);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
    fail(name, shown_value(value), "a number from 0");
  return value.get<double>();
}

bool ConfigFields::flag_or(const std::string& name, bool otherwise) const {
  if (!has(name)) return otherwise;
  if (!at(name).is_boolean()) fail(name, shown_value(at(name)), "true or false");
  return at(name).get<bool>();
}

std::string ConfigFields::text_or(const std::string& name, const std::string& otherwise) const {
  if (!has(name)) return otherwise;
  if (!at(name).is_string()) fail(name, shown_value(at(name)), "a string");
  return at(name).get<std::string>();
}

ConfigFields ConfigFields::inside(const std::string& name) const {
  if (!has(name)) fail(name, "nothing", "an object");
  if (!at(name).is_object()) fail(name, shown_value(at(name)), "an object or null");
  return {at(name), where_ + ": " + name};
}

void ConfigFields::fail(const std::string& name, const std::string& found,
                        const std::string& expected) const {
  throw FileError(fmt::format("{}: {} is {}, expected {}", where_, name, found, expected));
}

}  // namespace keyscope::capture

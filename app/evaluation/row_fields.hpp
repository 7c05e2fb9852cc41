#pragma once

// Fields of a row of JSON lines, checked.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace keyscope::evaluation {

// A value as a message may show it.
std::string shown_value(const nlohmann::json& value);

//   where: file and line, for messages
//   throws FileError naming them, the field and what was found, where it is not there or no text
std::string text_field(const nlohmann::json& row, const char* field, const std::string& where);

// The same for an array of texts, which may be empty.
std::vector<std::string> texts_field(const nlohmann::json& row, const char* field, const std::string& where);

}  // namespace keyscope::evaluation

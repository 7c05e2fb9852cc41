#include "app/evaluation/math_rows.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/evaluation/math_answer.hpp"
#include "app/evaluation/row_fields.hpp"
#include "app/evaluation/substitution.hpp"

namespace keyscope::evaluation {
namespace {

using nlohmann::json;

std::string answer_of(const json& row, const std::string& where) {
  if (row.contains("answer")) return text_field(row, "answer", where);
  if (!row.contains("solution"))
    throw FileError(fmt::format(
        "{}: neither \"answer\" nor \"solution\" is there; expected the answer, or a solution that boxes it",
        where));
  const auto boxed = boxed_answer(text_field(row, "solution", where));
  if (!boxed)
    throw FileError(fmt::format(
        "{}: \"solution\" boxes no answer, and there is no \"answer\"; expected \\boxed{{…}} in it", where));
  return *boxed;
}

// MATH itself has "Level 5", MATH-500 has 5.
std::optional<std::int64_t> level_of(const json& row, const std::string& where) {
  const auto found = row.find("level");
  if (found == row.end() || found->is_null()) return std::nullopt;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  const std::string text = found->is_string() ? found->get<std::string>() : "";
  if (text.size() == 7 && text.starts_with("Level ") && text.back() >= '1' && text.back() <= '9')
    return text.back() - '0';
  throw FileError(
      fmt::format("{}: \"level\" is {}; expected a number, such as 5", where, shown_value(*found)));
}

}  // namespace

MathRow read_math_row(const json& row, const std::string& where) {
  MathRow read;
  read.id = row.contains("unique_id") ? text_field(row, "unique_id", where) : "";
  read.problem = text_field(row, "problem", where);
  read.answer = answer_of(row, where);
  for (const char* field : {"subject", "type"})  // MATH itself says "type"
    if (read.subject.empty() && row.contains(field)) read.subject = text_field(row, field, where);
  read.level = level_of(row, where);
  if (read.problem.empty() || read.answer.empty())
    throw FileError(fmt::format("{}: \"{}\" is empty; expected a text", where,
                                read.problem.empty() ? "problem" : "answer"));
  return read;
}

std::string math_prompt(std::string_view format, std::string_view problem) {
  return replace_all(std::string(format), "{problem}", problem);
}

}  // namespace keyscope::evaluation

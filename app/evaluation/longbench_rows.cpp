#include "app/evaluation/longbench_rows.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/evaluation/text_scores.hpp"
#include "app/evaluation/row_fields.hpp"

namespace keyscope::evaluation {
namespace {

using nlohmann::json;

std::optional<std::int64_t> length_of(const json& row, const std::string& where) {
  if (!row.contains("length")) return std::nullopt;
  const json& length = row["length"];
  if (!length.is_number_integer() || length < 0)
    throw FileError(
        fmt::format("{}: \"length\" is {}; expected a number of words", where, shown_value(length)));
  return length.get<std::int64_t>();
}

void check_answers(const LongBenchRow& row, const std::string& where) {
  if (row.answers.empty())
    throw FileError(fmt::format("{}: \"answers\" is empty; expected at least one text", where));
  if (row.task->metric == LongBenchMetric::kClassShare && row.all_classes.empty())
    throw FileError(
        fmt::format("{}: \"all_classes\" is empty; expected the names of the classes, which {} is scored by",
                    where, row.task->name));
  if (row.task->metric != LongBenchMetric::kParagraphShare) return;
  for (const std::string& answer : row.answers) try {
      paragraph_share("", answer);
    } catch (const InvalidInput& error) {
      throw FileError(fmt::format("{}: \"answers\": {}", where, error.what()));
    }
}

}  // namespace

std::string longbench_dataset(const json& row, std::string_view default_task, const std::string& where) {
  std::string dataset = row.contains("dataset") || default_task.empty() ? text_field(row, "dataset", where)
                                                                        : std::string(default_task);
  if (find_longbench_task(dataset) == nullptr)
    throw FileError(fmt::format("{}: {}", where, no_longbench_task(dataset)));
  return dataset;
}

LongBenchRow read_longbench_row(const json& row, std::string_view default_task, const std::string& where) {
  LongBenchRow read;
  read.dataset = longbench_dataset(row, default_task, where);
  read.task = find_longbench_task(read.dataset);
  read.id = row.contains("_id") ? text_field(row, "_id", where) : "";
  read.input = text_field(row, "input", where);
  read.context = text_field(row, "context", where);
  read.answers = texts_field(row, "answers", where);
  if (read.task->metric == LongBenchMetric::kClassShare)
    read.all_classes = texts_field(row, "all_classes", where);
  read.length = length_of(row, where);
  check_answers(read, where);
  return read;
}

}  // namespace keyscope::evaluation

#include "app/sweep/study_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace keyscope::sweep {

namespace {

using recording::hdf5::Dataset;
using recording::hdf5::DatasetOptions;
using recording::hdf5::ElementType;
using recording::hdf5::Group;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr hsize_t kRowsAtOnce = 4096;
constexpr int kGzip = 4;

// As a table's reader would write it: 256, not 256.0.
std::string number_csv(double number) { return std::isnan(number) ? "" : fmt::format("{}", number); }

void become_texts(StudyTable::Column& column) {
  for (const double number : column.numbers) column.texts.push_back(number_csv(number));
  column.numbers.clear();
}

void write_numbers(Group& group, const StudyTable::Column& column) {
  DatasetOptions options;
  options.chunk = {std::min<hsize_t>(column.numbers.size(), kRowsAtOnce)};
  options.shuffle = true;
  options.gzip = kGzip;
  options.cache_bytes = 2 * kRowsAtOnce * sizeof(double);
  Dataset dataset =
      group.create_dataset(column.name, ElementType::kFloat64, {column.numbers.size()}, options);
  dataset.write(std::span<const double>(column.numbers));
}

}  // namespace

void StudyTable::set(const std::string& name, Value value) {
  auto column = std::ranges::find(columns_, name, &Column::name);
  if (column == columns_.end()) column = columns_.insert(columns_.end(), {name, {}, {}});
  const bool is_text = std::holds_alternative<std::string>(value);
  // HDF5 ends texts there, and no name is worth a study that cannot be merged.
  if (is_text) std::ranges::replace(std::get<std::string>(value), '\0', ' ');
  const bool is_new = column->numbers.empty() && column->texts.empty();
  if (is_text && !column->numbers.empty()) become_texts(*column);
  if (is_text || (!is_new && column->is_text())) {
    column->texts.resize(n_rows_);
    column->texts.back() =
        is_text ? std::get<std::string>(std::move(value)) : number_csv(std::get<double>(value));
  } else {
    column->numbers.resize(n_rows_, kNone);
    column->numbers.back() = std::get<double>(value);
  }
}

void StudyTable::set_members(const nlohmann::ordered_json& object) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_number()) set(name, value.get<double>());
    if (value.is_boolean()) set(name, value.get<bool>() ? 1.0 : 0.0);
    if (value.is_string()) set(name, value.get<std::string>());
  }
}

void StudyTable::fill() {
  for (Column& column : columns_)
    column.is_text() ? column.texts.resize(n_rows_) : column.numbers.resize(n_rows_, kNone);
}

std::string table_csv(const StudyTable& table) {
  std::string text;
  const auto add = [&](std::size_t column, const std::string& field) {
    text += column == 0 ? "" : ",";
    text += field;
  };
  for (std::size_t i = 0; i < table.columns().size(); ++i) add(i, csv_field(table.columns()[i].name));
  text += '\n';
  for (std::size_t row = 0; row < table.n_rows(); ++row) {
    for (std::size_t i = 0; i < table.columns().size(); ++i) {
      const StudyTable::Column& column = table.columns()[i];
      add(i, column.is_text() ? csv_field(column.texts[row]) : number_csv(column.numbers[row]));
    }
    text += '\n';
  }
  return text;
}

void write_table(Group& group, const StudyTable& table, const std::string& signal) {
  std::vector<std::string> names;
  for (const StudyTable::Column& column : table.columns()) {
    names.push_back(column.name);
    if (table.n_rows() == 0) continue;
    column.is_text() ? group.create_texts(column.name, column.texts, kGzip) : write_numbers(group, column);
  }
  group.set_texts("columns", names);
  if (signal.empty()) return;
  group.set_text("signal", signal);
  group.set_texts("axes", {"."});  // by the cell's number
}

}  // namespace keyscope::sweep

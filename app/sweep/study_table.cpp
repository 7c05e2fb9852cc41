#include "app/sweep/study_table.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace keyscope::sweep {

namespace {

using recording::hdf5::Dataset;
using recording::hdf5::DatasetOptions;
using recording::hdf5::ElementType;
using recording::hdf5::Group;
using Value = StudyTable::Value;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kRowsAtOnce = 4096;
constexpr std::size_t kTextAtOnce = 1 << 20;
constexpr int kGzip = 4;
constexpr const char* kRows = "the rows of a study's table";

// As a table's reader would write it: 256, not 256.0.
std::string number_csv(double number) { return std::isnan(number) ? "" : fmt::format("{}", number); }

std::string text_of(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? number_csv(std::get<double>(value)) : *text;
}

bool is_text(const Value& value) { return std::holds_alternative<std::string>(value); }

void write_bytes(std::FILE* file, const void* bytes, std::size_t n) {
  if (std::fwrite(bytes, 1, n, file) != n) fail_to("write", kRows, errno);
}

void read_bytes(std::FILE* file, void* bytes, std::size_t n) {
  if (std::fread(bytes, 1, n, file) != n) fail_to("read", kRows, errno);
}

// Where a file system has no files without names: gone from its folder as soon as it is open.
int open_and_unlink(const std::filesystem::path& folder) {
  std::string name = (folder / ".keyscope-rows-XXXXXX").string();
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) fail_to("be written to", folder.string(), errno);
  if (::unlink(name.c_str()) == 0) return descriptor;
  const int error = errno;
  ::close(descriptor);
  fail_to("be removed", name, error);
}

// Nothing is left of it, whatever ends the program.
std::FILE* open_without_name(const std::filesystem::path& folder) {
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
  const bool unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
  if (descriptor < 0 && !unknown) fail_to("be written to", folder.string(), errno);
  if (descriptor < 0) descriptor = open_and_unlink(folder);
  if (std::FILE* const file = ::fdopen(descriptor, "w+b")) return file;
  const int error = errno;
  ::close(descriptor);
  fail_to("write", kRows, error);
}

}  // namespace

StudyTable::StudyTable(const std::filesystem::path& folder) : rows_(open_without_name(folder)) {}

void StudyTable::add_row() {
  if (n_written_ < n_rows_) write_row();
  row_.assign(columns_.size(), kNone);
  ++n_rows_;
}

void StudyTable::set(const std::string& name, Value value) {
  // HDF5 ends texts there, and no name is worth a study that cannot be merged.
  if (is_text(value)) std::ranges::replace(std::get<std::string>(value), '\0', ' ');
  auto column = std::ranges::find(columns_, name, &Column::name);
  if (column == columns_.end()) {
    column = columns_.insert(columns_.end(), {name});
    row_.emplace_back(kNone);
  }
  column->is_text = column->is_text || is_text(value);
  column->n_bytes = std::max(column->n_bytes, text_of(value).size());
  row_[column - columns_.begin()] = std::move(value);
}

void StudyTable::set_members(const nlohmann::ordered_json& object) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_number()) set(name, value.get<double>());
    if (value.is_boolean()) set(name, value.get<bool>() ? 1.0 : 0.0);
    if (value.is_string()) set(name, value.get<std::string>());
  }
}

// How many values there are, then each: its bytes' number and a text, or kNumber and a number.
constexpr std::uint64_t kNumber = ~std::uint64_t{0};

void StudyTable::write_row() {
  const std::uint64_t n_values = row_.size();
  write_bytes(rows_.get(), &n_values, sizeof n_values);
  for (const Value& value : row_) {
    const auto* text = std::get_if<std::string>(&value);
    const std::uint64_t size = text == nullptr ? kNumber : text->size();
    write_bytes(rows_.get(), &size, sizeof size);
    text == nullptr ? write_bytes(rows_.get(), &std::get<double>(value), sizeof(double))
                    : write_bytes(rows_.get(), text->data(), text->size());
  }
  ++n_written_;
}

StudyTable::Row StudyTable::read_row() {
  std::uint64_t n_values = 0;
  read_bytes(rows_.get(), &n_values, sizeof n_values);
  Row row(n_values);
  for (Value& value : row) {
    std::uint64_t size = 0;
    read_bytes(rows_.get(), &size, sizeof size);
    if (size == kNumber) {
      read_bytes(rows_.get(), &std::get<double>(value), sizeof(double));
      continue;
    }
    std::string text(size, '\0');
    read_bytes(rows_.get(), text.data(), size);
    value = std::move(text);
  }
  return row;
}

void StudyTable::for_each_row(const std::function<void(const Row&)>& each) {
  if (n_written_ < n_rows_) write_row();
  if (std::fflush(rows_.get()) != 0) fail_to("write", kRows, errno);
  std::rewind(rows_.get());
  for (std::size_t i = 0; i < n_rows_; ++i) {
    Row row = read_row();
    row.resize(columns_.size(), kNone);
    for (std::size_t column = 0; column < columns_.size(); ++column)
      if (columns_[column].is_text && !is_text(row[column])) row[column] = text_of(row[column]);
    each(row);
  }
}

void write_csv(StudyTable& table, const std::function<void(std::string_view)>& write) {
  std::string text;
  const auto end_line = [&] {
    text.back() = '\n';
    if (text.size() < kTextAtOnce) return;
    write(text);
    text.clear();
  };
  for (const StudyTable::Column& column : table.columns()) text += csv_field(column.name) + ",";
  if (table.columns().empty()) text += ",";
  end_line();
  table.for_each_row([&](const StudyTable::Row& row) {
    for (const Value& value : row)
      text += (is_text(value) ? csv_field(text_of(value)) : text_of(value)) + ",";
    end_line();
  });
  write(text);
}

namespace {

// A column's values on their way into a file.
class ColumnWriter {
 public:
  ColumnWriter(Group& group, const StudyTable::Column& column, std::size_t n_rows)
      : is_text_(column.is_text), dataset_(create(group, column, n_rows)) {}

  void add(const Value& value) {
    if (is_text_)
      texts_.push_back(std::get<std::string>(value));
    else
      numbers_.push_back(std::get<double>(value));
    if (texts_.size() + numbers_.size() == kRowsAtOnce) write();
  }

  void write() {
    const hsize_t n = texts_.size() + numbers_.size();
    is_text_ ? dataset_.write_texts(texts_, n_written_)
             : dataset_.write(std::span<const double>(numbers_), {n_written_}, {n});
    n_written_ += n;
    texts_.clear();
    numbers_.clear();
  }

 private:
  static Dataset create(Group& group, const StudyTable::Column& column, std::size_t n_rows) {
    if (column.is_text) return group.create_texts(column.name, n_rows, column.n_bytes, kGzip);
    DatasetOptions options;
    options.chunk = {std::min(n_rows, kRowsAtOnce)};
    options.shuffle = true;
    options.gzip = kGzip;
    options.cache_bytes = 2 * kRowsAtOnce * sizeof(double);
    return group.create_dataset(column.name, ElementType::kFloat64, {n_rows}, options);
  }

  bool is_text_;
  Dataset dataset_;
  std::vector<std::string> texts_;
  std::vector<double> numbers_;
  hsize_t n_written_ = 0;
};

}  // namespace

void write_table(Group& group, StudyTable& table, const std::string& signal) {
  std::vector<std::string> names;
  std::vector<ColumnWriter> writers;
  for (const StudyTable::Column& column : table.columns()) {
    names.push_back(column.name);
    writers.emplace_back(group, column, table.n_rows());
  }
  table.for_each_row([&](const StudyTable::Row& row) {
    for (std::size_t i = 0; i < row.size(); ++i) writers[i].add(row[i]);
  });
  for (ColumnWriter& writer : writers) writer.write();
  group.set_texts("columns", names);
  if (signal.empty()) return;
  group.set_text("signal", signal);
  group.set_texts("axes", {"."});  // by the cell's number
}

}  // namespace keyscope::sweep

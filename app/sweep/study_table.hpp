#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "capture/recording/hdf5.hpp"

namespace keyscope::sweep {

// What a study's cells are and came to: a row a cell, a column what can be said of one. Rows wait in a file
// without a name, so that memory does not grow with them.
class StudyTable {
 public:
  using Value = std::variant<double, std::string>;  // NaN: there is none
  struct Column {
    std::string name;
    bool is_text = false;
    std::size_t n_bytes = 0;  // of its longest value as text
  };
  // A value for each column that there was when the row was written; the others have none there.
  using Row = std::vector<Value>;

  //   folder: writable, with room for the rows
  //   throws FileError where it is not
  explicit StudyTable(const std::filesystem::path& folder);

  void add_row();
  // Of the last row. A column comes with its first value, and is one of texts once one of its values is.
  void set(const std::string& name, Value value);
  // Every member of an object that is a number, a truth or a text.
  void set_members(const nlohmann::ordered_json& object);

  std::size_t n_rows() const { return n_rows_; }
  const std::vector<Column>& columns() const { return columns_; }

  // Ends adding, and goes through all rows; values of a column of texts are texts.
  //   throws FileError where the rows could not be written or read
  void for_each_row(const std::function<void(const Row&)>& each);

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void write_row();
  Row read_row();

  std::unique_ptr<std::FILE, CloseFile> rows_;
  std::size_t n_rows_ = 0, n_written_ = 0;
  Row row_;  // the last one, which is written when the next one comes
  std::vector<Column> columns_;
};

// A line of names, and a line a row (RFC 4180 with line feeds); numbers so that they read back to the last
// bit.
//   write: called with some of it at a time
void write_csv(StudyTable& table, const std::function<void(std::string_view)>& write);

// A list of numbers or texts for every column, into a group.
//   signal: the column that NeXus viewers plot; empty: none
void write_table(recording::hdf5::Group& group, StudyTable& table, const std::string& signal);

}  // namespace keyscope::sweep

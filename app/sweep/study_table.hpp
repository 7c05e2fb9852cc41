#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "capture/recording/hdf5.hpp"

namespace keyscope::sweep {

// What a study's cells are and came to: a row a cell, a column what can be said of one.
class StudyTable {
 public:
  using Value = std::variant<double, std::string>;
  struct Column {
    std::string name;
    std::vector<double> numbers;     // an entry a row, NaN: there is none; empty: the column is of texts
    std::vector<std::string> texts;  // likewise, empty: there is none

    bool is_text() const { return numbers.empty(); }
  };

  void add_row() { ++n_rows_; }
  // Of the last row. A column comes with its first value, and is one of texts once one of its values is.
  void set(const std::string& name, Value value);
  // Every member of an object that is a number, a truth or a text.
  void set_members(const nlohmann::ordered_json& object);

  std::size_t n_rows() const { return n_rows_; }
  const std::vector<Column>& columns() const { return columns_; }

  // Every column to the last row: what has no value there has none.
  void fill();

 private:
  std::size_t n_rows_ = 0;
  std::vector<Column> columns_;
};

// A line of names, and a line a row (RFC 4180 with line feeds); numbers so that they read back to the last
// bit.
//   table: after `fill`
std::string table_csv(const StudyTable& table);

// A list of numbers or texts for every column, into a group.
//   signal: the column that NeXus viewers plot; empty: none
void write_table(recording::hdf5::Group& group, const StudyTable& table, const std::string& signal);

}  // namespace keyscope::sweep

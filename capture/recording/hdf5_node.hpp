#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "capture/recording/hdf5_handle.hpp"

namespace keyscope::recording::hdf5 {

// Something that carries attributes: a group or a dataset. Text attributes are variable-length UTF-8,
// integers are int64. Getters accept fixed-length text and any integer width too, as other writers produce
// them, and
//   throw FileError naming file, object and attribute if it is missing or of another kind
class Node {
 public:
  void set_text(const std::string& name, const std::string& text);
  void set_texts(const std::string& name, const std::vector<std::string>& texts);  // 1-D
  void set_integer(const std::string& name, std::int64_t value);  // overwritten in place if it exists
  void set_integers(const std::string& name, const std::vector<std::int64_t>& values);  // 1-D

  bool has_attribute(const std::string& name) const;
  std::vector<std::string> attribute_names() const;
  bool is_text(const std::string& name) const;
  std::string text(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;

  const std::string& where() const { return where_; }  // "file: /path/in/it"
  hid_t id() const { return handle_.id(); }

 protected:
  Node() = default;
  Node(Handle handle, std::string where) : handle_(std::move(handle)), where_(std::move(where)) {}

  Handle handle_;
  std::string where_;

 private:
  Handle open_attribute(const std::string& name) const;
};

}  // namespace keyscope::recording::hdf5

#pragma once

#include <fstream>
#include <istream>
#include <string>

namespace keyscope::commands {

// A text file, or stdin for "-", with the name that error messages give it.
class TextInput {
 public:
  //   throws FileError where the file cannot be opened
  explicit TextInput(const std::string& path);

  const std::string& name() const { return name_; }
  std::istream& stream() { return file_.is_open() ? file_ : standard_input(); }

  //   throws FileError where it cannot be read to its end, or is no UTF-8
  std::string read_all();
  void check();  // after reading: that nothing was lost

 private:
  static std::istream& standard_input();

  std::string name_ = "standard input";
  std::ifstream file_;
};

// Text that does not mean what it was written as would be read as something else.
//   throws FileError naming the place of the first byte that is no UTF-8
void require_utf8(const std::string& text, const std::string& name);

}  // namespace keyscope::commands

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace keyscope::jinja {

// A template that is none, and where.
class SyntaxError : public std::runtime_error {
 public:
  SyntaxError(int line, const std::string& what) : std::runtime_error(what), line_(line) {}
  int line() const { return line_; }  // from 1

 private:
  int line_;
};

struct Token {
  enum class Type {
    kData,  // what is printed as it stands
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,  // unescaped
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Type type;
  std::string text;
  int line;
  std::int64_t integer = 0;
  double real = 0;
};

// A template's tokens, white space around tags taken away as Jinja does it with trim_blocks and
// lstrip_blocks, which is how Transformers renders chat templates; comments are gone. Line ends become "\n",
// and one at the end of the template goes.
//   source: valid UTF-8
//   throws SyntaxError
std::vector<Token> tokenize(std::string_view source);

}  // namespace keyscope::jinja

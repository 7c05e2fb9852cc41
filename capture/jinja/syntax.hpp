#pragma once

#include <cstdint>
#include <memory>
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

// A part of a template, with its parts. What `parts` holds is said beside each kind; null: left out.
struct Node {
  enum class Kind {
    // statements
    kBody,         // statements
    kData,         // text: printed as it is
    kOutput,       // expression
    kIf,           // condition, body, condition, body, …, body of the rest or null
    kFor,          // target, items, condition or null, body, body if there was none or null; flag: recursive
    kSet,          // target, value
    kSetBlock,     // target, body, filter over null or null
    kWith,         // target, value, target, value, …, body
    kMacro,        // text: its name; kParameter …, body
    kCall,         // call, kParameter …, body
    kFilterBlock,  // filter over null, body
    kScope,        // body
    kBreak,
    kContinue,
    kParameter,  // text: its name; default or null

    // expressions
    kString,   // text
    kInteger,  // integer
    kFloat,    // real
    kTrue,
    kFalse,
    kNone,
    kName,  // text
    kList,
    kTuple,
    kDict,         // key, value, …
    kAttribute,    // text: its name; object
    kItem,         // object, key
    kSlice,        // object, start, stop, step; each but the first may be null
    kInvoke,       // callee, arguments …
    kNamed,        // of arguments, text: its name; value
    kSpread,       // of arguments: *list
    kSpreadNamed,  // of arguments: **dict
    kFilter,       // text: its name; operand or null, arguments …
    kTest,         // text: its name; operand, arguments …
    kNot,
    kNegative,
    kPositive,
    kBinary,   // text: + - * / // % **; two operands
    kConcat,   // operands
    kCompare,  // first, kOperand …
    kOperand,  // text: == != < <= > >= in "not in"; operand
    kAnd,
    kOr,
    kConditional,  // condition, value, other value or null
    kMember,       // of kSet, text: its name; kName of a namespace
  };
  using Pointer = std::unique_ptr<Node>;

  Kind kind;
  int line;
  std::string text;
  std::vector<Pointer> parts;
  std::int64_t integer = 0;
  double real = 0;
  bool flag = false;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;  // in the body of a macro or call
  int depth = 1;                                                        // of the tree below
};

// A whole template, a kBody.
//   source: valid UTF-8
//   throws SyntaxError, also on statements that need other files: import, include, extends
Node::Pointer parse(std::string_view source);

}  // namespace keyscope::jinja

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace keyscope::jinja {

struct String;
struct Sequence;
struct Dict;
struct Function;
struct Loop;

// What a template computes with: Python's values, as far as Jinja lets templates have them. Objects belong to
// a Heap; a value that points to one may be copied freely while the heap lives.
struct Value {
  enum class Kind {
    kUndefined,  // `string` says what was not there
    kNone,
    kBoolean,
    kInteger,
    kFloat,
    kString,
    kList,
    kTuple,
    kRange,
    kView,      // of a dict: keys(), values(), items()
    kIterator,  // a generator: always true, without a length, read once
    kDict,
    kNamespace,
    kFunction,
    kLoop,
  };

  static Value none() { return {}; }
  static Value of(bool boolean);
  static Value of(std::int64_t integer);
  static Value of(double real);
  static Value of(Function* function);
  static Value of(Loop* loop);

  bool is(Kind other) const { return kind == other; }
  bool is_undefined() const { return kind == Kind::kUndefined; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_integer() const { return kind == Kind::kInteger || kind == Kind::kBoolean; }  // as Python has it
  bool is_number() const { return is_integer() || kind == Kind::kFloat; }
  bool is_sequence() const { return kind >= Kind::kList && kind <= Kind::kIterator; }

  std::int64_t as_integer() const { return kind == Kind::kBoolean ? std::int64_t{boolean} : integer; }
  double as_real() const { return kind == Kind::kFloat ? real : static_cast<double>(as_integer()); }
  const std::string& text() const;  // of a string

  Kind kind = Kind::kNone;
  union {
    bool boolean;
    std::int64_t integer = 0;
    double real;
    const String* string;
    Sequence* sequence;
    Dict* dict;  // of a namespace too
    Function* function;
    Loop* loop;
  };
};

struct String {
  std::string text;      // UTF-8
  bool is_safe = false;  // Markup, by the filters `safe` and `escape`
};

struct Sequence {
  std::vector<Value> items;
  std::string name;  // "dict_items"; of a range what is printed; of an iterator why it breaks off, if it does
  std::size_t next = 0;  // of an iterator: items before it were read
};

// In the order in which keys were first set.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
};

// What a call passes.
struct Arguments {
  // Values in the order of `names`; nullopt where none was passed.
  //   callee: for messages
  //   throws Failure where more, others, or fewer than `n_required` were passed
  std::vector<std::optional<Value>> bind(std::string_view callee,
                                         std::initializer_list<std::string_view> names,
                                         std::size_t n_required = 0) const;

  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Function {
  std::string name;
  std::function<Value(const Arguments&)> call;
};

// Where a `for` is: what its variable `loop` tells. Items are looked at one ahead at most, as Jinja does it,
// so that a condition sees what the body did before.
struct Loop {
  std::vector<Value> source;
  std::function<bool(const Value&)> is_wanted;
  std::function<Value(const Value&)> recurse;  // loop(items); empty where the loop is not recursive
  std::int64_t depth = 0;
  std::vector<Value> items{};  // that are wanted
  std::size_t at_source = 0, at = 0;
  std::optional<std::vector<Value>> seen{};  // by changed()

  // Whether there is an item i.
  bool reaches(std::size_t i);
};

// What is wrong with an operation, in words; whoever runs the template adds where.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A hostile template's end.
class LimitReached : public Failure {
 public:
  using Failure::Failure;
};

// The template calls raise_exception.
class Raised : public Failure {
 public:
  using Failure::Failure;
};

// Owns what values point to, and counts: hostile templates end at a limit. All at once is freed, whatever
// points in circles.
class Heap {
 public:
  //   most_steps: operations, an item or 64 bytes of text being one; most_bytes: of all texts and lists made
  Heap(std::int64_t most_steps, std::int64_t most_bytes) : steps_left_(most_steps), bytes_left_(most_bytes) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Throw LimitReached at the limit: before the work is done, the memory taken.
  void charge_steps(std::size_t n = 1);
  void charge_bytes(std::size_t n);

  Value undefined(std::string message);
  Value string(std::string text, bool is_safe = false);
  Value sequence(Value::Kind kind, std::vector<Value> items, std::string name = "");
  Value list(std::vector<Value> items) { return sequence(Value::Kind::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Value::Kind::kTuple, std::move(items)); }
  Value dict(Value::Kind kind = Value::Kind::kDict);
  Value function(std::string name, std::function<Value(const Arguments&)> call);

 private:
  std::int64_t steps_left_, bytes_left_;
  std::deque<String> strings_;
  std::deque<Sequence> sequences_;
  std::deque<Dict> dicts_;
  std::deque<Function> functions_;
};

// --- what Python's operators do; all throw Failure where Python raises, in its words

std::string type_name(const Value& value);  // "str"
[[noreturn]] void fail_operands(std::string_view op, const Value& a, const Value& b);
void check_depth(int depth);  // of values in values
bool is_true(const Value& value);
bool are_equal(Heap& heap, const Value& a, const Value& b);
bool is_less(Heap& heap, const Value& a, const Value& b);
bool contains(Heap& heap, const Value& container, const Value& item);

//   op: + - * / // % **
Value arithmetic(Heap& heap, std::string_view op, const Value& a, const Value& b);

std::size_t length_of(Heap& heap, const Value& value);
// Its items: of a dict the keys, of a string the characters; an iterator's are read, and gone then.
std::vector<Value> items_of(Heap& heap, const Value& value);

std::string to_text(Heap& heap, const Value& value);  // str(value)
std::string to_repr(Heap& heap, const Value& value);  // repr(value)
std::string real_text(double value);                  // "1e+20", "0.5", "3.0"

bool is_hashable(const Value& key, int depth = 0);  // lists and dicts are no keys, nor tuples that hold them
// nullptr where there is no such key.
const Value* find(Heap& heap, const Dict& dict, const Value& key);
void set(Heap& heap, Dict& dict, const Value& key, const Value& value);

// --- strings by characters

bool is_space(char32_t c);  // Python's str.isspace
std::size_t count_characters(std::string_view text);
std::vector<std::string_view> characters_of(Heap& heap, std::string_view text);

}  // namespace keyscope::jinja

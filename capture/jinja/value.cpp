#include "capture/jinja/value.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <unicode/uchar.h>

#include "base/text.hpp"
#include "capture/jinja/builtins.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

Value Value::of(bool boolean) {
  Value value;
  value.kind = Kind::kBoolean;
  value.boolean = boolean;
  return value;
}

Value Value::of(std::int64_t integer) {
  Value value;
  value.kind = Kind::kInteger;
  value.integer = integer;
  return value;
}

Value Value::of(double real) {
  Value value;
  value.kind = Kind::kFloat;
  value.real = real;
  return value;
}

Value Value::of(Function* function) {
  Value value;
  value.kind = Kind::kFunction;
  value.function = function;
  return value;
}

Value Value::of(Loop* loop) {
  Value value;
  value.kind = Kind::kLoop;
  value.loop = loop;
  return value;
}

const std::string& Value::text() const { return string->text; }

std::vector<std::optional<Value>> Arguments::bind(std::string_view callee,
                                                  std::initializer_list<std::string_view> names,
                                                  std::size_t n_required) const {
  if (positional.size() > names.size())
    throw Failure(fmt::format("{}() takes at most {}, found {}", callee,
                              counted(static_cast<std::int64_t>(names.size()), "argument"),
                              positional.size()));
  std::vector<std::optional<Value>> values(positional.begin(), positional.end());
  values.resize(names.size());
  for (const auto& [name, value] : named) {
    const auto* place = std::find(names.begin(), names.end(), name);
    if (place == names.end()) throw Failure(fmt::format("{}() has no argument named {}", callee, name));
    auto& slot = values[static_cast<std::size_t>(place - names.begin())];
    if (slot) throw Failure(fmt::format("{}() got its argument {} twice", callee, name));
    slot = value;
  }
  for (std::size_t i = 0; i < n_required; ++i)
    if (!values[i]) throw Failure(fmt::format("{}() needs its argument {}", callee, names.begin()[i]));
  return values;
}

void Heap::charge_steps(std::size_t n) {
  steps_left_ -= static_cast<std::int64_t>(std::min<std::size_t>(n, std::size_t{1} << 60U));
  if (steps_left_ < 0) throw LimitReached("the template takes too long: it is past the limit of operations");
}

void Heap::charge_bytes(std::size_t n) {
  charge_steps(n / 64);
  bytes_left_ -= static_cast<std::int64_t>(std::min<std::size_t>(n, std::size_t{1} << 60U));
  if (bytes_left_ < 0)
    throw LimitReached("the template takes too much memory: its texts and lists are past the limit");
}

Value Heap::undefined(std::string message) {
  Value value = string(std::move(message));
  value.kind = Kind::kUndefined;
  return value;
}

Value Heap::string(std::string text, bool is_safe) {
  charge_bytes(text.size() + sizeof(String));
  strings_.push_back({std::move(text), is_safe});
  Value value;
  value.kind = Kind::kString;
  value.string = &strings_.back();
  return value;
}

Value Heap::sequence(Kind kind, std::vector<Value> items, std::string name) {
  charge_bytes(items.size() * sizeof(Value) + sizeof(Sequence));
  sequences_.push_back({std::move(items), std::move(name), 0});
  Value value;
  value.kind = kind;
  value.sequence = &sequences_.back();
  return value;
}

Value Heap::dict(Kind kind) {
  charge_bytes(sizeof(Dict));
  dicts_.emplace_back();
  Value value;
  value.kind = kind;
  value.dict = &dicts_.back();
  return value;
}

Value Heap::function(std::string name, std::function<Value(const Arguments&)> call) {
  charge_bytes(sizeof(Function));
  functions_.push_back({std::move(name), std::move(call)});
  return Value::of(&functions_.back());
}

std::string type_name(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBoolean:
      return "bool";
    case Kind::kInteger:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return value.sequence->name;
    case Kind::kIterator:
      return "generator";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kFunction:
      return "function";
    case Kind::kLoop:
      return "LoopContext";
  }
  return "";
}

bool is_true(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBoolean:
    case Kind::kInteger:
      return value.as_integer() != 0;
    case Kind::kFloat:
      return value.real != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return !value.sequence->items.empty();
    case Kind::kDict:
      return !value.dict->entries.empty();
    default:
      return true;
  }
}

namespace {

// Exact for 64-bit integers too: the mantissa of x86's long double has 64 bits.
long double exact(const Value& value) {
  return value.kind == Kind::kFloat ? static_cast<long double>(value.real)
                                    : static_cast<long double>(value.as_integer());
}

bool equal(Heap& heap, const Value& a, const Value& b, int depth);

bool equal_items(Heap& heap, const Sequence& a, const Sequence& b, int depth) {
  check_depth(depth);
  if (a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i)
    if (!equal(heap, a.items[i], b.items[i], depth + 1)) return false;
  return true;
}

bool equal_dicts(Heap& heap, const Dict& a, const Dict& b, int depth) {
  check_depth(depth);
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = find(heap, b, key);
    if (other == nullptr || !equal(heap, value, *other, depth + 1)) return false;
  }
  return true;
}

bool equal(Heap& heap, const Value& a, const Value& b, int depth) {
  heap.charge_steps();
  if (a.is_number() && b.is_number()) return exact(a) == exact(b);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      heap.charge_steps(a.text().size() / 64);
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return equal_items(heap, *a.sequence, *b.sequence, depth);
    case Kind::kDict:
      return equal_dicts(heap, *a.dict, *b.dict, depth);
    case Kind::kFunction:
      return a.function == b.function;
    case Kind::kLoop:
      return a.loop == b.loop;
    case Kind::kNamespace:
      return a.dict == b.dict;
    default:
      return a.sequence == b.sequence;
  }
}

bool less(Heap& heap, const Value& a, const Value& b, int depth) {
  heap.charge_steps();
  check_depth(depth);
  if (a.is_number() && b.is_number()) return exact(a) < exact(b);
  if (a.is_string() && b.is_string()) {
    heap.charge_steps(a.text().size() / 64);
    return a.text() < b.text();  // UTF-8 sorts as its code points
  }
  if (a.kind != b.kind || (a.kind != Kind::kList && a.kind != Kind::kTuple)) fail_operands("<", a, b);
  const auto& left = a.sequence->items;
  const auto& right = b.sequence->items;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i)
    if (!equal(heap, left[i], right[i], depth + 1)) return less(heap, left[i], right[i], depth + 1);
  return left.size() < right.size();
}

void check_hashable(const Value& key) {
  if (!is_hashable(key)) throw Failure(fmt::format("unhashable type: '{}'", type_name(key)));
}

}  // namespace

void check_depth(int depth) {
  constexpr int kDeepest = 200;
  if (depth > kDeepest) throw Failure(fmt::format("values are nested deeper than {}", kDeepest));
}

void fail_operands(std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) throw Failure(a.text());
  if (b.is_undefined()) throw Failure(b.text());
  throw Failure(fmt::format("{} is not supported between {} and {}", op, type_name(a), type_name(b)));
}

bool is_hashable(const Value& key, int depth) {
  check_depth(depth);
  if (key.kind == Kind::kList || key.kind == Kind::kDict) return false;
  if (key.kind != Kind::kTuple) return true;
  const auto& items = key.sequence->items;
  return std::all_of(items.begin(), items.end(),
                     [&](const Value& item) { return is_hashable(item, depth + 1); });
}

bool are_equal(Heap& heap, const Value& a, const Value& b) { return equal(heap, a, b, 0); }
bool is_less(Heap& heap, const Value& a, const Value& b) { return less(heap, a, b, 0); }

bool contains(Heap& heap, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string())
      throw Failure(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    return find_text(heap, container.text(), item.text(), 0) != std::string::npos;
  }
  if (container.is(Kind::kDict)) return find(heap, *container.dict, item) != nullptr;
  if (container.is(Kind::kIterator)) {
    auto& [items, name, next] = *container.sequence;
    while (next < items.size())
      if (are_equal(heap, items[next++], item)) return true;
    if (!name.empty()) throw Failure(name);
    return false;
  }
  const auto items = items_of(heap, container);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& each) { return are_equal(heap, each, item); });
}

const Value* find(Heap& heap, const Dict& dict, const Value& key) {
  check_hashable(key);
  for (const auto& [each, value] : dict.entries)
    if (are_equal(heap, each, key)) return &value;
  return nullptr;
}

void set(Heap& heap, Dict& dict, const Value& key, const Value& value) {
  check_hashable(key);
  for (auto& [each, old] : dict.entries)
    if (are_equal(heap, each, key)) {
      old = value;
      return;
    }
  heap.charge_bytes(2 * sizeof(Value));
  dict.entries.emplace_back(key, value);
}

std::size_t length_of(Heap& heap, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_string()) {
    heap.charge_steps(value.text().size() / 64);
    return count_characters(value.text());
  }
  if (value.is(Kind::kDict)) return value.dict->entries.size();
  if (value.is_sequence() && !value.is(Kind::kIterator)) return value.sequence->items.size();
  throw Failure(fmt::format("object of type '{}' has no length", type_name(value)));
}

std::vector<Value> items_of(Heap& heap, const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (value.is(Kind::kIterator)) {
    auto& [all, name, next] = *value.sequence;
    items.assign(all.begin() + static_cast<std::ptrdiff_t>(next), all.end());
    next = all.size();
    if (!name.empty()) throw Failure(name);
  } else if (value.is_sequence()) {
    items = value.sequence->items;
  } else if (value.is(Kind::kDict)) {
    for (const auto& entry : value.dict->entries) items.push_back(entry.first);
  } else if (value.is_string()) {
    for (const std::string_view character : characters_of(heap, value.text()))
      items.push_back(heap.string(std::string(character)));
  } else {
    throw Failure(fmt::format("'{}' object is not iterable", type_name(value)));
  }
  heap.charge_bytes(items.size() * sizeof(Value));
  return items;
}

bool is_space(char32_t c) {
  return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0 || (c >= 0x1C && c <= 0x1F);
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !continues_character(byte); }));
}

std::vector<std::string_view> characters_of(Heap& heap, std::string_view text) {
  heap.charge_bytes(text.size() * sizeof(std::string_view));
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_code_point(text, at);
    characters.push_back(text.substr(begin, at - begin));
  }
  return characters;
}

}  // namespace keyscope::jinja

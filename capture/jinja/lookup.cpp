// How values are looked into: attributes, items, slices, and the methods of lists and dicts.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/jinja/builtins.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

namespace {

Value view(Heap& heap, const Dict& dict, std::string_view name) {
  std::vector<Value> items;
  items.reserve(dict.entries.size());
  for (const auto& [key, value] : dict.entries)
    items.push_back(name == "keys" ? key : name == "values" ? value : heap.tuple({key, value}));
  return heap.sequence(Kind::kView, std::move(items), fmt::format("dict_{}", name));
}

Value copy(Heap& heap, const Value& value) {
  if (!value.is(Kind::kDict)) return heap.list(value.sequence->items);
  Value result = heap.dict();
  heap.charge_bytes(value.dict->entries.size() * 2 * sizeof(Value));
  *result.dict = *value.dict;
  return result;
}

Value get(Heap& heap, const Dict& dict, const Arguments& arguments) {
  const auto given = arguments.bind("get", {"key", "default"}, 1);
  const Value* value = find(heap, dict, *given[0]);
  return value != nullptr ? *value : given[1].value_or(Value::none());
}

Value index(Heap& heap, const Sequence& sequence, const Arguments& arguments) {
  const Value item = *arguments.bind("index", {"value"}, 1)[0];
  for (std::size_t i = 0; i < sequence.items.size(); ++i)
    if (are_equal(heap, sequence.items[i], item)) return Value::of(static_cast<std::int64_t>(i));
  throw Failure("index(): no item has this value");
}

Value count(Heap& heap, const Sequence& sequence, const Arguments& arguments) {
  const Value item = *arguments.bind("count", {"value"}, 1)[0];
  return Value::of(static_cast<std::int64_t>(
      std::count_if(sequence.items.begin(), sequence.items.end(),
                    [&](const Value& each) { return are_equal(heap, each, item); })));
}

// What changes an object is not for templates: they are given, not asked.
bool changes(const Value& self, std::string_view name) {
  const auto any_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (self.is(Kind::kList))
    return any_of({"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});
  return self.is(Kind::kDict) && any_of({"clear", "pop", "popitem", "setdefault", "update"});
}

std::optional<Value> method_of(Heap& heap, const Value& self, std::string_view name) {
  if (self.is_string()) return text_method(heap, self, name);
  const auto bind = [&](auto call) {
    return heap.function(std::string(name), [&heap, self, call](const Arguments& arguments) {
      return call(heap, self, arguments);
    });
  };
  if (changes(self, name))
    return heap.function(std::string(name), [self, name = std::string(name)](const Arguments&) -> Value {
      throw Failure(fmt::format("access to attribute '{}' of '{}' object is unsafe: it would change it", name,
                                type_name(self)));
    });
  if (self.is(Kind::kDict)) {
    if (name == "items" || name == "keys" || name == "values")
      return bind([name](Heap& h, const Value& dict, const Arguments& arguments) {
        arguments.bind("items", {});
        return view(h, *dict.dict, name == "items" ? "items" : name == "keys" ? "keys" : "values");
      });
    if (name == "get")
      return bind([](Heap& h, const Value& dict, const Arguments& arguments) {
        return get(h, *dict.dict, arguments);
      });
  }
  if (name == "copy" && (self.is(Kind::kDict) || self.is(Kind::kList)))
    return bind([](Heap& h, const Value& value, const Arguments&) { return copy(h, value); });
  if (!self.is(Kind::kList) && !self.is(Kind::kTuple) && !self.is(Kind::kRange)) return std::nullopt;
  if (name == "index")
    return bind([](Heap& h, const Value& list, const Arguments& arguments) {
      return index(h, *list.sequence, arguments);
    });
  if (name == "count")
    return bind([](Heap& h, const Value& list, const Arguments& arguments) {
      return count(h, *list.sequence, arguments);
    });
  return std::nullopt;
}

// Where the character of this number begins.
std::size_t byte_of(std::string_view text, std::int64_t character) {
  std::size_t at = 0;
  for (std::int64_t i = 0; i < character && at < text.size(); ++i) next_code_point(text, at);
  return at;
}

std::optional<Value> item_at(Heap& heap, const Value& value, const Value& key) {
  if (value.is(Kind::kDict)) {
    const Value* found = find(heap, *value.dict, key);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  if (!key.is_integer()) return std::nullopt;
  const bool is_list = value.is(Kind::kList) || value.is(Kind::kTuple) || value.is(Kind::kRange);
  if (!is_list && !value.is_string()) return std::nullopt;
  const auto n = static_cast<std::int64_t>(length_of(heap, value));
  const std::int64_t at = key.as_integer() < 0 ? key.as_integer() + n : key.as_integer();
  if (at < 0 || at >= n) return std::nullopt;
  if (is_list) return value.sequence->items[static_cast<std::size_t>(at)];
  heap.charge_steps(value.text().size() / 8);
  const std::size_t begin = byte_of(value.text(), at);
  std::size_t end = begin;
  next_code_point(value.text(), end);
  return heap.string(value.text().substr(begin, end - begin));
}

Value loop_attribute(Heap& heap, Loop& loop, std::string_view name) {
  const auto number = [](std::size_t n) { return Value::of(static_cast<std::int64_t>(n)); };
  const auto all = [&] {
    loop.reaches(SIZE_MAX - 1);
    return loop.items.size();
  };
  if (name == "index") return number(loop.at + 1);
  if (name == "index0") return number(loop.at);
  if (name == "first") return Value::of(loop.at == 0);
  if (name == "last") return Value::of(!loop.reaches(loop.at + 1));
  if (name == "length") return number(all());
  if (name == "revindex") return number(all() - loop.at);
  if (name == "revindex0") return number(all() - loop.at - 1);
  if (name == "depth") return Value::of(loop.depth + 1);
  if (name == "depth0") return Value::of(loop.depth);
  if (name == "previtem")
    return loop.at > 0 ? loop.items[loop.at - 1] : heap.undefined("there is no previous item");
  if (name == "nextitem")
    return loop.reaches(loop.at + 1) ? loop.items[loop.at + 1] : heap.undefined("there is no next item");
  if (name == "cycle")
    return heap.function("cycle", [&loop](const Arguments& arguments) {
      if (arguments.positional.empty()) throw Failure("no items for cycling given");
      return arguments.positional[loop.at % arguments.positional.size()];
    });
  if (name == "changed")
    return heap.function("changed", [&heap, &loop](const Arguments& arguments) {
      const auto before = std::exchange(loop.seen, arguments.positional);
      return Value::of(!before || !are_equal(heap, heap.tuple(*before), heap.tuple(arguments.positional)));
    });
  return heap.undefined(fmt::format("'LoopContext object' has no attribute '{}'", name));
}

std::string owner(const Value& value) {
  return value.is(Kind::kNone) ? "None" : type_name(value) + " object";
}

}  // namespace

bool Loop::reaches(std::size_t i) {
  while (items.size() <= i && at_source < source.size()) {
    const Value& next = source[at_source++];
    if (is_wanted(next)) items.push_back(next);
  }
  return i < items.size();
}

Value attribute_of(Heap& heap, const Value& value, std::string_view name) {
  heap.charge_steps();
  if (value.is_undefined()) throw Failure(value.text());
  if (value.is(Kind::kLoop)) return loop_attribute(heap, *value.loop, name);
  if (const auto method = method_of(heap, value, name)) return *method;
  if (value.is(Kind::kDict) || value.is(Kind::kNamespace)) {
    heap.charge_steps(value.dict->entries.size() / 8);
    for (const auto& [key, item] : value.dict->entries)
      if (key.is_string() && key.text() == name) return item;
  } else if (value.is(Kind::kTuple) && value.sequence->name == "group") {  // what `groupby` gives
    if (name == "grouper") return value.sequence->items[0];
    if (name == "list") return value.sequence->items[1];
  }
  return heap.undefined(fmt::format("'{}' has no attribute '{}'", owner(value), name));
}

Value item_of(Heap& heap, const Value& value, const Value& key) {
  heap.charge_steps();
  if (value.is_undefined()) throw Failure(value.text());
  if (is_hashable(key))
    if (const auto item = item_at(heap, value, key)) return *item;
  if (key.is_string()) return attribute_of(heap, value, key.text());
  return heap.undefined(fmt::format("{} has no element {}", owner(value), to_repr(heap, key)));
}

Value slice_of(Heap& heap, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is_undefined()) throw Failure(value.text());
  if (!value.is_string() && !value.is(Kind::kList) && !value.is(Kind::kTuple) && !value.is(Kind::kRange))
    throw Failure(fmt::format("'{}' object cannot be sliced", type_name(value)));
  const auto n = static_cast<std::int64_t>(length_of(heap, value));
  const std::int64_t by = step.is(Kind::kNone) ? 1 : integer_argument(step);
  if (by == 0) throw Failure("slice step cannot be zero");
  const auto bound = [&](const Value& given, std::int64_t otherwise) {
    if (given.is(Kind::kNone)) return otherwise;
    const std::int64_t at = integer_argument(given);
    return std::clamp(at < 0 ? at + n : at, by < 0 ? std::int64_t{-1} : 0, by < 0 ? n - 1 : n);
  };
  const std::int64_t first = bound(start, by < 0 ? n - 1 : 0), last = bound(stop, by < 0 ? -1 : n);
  if (value.is_string() && by == 1) {
    const std::string& text = value.text();
    heap.charge_steps(text.size() / 8);
    const std::size_t begin = byte_of(text, first);
    const std::size_t end = last > first ? byte_of(text, last) : begin;
    return heap.string(text.substr(begin, end - begin), value.string->is_safe);
  }
  std::vector<std::size_t> places;
  for (std::int64_t i = first; by < 0 ? i > last : i < last; i += by) {
    places.push_back(static_cast<std::size_t>(i));
    if (by > n || by < -n) break;
  }
  heap.charge_bytes(places.size() * sizeof(std::size_t));
  if (!value.is_string()) {
    std::vector<Value> items;
    items.reserve(places.size());
    for (const std::size_t i : places) items.push_back(value.sequence->items[i]);
    return heap.sequence(value.is(Kind::kRange) ? Kind::kList : value.kind, std::move(items));
  }
  const auto characters = characters_of(heap, value.text());
  std::string text;
  for (const std::size_t i : places) text += characters[i];
  return heap.string(std::move(text), value.string->is_safe);
}

}  // namespace keyscope::jinja

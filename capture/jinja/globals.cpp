// The functions that every template has.

#include <array>
#include <utility>

#include <fmt/format.h>

#include "capture/jinja/builtins.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

void check_namespace_name(std::string_view name) {
  if (name.starts_with('_'))
    throw Failure(fmt::format("a namespace's '{}': names must not begin with '_'", name));
}

namespace {

constexpr std::size_t kLongestRange = 100'000;  // Jinja's sandbox has the same

Value range(Heap& heap, const Arguments& arguments) {
  const auto given = arguments.bind("range", {"start", "stop", "step"}, 1);
  const std::int64_t first = given[1] ? integer_argument(*given[0]) : 0;
  const std::int64_t last = integer_argument(given[1] ? *given[1] : *given[0]);
  const std::int64_t step = given[2] ? integer_argument(*given[2]) : 1;
  if (step == 0) throw Failure("range: the step must not be zero");
  std::vector<Value> items;
  std::int64_t i = first;
  for (bool is_beyond = false; !is_beyond && (step > 0 ? i < last : i > last);) {
    if (items.size() == kLongestRange)
      throw Failure(fmt::format("a range of more than {} is not supported", kLongestRange));
    items.push_back(Value::of(i));
    is_beyond = __builtin_add_overflow(i, step, &i);
  }
  std::string name = fmt::format("range({}, {}{})", first, last, step == 1 ? "" : fmt::format(", {}", step));
  return heap.sequence(Kind::kRange, std::move(items), std::move(name));
}

Value make_dict(Heap& heap, const Arguments& arguments, Kind kind) {
  const Value dict = heap.dict(kind);
  if (arguments.positional.size() > 1)
    throw Failure("dict: found several arguments without names, expected one at most");
  for (const Value& given : arguments.positional) {
    if (given.is(Kind::kDict)) {
      for (const auto& [key, value] : given.dict->entries) set(heap, *dict.dict, key, value);
      continue;
    }
    for (const Value& pair : items_of(heap, given)) {
      const auto both = items_of(heap, pair);
      if (both.size() != 2) throw Failure("dict: expected pairs of a key and a value");
      set(heap, *dict.dict, both[0], both[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) set(heap, *dict.dict, heap.string(name), value);
  if (kind == Kind::kNamespace)
    for (const auto& entry : dict.dict->entries)
      if (entry.first.is_string()) check_namespace_name(entry.first.text());
  return dict;
}

// As strftime of Python, where a time without a zone has empty ones.
Value strftime_now(Heap& heap, const std::string& format, const std::tm& now) {
  std::string zoneless;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const bool directive = format[i] == '%' && i + 1 < format.size();
    if (directive && (format[i + 1] == 'z' || format[i + 1] == 'Z')) {
      ++i;
    } else if (directive && format[i + 1] == 'f') {
      throw Failure("strftime_now: %f is not supported");
    } else {
      zoneless += format[i];
      if (directive) zoneless += format[++i];
    }
  }
  heap.charge_bytes(zoneless.size() * 64);
  std::string text(zoneless.size() * 64 + 64, '\0');
  text.resize(std::strftime(text.data(), text.size(), zoneless.c_str(), &now));
  return heap.string(std::move(text));
}

Value joiner(Heap& heap, const Arguments& arguments) {
  const auto given = arguments.bind("joiner", {"sep"});
  const Value separator = given[0] ? *given[0] : heap.string(", ");
  return heap.function("joiner", [&heap, separator, used = false](const Arguments&) mutable {
    return std::exchange(used, true) ? separator : heap.string("");
  });
}

}  // namespace

std::vector<std::pair<std::string_view, Value>> global_functions(Heap& heap, const std::tm& now) {
  std::vector<std::pair<std::string_view, Value>> functions;
  const auto add = [&](const char* name, auto call) {
    functions.emplace_back(name, heap.function(name, call));
  };
  add("range", [&heap](const Arguments& arguments) { return range(heap, arguments); });
  add("dict", [&heap](const Arguments& arguments) { return make_dict(heap, arguments, Kind::kDict); });
  add("namespace",
      [&heap](const Arguments& arguments) { return make_dict(heap, arguments, Kind::kNamespace); });
  add("joiner", [&heap](const Arguments& arguments) { return joiner(heap, arguments); });
  add("raise_exception", [&heap](const Arguments& arguments) -> Value {
    throw Raised(to_text(heap, *arguments.bind("raise_exception", {"message"}, 1)[0]));
  });
  add("strftime_now", [&heap, &now](const Arguments& arguments) {
    return strftime_now(heap, text_argument(*arguments.bind("strftime_now", {"format"}, 1)[0]), now);
  });
  return functions;
}

}  // namespace keyscope::jinja

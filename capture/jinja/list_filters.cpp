// Jinja's filters of lists and dicts.

#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>

#include "capture/jinja/builtins.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

namespace {

using Given = std::vector<std::optional<Value>>;

// --- what many filters of lists take: a part of each item, without regard to case

// "a.b.0": an item's item's item; none: itself.
Value part_of(Heap& heap, Value item, const std::optional<Value>& attribute,
              const std::optional<Value>& otherwise = {}) {
  if (!is_given(attribute)) return item;
  const auto look_up = [&](const Value& key) {
    item = item_of(heap, item, key);
    if (item.is_undefined() && is_given(otherwise)) item = *otherwise;
  };
  if (!attribute->is_string()) {
    look_up(*attribute);
    return item;
  }
  const std::string& path = attribute->text();
  for (std::size_t at = 0; at <= path.size();) {
    const auto dot = std::min(path.find('.', at), path.size());
    const std::string part = path.substr(at, dot - at);
    const bool digits =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    look_up(digits ? Value::of(std::int64_t{std::stoi(part)}) : heap.string(part));
    at = dot + 1;
  }
  return item;
}

Value without_case(Heap& heap, const Value& value, bool case_sensitive) {
  return case_sensitive || !value.is_string() ? value : call_text_method(heap, value, "lower");
}

struct Keyed {
  Value key, item;
};

// Items with what they are grouped or told apart by.
std::vector<Keyed> keyed(Heap& heap, const std::vector<Value>& items, const std::optional<Value>& attribute,
                         bool case_sensitive, const std::optional<Value>& otherwise = {}) {
  std::vector<Keyed> result;
  result.reserve(items.size());
  for (const Value& item : items)
    result.push_back({without_case(heap, part_of(heap, item, attribute, otherwise), case_sensitive), item});
  return result;
}

void sort_by_key(Heap& heap, std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? is_less(heap, b.key, a.key) : is_less(heap, a.key, b.key);
  });
}

std::vector<Value> items_alone(const std::vector<Keyed>& keyed_items) {
  std::vector<Value> items;
  items.reserve(keyed_items.size());
  for (const Keyed& each : keyed_items) items.push_back(each.item);
  return items;
}

// What a generator gives: it computes when it is read, and so fails only then.
Value generator(Heap& heap, const std::function<void(std::vector<Value>&)>& fill) {
  std::vector<Value> items;
  std::string failure;
  try {
    fill(items);
  } catch (const LimitReached&) {
    throw;
  } catch (const Raised&) {
    throw;
  } catch (const Failure& error) {
    failure = error.what();
  }
  return heap.sequence(Kind::kIterator, std::move(items), std::move(failure));
}

// --- filters of lists

Value sort(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<std::optional<Value>> attributes{given[2]};
  if (is_given(given[2]) && given[2]->is_string()) {
    attributes.clear();  // "a,b": by a, then by b
    for (const Value& part :
         items_of(heap, call_text_method(heap, *given[2], "split", {{heap.string(",")}, {}})))
      attributes.emplace_back(part);
  }
  std::vector<Keyed> items;
  for (const Value& item : items_of(heap, value)) {
    std::vector<Value> keys;
    keys.reserve(attributes.size());
    for (const auto& attribute : attributes)
      keys.push_back(without_case(heap, part_of(heap, item, attribute), is_on(given[1])));
    items.push_back({heap.list(std::move(keys)), item});
  }
  sort_by_key(heap, items, is_on(given[0]));
  return heap.list(items_alone(items));
}

Value dictsort(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("dictsort", {"case_sensitive", "by", "reverse"});
  if (value.is_undefined()) throw Failure(value.text());
  if (!value.is(Kind::kDict)) throw Failure("dictsort: found " + type_name(value) + ", expected a dict");
  const std::string by = given[1] ? text_argument(*given[1]) : "key";
  if (by != "key" && by != "value") throw Failure("dictsort: expected by=\"key\" or by=\"value\"");
  std::vector<Keyed> items;
  items.reserve(value.dict->entries.size());
  for (const auto& [key, item] : value.dict->entries)
    items.push_back({without_case(heap, by == "key" ? key : item, is_on(given[0])), heap.tuple({key, item})});
  sort_by_key(heap, items, is_on(given[2]));
  return heap.list(items_alone(items));
}

Value unique(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("unique", {"case_sensitive", "attribute"});
  return generator(heap, [&](std::vector<Value>& items) {
    const Value seen = heap.dict();
    for (const Keyed& each : keyed(heap, items_of(heap, value), given[1], is_on(given[0]))) {
      if (find(heap, *seen.dict, each.key) != nullptr) continue;
      set(heap, *seen.dict, each.key, Value::none());
      items.push_back(each.item);
    }
  });
}

Value least(Heap& heap, const Value& value, const Arguments& arguments, bool most) {
  const Given given = arguments.bind(most ? "max" : "min", {"case_sensitive", "attribute"});
  const auto items = keyed(heap, items_of(heap, value), given[1], is_on(given[0]));
  if (items.empty()) return heap.undefined("no aggregated item, the sequence was empty");
  const Keyed* best = items.data();
  for (const Keyed* each = best + 1; each < items.data() + items.size(); ++each)
    if (most ? is_less(heap, best->key, each->key) : is_less(heap, each->key, best->key)) best = each;
  return best->item;
}

Value groupby(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("groupby", {"attribute", "default", "case_sensitive"}, 1);
  auto items = keyed(heap, items_of(heap, value), given[0], is_on(given[2]), given[1]);
  sort_by_key(heap, items, false);
  std::vector<Value> groups;
  for (std::size_t i = 0; i < items.size();) {
    std::vector<Value> group;
    const Value key = items[i].key;
    const Value name = is_on(given[2]) ? key : part_of(heap, items[i].item, given[0], given[1]);
    for (; i < items.size() && are_equal(heap, items[i].key, key); ++i) group.push_back(items[i].item);
    groups.push_back(heap.sequence(Kind::kTuple, {name, heap.list(std::move(group))}, "group"));
  }
  return heap.list(std::move(groups));
}

Value batch(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("batch", {"linecount", "fill_with"}, 1);
  return generator(heap, [&](std::vector<Value>& rows) {
    std::vector<Value> row;
    for (const Value& item : items_of(heap, value)) {
      if (are_equal(heap, Value::of(static_cast<std::int64_t>(row.size())), *given[0]))
        rows.push_back(heap.list(std::exchange(row, {})));
      row.push_back(item);
    }
    if (row.empty()) return;
    if (is_given(given[1])) {
      const auto missing =
          std::max<std::int64_t>(integer_argument(*given[0]) - static_cast<std::int64_t>(row.size()), 0);
      heap.charge_bytes(static_cast<std::size_t>(std::min(missing, std::int64_t{1} << 40U)) * sizeof(Value));
      row.insert(row.end(), static_cast<std::size_t>(missing), *given[1]);
    }
    rows.push_back(heap.list(std::move(row)));
  });
}

Value slice(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("slice", {"slices", "fill_with"}, 1);
  return generator(heap, [&](std::vector<Value>& columns) {
    const auto items = items_of(heap, value);
    const std::int64_t n = integer_argument(*given[0]);
    if (n == 0) throw Failure("division by zero");
    heap.charge_bytes(static_cast<std::size_t>(std::clamp<std::int64_t>(n, 0, std::int64_t{1} << 40U)) *
                      sizeof(Value));
    const std::int64_t size = static_cast<std::int64_t>(items.size()) / std::max<std::int64_t>(n, 1);
    const std::int64_t longer = static_cast<std::int64_t>(items.size()) % std::max<std::int64_t>(n, 1);
    auto at = items.begin();
    for (std::int64_t i = 0; i < n; ++i) {
      const auto end = at + static_cast<std::ptrdiff_t>(size + std::int64_t{i < longer});
      std::vector<Value> column(at, end);
      if (is_given(given[1]) && i >= longer) column.push_back(*given[1]);
      columns.push_back(heap.list(std::move(column)));
      at = end;
    }
  });
}

Value join(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("join", {"d", "attribute"});
  std::vector<Value> texts;
  for (const Value& item : items_of(heap, value))
    texts.push_back(text_of(heap, part_of(heap, item, given[1])));
  const Value separator = given[0] ? text_of(heap, *given[0]) : heap.string("");
  return call_text_method(heap, separator, "join", {{heap.list(std::move(texts))}, {}});
}

Value sum(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("sum", {"attribute", "start"});
  Value total = given[1].value_or(Value::of(std::int64_t{0}));
  if (total.is_string()) throw Failure("sum: strings cannot be summed, use join");
  for (const Value& item : items_of(heap, value))
    total = arithmetic(heap, "+", total, part_of(heap, item, given[0]));
  return total;
}

Value map(Heap& heap, const Value& value, const Arguments& arguments) {
  return generator(heap, [&](std::vector<Value>& items) {
    if (!is_true(value)) return;
    if (arguments.positional.empty()) {
      const Given given = arguments.bind("map", {"attribute", "default"});
      if (!given[0]) throw Failure("map: expected a filter's name or attribute=");
      for (const Value& item : items_of(heap, value))
        items.push_back(part_of(heap, item, given[0], given[1]));
      return;
    }
    const Arguments others{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
    const std::string& name = text_argument(arguments.positional[0]);
    for (const Value& item : items_of(heap, value)) items.push_back(call_filter(heap, name, item, others));
  });
}

Value select(Heap& heap, const Value& value, const Arguments& arguments, bool wanted, bool by_attribute) {
  return generator(heap, [&](std::vector<Value>& items) {
    if (!is_true(value)) return;
    auto rest = arguments.positional.begin();
    std::optional<Value> attribute;
    if (by_attribute) {
      if (rest == arguments.positional.end()) throw Failure("selectattr: expected an attribute's name");
      attribute = *rest++;
    }
    std::string test;
    if (rest != arguments.positional.end()) test = text_argument(*rest++);
    const Arguments others{{rest, arguments.positional.end()}, arguments.named};
    for (const Value& item : items_of(heap, value)) {
      const Value part = part_of(heap, item, attribute);
      if ((test.empty() ? is_true(part) : call_test(heap, test, part, others)) == wanted)
        items.push_back(item);
    }
  });
}

Value reverse(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("reverse", {});
  if (value.is_string())
    return slice_of(heap, value, Value::none(), Value::none(), Value::of(std::int64_t{-1}));
  const bool was_list = value.is(Kind::kIterator);  // what Python cannot walk backwards becomes a list
  auto items = items_of(heap, value);
  std::reverse(items.begin(), items.end());
  return heap.sequence(was_list ? Kind::kList : Kind::kIterator, std::move(items));
}

Value first(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("first", {});
  if (value.is(Kind::kIterator)) {
    auto& [items, name, next] = *value.sequence;
    if (next < items.size()) return items[next++];
    if (!name.empty()) throw Failure(name);
  } else if (value.is_string()) {
    const auto at = item_of(heap, value, Value::of(std::int64_t{0}));
    if (!at.is_undefined()) return at;
  } else {
    const auto items = items_of(heap, value);
    if (!items.empty()) return items[0];
  }
  return heap.undefined("no first item, the sequence was empty");
}

Value last(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("last", {});
  if (value.is(Kind::kIterator)) throw Failure("'generator' object is not reversible");
  if (value.is_string()) {
    const auto at = item_of(heap, value, Value::of(std::int64_t{-1}));
    if (!at.is_undefined()) return at;
  } else {
    const auto items = items_of(heap, value);
    if (!items.empty()) return items.back();
  }
  return heap.undefined("no last item, the sequence was empty");
}

Value items(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("items", {});
  return generator(heap, [&](std::vector<Value>& pairs) {
    if (value.is_undefined()) return;
    if (!value.is(Kind::kDict)) throw Failure("items: found " + type_name(value) + ", expected a dict");
    for (const auto& [key, item] : value.dict->entries) pairs.push_back(heap.tuple({key, item}));
  });
}

Value as_list(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("list", {});
  return heap.list(items_of(heap, value));
}

struct ListFilter {
  std::string_view name;
  Value (*call)(Heap&, const Value&, const Arguments&);
};

constexpr auto kListFilters = std::to_array<ListFilter>({
    {"batch", batch},
    {"dictsort", dictsort},
    {"first", first},
    {"groupby", groupby},
    {"items", items},
    {"join", join},
    {"last", last},
    {"list", as_list},
    {"map", map},
    {"max", [](auto& heap, auto& value, auto& args) { return least(heap, value, args, true); }},
    {"min", [](auto& heap, auto& value, auto& args) { return least(heap, value, args, false); }},
    {"reject", [](auto& heap, auto& value, auto& args) { return select(heap, value, args, false, false); }},
    {"rejectattr",
     [](auto& heap, auto& value, auto& args) { return select(heap, value, args, false, true); }},
    {"reverse", reverse},
    {"select", [](auto& heap, auto& value, auto& args) { return select(heap, value, args, true, false); }},
    {"selectattr", [](auto& heap, auto& value, auto& args) { return select(heap, value, args, true, true); }},
    {"slice", slice},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
});

}  // namespace

std::optional<Value> call_list_filter(Heap& heap, std::string_view name, const Value& value,
                                      const Arguments& arguments) {
  const auto* filter = std::find_if(kListFilters.begin(), kListFilters.end(),
                                    [&](const ListFilter& each) { return each.name == name; });
  return filter == kListFilters.end() ? std::nullopt : std::optional(filter->call(heap, value, arguments));
}

}  // namespace keyscope::jinja

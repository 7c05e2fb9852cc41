#pragma once

#include <cstddef>
#include <ctime>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "capture/jinja/value.hpp"

namespace keyscope::jinja {

// What Jinja's environment and Python's types give to templates. All throw Failure where Python raises.

// value.name as Jinja looks it up: a method, else an item of a dict or namespace; undefined where there is
// neither.
Value attribute_of(Heap& heap, const Value& value, std::string_view name);
// value[key]: an item, else a method.
Value item_of(Heap& heap, const Value& value, const Value& key);
// value[start:stop:step]; none where a bound is not given.
Value slice_of(Heap& heap, const Value& value, const Value& start, const Value& stop, const Value& step);

// A method of str; nullopt where there is none of that name.
std::optional<Value> text_method(Heap& heap, const Value& self, std::string_view name);
// The same, called; it must be there.
Value call_text_method(Heap& heap, const Value& self, std::string_view name, const Arguments& arguments = {});

Value call_filter(Heap& heap, std::string_view name, const Value& value, const Arguments& arguments);
// The same for filters of lists and dicts; nullopt where there is none of that name.
std::optional<Value> call_list_filter(Heap& heap, std::string_view name, const Value& value,
                                      const Arguments& arguments);
bool call_test(Heap& heap, std::string_view name, const Value& value, const Arguments& arguments);

//   now: what strftime_now tells
std::vector<std::pair<std::string_view, Value>> global_functions(Heap& heap, const std::tm& now);
void check_namespace_name(std::string_view name);

// --- texts

// str.strip of white space, or of any of `characters`, at one end or both.
std::string strip(Heap& heap, std::string_view text, const std::optional<Value>& characters, bool left,
                  bool right);
Value split(Heap& heap, const std::string& text, const Arguments& arguments, bool from_right);
Value partition(Heap& heap, const std::string& text, const Arguments& arguments, bool from_right);
std::string replace(Heap& heap, const std::string& text, const Arguments& arguments);

// Its text as a value; a string stays what it is.
Value text_of(Heap& heap, const Value& value);
// Charges for a search, whose worst case is the product of both lengths.
void charge_search(Heap& heap, std::string_view text, std::string_view part);
// Where `part` begins in text at or behind `from`; npos: nowhere.
std::size_t find_text(Heap& heap, std::string_view text, std::string_view part, std::size_t from);
// Python's str.splitlines.
std::vector<std::string> lines_of(std::string_view text);

// "%s: %d" % arguments
Value format_percent(Heap& heap, const Value& format, const Value& arguments);
// "{}: {name:>8}".format(…)
Value format_braces(Heap& heap, std::string_view format, const Arguments& arguments);
// The filter `tojson` as Transformers defines it: json.dumps, non-ASCII as it is.
Value to_json(Heap& heap, const Value& value, const Arguments& arguments);

// A variable as it is given.
//   throws Failure on an integer of more than 64 bits
Value from_json(Heap& heap, const nlohmann::ordered_json& json);
// About as many bytes as it takes then.
std::size_t json_bytes(const nlohmann::ordered_json& json);

// Its text, markup characters as entities, marked safe; one that is marked stays what it is.
Value escape(Heap& heap, const Value& value);
// Python's Markup goes on escaping in many operations; where that is not followed, it is refused.
void check_plain(std::initializer_list<Value> values);

// --- arguments

inline bool is_given(const std::optional<Value>& value) { return value && !value->is(Value::Kind::kNone); }
inline bool is_on(const std::optional<Value>& value) { return value && is_true(*value); }
std::int64_t integer_argument(const Value& value);
const std::string& text_argument(const Value& value);

}  // namespace keyscope::jinja

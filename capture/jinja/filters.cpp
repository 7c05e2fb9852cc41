// Jinja's filters and tests.

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <unicode/uchar.h>

#include "base/text.hpp"
#include "capture/jinja/builtins.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

namespace {

using Given = std::vector<std::optional<Value>>;

// --- filters of texts

// Jinja's own, not str.title: words begin behind white space and opening brackets.
Value title(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("title", {});
  const Value whole = text_of(heap, value);
  const std::string_view text = whole.text();
  const auto parts = [](std::string_view c) {
    std::size_t at = 0;
    return std::string_view("-({[<").find(c) != std::string_view::npos || is_space(next_code_point(c, at));
  };
  std::string result, word;
  const auto flush = [&] {
    if (word.empty()) return;
    std::size_t end = 0;
    next_code_point(word, end);
    result += call_text_method(heap, heap.string(word.substr(0, end)), "upper").text();
    result += call_text_method(heap, heap.string(word.substr(end)), "lower").text();
    word.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_code_point(text, at);
    const std::string_view c = text.substr(begin, at - begin);
    if (!parts(c)) {
      word += c;
      continue;
    }
    flush();
    result += c;
  }
  flush();
  return heap.string(std::move(result));
}

Value indent(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("indent", {"width", "first", "blank"});
  std::string margin(4, ' ');
  if (given[0] && given[0]->is_string())
    margin = given[0]->text();
  else if (given[0])
    margin = std::string(
        static_cast<std::size_t>(std::clamp<std::int64_t>(integer_argument(*given[0]), 0, 10'000)), ' ');
  const auto lines = lines_of(text_argument(value) + "\n");
  heap.charge_bytes(lines.size() * margin.size() + value.text().size());
  std::string text = is_on(given[1]) ? margin : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += '\n';
    if (i > 0 && (is_on(given[2]) || !lines[i].empty())) text += margin;
    text += lines[i];
  }
  return heap.string(std::move(text));
}

Value truncate(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("truncate", {"length", "killwords", "end", "leeway"});
  const std::int64_t length = given[0] ? integer_argument(*given[0]) : 255;
  const std::string end = given[2] ? text_argument(*given[2]) : "...";
  const std::int64_t leeway = is_given(given[3]) ? integer_argument(*given[3]) : 5;
  const auto n_end = static_cast<std::int64_t>(count_characters(end));
  if (length < n_end) throw Failure(fmt::format("truncate: expected a length of at least {}", n_end));
  if (leeway < 0) throw Failure("truncate: expected a leeway of at least 0");
  const auto n = static_cast<std::int64_t>(length_of(heap, value));
  if (n <= length || n - length <= leeway) return value;
  text_argument(value);
  std::string text = slice_of(heap, value, Value::none(), Value::of(length - n_end), Value::none()).text();
  if (!is_on(given[1])) text.resize(std::min(text.rfind(' '), text.size()));
  return heap.string(text + end);
}

Value wordcount(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("wordcount", {});
  const std::string text = to_text(heap, value);
  std::int64_t n = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = static_cast<UChar32>(next_code_point(text, at));
    const bool is_word =
        u_isalnum(c) != 0 || c == '_' || u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
    n += static_cast<std::int64_t>(is_word && !in_word);
    in_word = is_word;
  }
  return Value::of(n);
}

// --- filters of numbers

// A text as Python's int(…) and float(…) read it: without the white space around it, digits of any script as
// those of ASCII, and without the single "_" that parts digits. Empty: it is no number.
std::string number_text(Heap& heap, const Value& value) {
  const Value stripped = call_text_method(heap, value, "strip");
  std::string plain, text;
  for (std::size_t at = 0; at < stripped.text().size();) {
    const char32_t c = next_code_point(stripped.text(), at);
    const int digit = u_charDigitValue(static_cast<UChar32>(c));
    append_utf8(plain, digit < 0 ? c : static_cast<char32_t>('0' + digit));
  }
  const auto is_digit = [&](std::size_t at) {  // of some base
    return at < plain.size() && std::isalnum(static_cast<unsigned char>(plain[at])) != 0;
  };
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] != '_')
      text += plain[i];
    else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1))
      return {};
  }
  return text;
}

std::optional<double> read_real(Heap& heap, const Value& value) {
  if (value.is_number()) return value.as_real();
  if (value.is_undefined()) throw Failure(value.text());
  if (!value.is_string()) return std::nullopt;
  const std::string text = number_text(heap, value);
  const std::string word = lower_case(text.starts_with('-') || text.starts_with('+') ? text.substr(1) : text);
  if (word == "nan") return std::nan("");
  if (word == "inf" || word == "infinity") return text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != text.npos) return std::nullopt;
  char* end = nullptr;
  const double real = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() ? std::optional(real) : std::nullopt;
}

std::optional<std::int64_t> read_integer(Heap& heap, const Value& value, int base) {
  if (value.is_integer()) return value.as_integer();
  if (value.is_string()) {
    const std::string text = number_text(heap, value);
    char* end = nullptr;
    errno = 0;
    const long long n = std::strtoll(text.c_str(), &end, base);
    if (!text.empty() && end == text.c_str() + text.size()) {
      if (errno == ERANGE) throw Failure("an integer of more than 64 bits");
      return n;
    }
  }
  const auto real = read_real(heap, value);
  if (!real || !std::isfinite(*real)) return std::nullopt;
  if (std::fabs(*real) > 9.2e18) throw Failure("an integer of more than 64 bits");
  return static_cast<std::int64_t>(*real);
}

Value to_integer(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("int", {"default", "base"});
  const std::int64_t base = given[1] ? integer_argument(*given[1]) : 10;
  if (base != 0 && (base < 2 || base > 36)) throw Failure("int: expected a base of 0 or 2 to 36");
  const auto n = read_integer(heap, value, static_cast<int>(base));
  return n ? Value::of(*n) : given[0].value_or(Value::of(std::int64_t{0}));
}

Value to_real(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("float", {"default"});
  const auto real = read_real(heap, value);
  return real ? Value::of(*real) : given[0].value_or(Value::of(0.0));
}

Value round(Heap&, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("round", {"precision", "method"});
  if (value.is_undefined()) throw Failure(value.text());
  if (!value.is_number()) throw Failure("round: found " + type_name(value) + ", expected a number");
  const std::int64_t precision = given[0] ? integer_argument(*given[0]) : 0;
  const std::string method = given[1] ? text_argument(*given[1]) : "common";
  if (precision < -300 || precision > 300) throw Failure("round: expected a precision of -300 to 300");
  if (method == "common") {
    if (value.is_integer() && precision >= 0) return Value::of(value.as_integer());
    if (precision < 0) throw Failure("round: a negative precision is not supported");
    return Value::of(std::strtod(fmt::format("{:.{}f}", value.real, precision).c_str(), nullptr));
  }
  if (method != "ceil" && method != "floor") throw Failure("round: expected a method common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_real() * scale;
  return Value::of((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value absolute(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("abs", {});
  if (value.is(Kind::kFloat)) return Value::of(std::fabs(value.real));
  const std::int64_t n = integer_argument(value);
  return n < 0 ? arithmetic(heap, "-", Value::of(std::int64_t{0}), Value::of(n)) : Value::of(n);
}

// --- filters of anything

Value otherwise(Heap& heap, const Value& value, const Arguments& arguments) {
  const Given given = arguments.bind("default", {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (is_on(given[1]) && !is_true(value));
  return !missing ? value : given[0] ? *given[0] : heap.string("");
}

Value attribute(Heap& heap, const Value& value, const Arguments& arguments) {
  const std::string& name = text_argument(*arguments.bind("attr", {"name"}, 1)[0]);
  // Items are no attributes here: only methods are.
  if (value.is(Kind::kDict) && !attribute_of(heap, value, name).is(Kind::kFunction))
    return heap.undefined(fmt::format("'dict object' has no attribute '{}'", name));
  return attribute_of(heap, value, name);
}

Value format(Heap& heap, const Value& value, const Arguments& arguments) {
  if (!arguments.named.empty() && !arguments.positional.empty())
    throw Failure("format: found arguments with and without names, expected one kind");
  if (arguments.named.empty())
    return format_percent(heap, text_of(heap, value), heap.tuple(arguments.positional));
  const Value named = heap.dict();
  for (const auto& [name, argument] : arguments.named) set(heap, *named.dict, heap.string(name), argument);
  return format_percent(heap, text_of(heap, value), named);
}

Value length(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("length", {});
  return Value::of(static_cast<std::int64_t>(length_of(heap, value)));
}

Value text(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("string", {});
  return text_of(heap, value);
}

Value safe(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("safe", {});
  return heap.string(to_text(heap, value), true);
}

Value escaped(Heap& heap, const Value& value, const Arguments& arguments) {
  arguments.bind("escape", {});
  return escape(heap, value);
}

Value tojson(Heap& heap, const Value& value, const Arguments& arguments) {
  return to_json(heap, value, arguments);
}

struct NamedFilter {
  std::string_view name;
  Value (*call)(Heap&, const Value&, const Arguments&);
};

constexpr auto kFilters = std::to_array<NamedFilter>({
    {"abs", absolute},      {"attr", attribute},    {"count", length},        {"d", otherwise},
    {"default", otherwise}, {"e", escaped},         {"escape", escaped},      {"float", to_real},
    {"format", format},     {"indent", indent},     {"int", to_integer},      {"length", length},
    {"round", round},       {"safe", safe},         {"string", text},         {"title", title},
    {"tojson", tojson},     {"truncate", truncate}, {"wordcount", wordcount},
});

// Filters that are methods of str, for the text of any value.
std::optional<Value> call_text_filter(Heap& heap, std::string_view name, const Value& value,
                                      Arguments arguments) {
  if (name == "capitalize" || name == "lower" || name == "upper" || name == "trim")
    return call_text_method(heap, text_of(heap, value), name == "trim" ? "strip" : name, arguments);
  if (name == "center") {
    if (arguments.positional.empty() && arguments.named.empty())
      arguments.positional.push_back(Value::of(std::int64_t{80}));
    return call_text_method(heap, text_of(heap, value), "center", arguments);
  }
  if (name != "replace") return std::nullopt;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, arguments.positional.size()); ++i)
    arguments.positional[i] = text_of(heap, arguments.positional[i]);
  return call_text_method(heap, text_of(heap, value), "replace", arguments);
}

}  // namespace

Value escape(Heap& heap, const Value& value) {
  if (value.is_string() && value.string->is_safe) return value;
  std::string text;
  for (const char c : to_text(heap, value)) {
    constexpr std::string_view kMarkup = "&<>'\"";
    constexpr std::array<std::string_view, 5> kEntities{"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const auto at = kMarkup.find(c);
    at == kMarkup.npos ? text += c : text += kEntities[at];
  }
  return heap.string(std::move(text), true);
}

Value call_filter(Heap& heap, std::string_view name, const Value& value, const Arguments& arguments) {
  heap.charge_steps();
  const auto* filter = std::find_if(kFilters.begin(), kFilters.end(),
                                    [&](const NamedFilter& each) { return each.name == name; });
  if (filter != kFilters.end()) return filter->call(heap, value, arguments);
  if (const auto result = call_list_filter(heap, name, value, arguments)) return *result;
  if (const auto result = call_text_filter(heap, name, value, arguments)) return *result;
  throw Failure(fmt::format("the filter '{}' is not supported", name));
}

namespace {

using Test = bool (*)(Heap&, const Value&, const Value&);

struct NamedTest {
  std::string_view name;
  std::size_t n_arguments;
  Test call;
};

bool is_callable(const Value& value) {
  return value.is(Kind::kFunction) || value.is(Kind::kLoop) || value.is_undefined();
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is(Kind::kDict);
}

bool is_sequence(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is(Kind::kDict) ||
         (value.is_sequence() && !value.is(Kind::kIterator) && !value.is(Kind::kView));
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  if (a.is(Kind::kNone)) return true;
  return a.is(Kind::kBoolean) ? a.boolean == b.boolean : a.integer == b.integer;  // the same object
}

// Whether value % by is `rest`.
bool leaves(Heap& heap, const Value& value, const Value& by, std::int64_t rest) {
  return are_equal(heap, arithmetic(heap, "%", value, by), Value::of(rest));
}

bool leaves_of_two(Heap& heap, const Value& value, std::int64_t rest) {
  return leaves(heap, value, Value::of(std::int64_t{2}), rest);
}

constexpr Test kEqual = [](Heap& heap, const Value& a, const Value& b) { return are_equal(heap, a, b); };
constexpr Test kUnequal = [](Heap& heap, const Value& a, const Value& b) { return !are_equal(heap, a, b); };
constexpr Test kLess = [](Heap& heap, const Value& a, const Value& b) { return is_less(heap, a, b); };
constexpr Test kMore = [](Heap& heap, const Value& a, const Value& b) { return is_less(heap, b, a); };
constexpr Test kAtMost = [](Heap& heap, const Value& a, const Value& b) {
  return is_less(heap, a, b) || are_equal(heap, a, b);
};
constexpr Test kAtLeast = [](Heap& heap, const Value& a, const Value& b) {
  return is_less(heap, b, a) || are_equal(heap, a, b);
};

constexpr auto kTests = std::to_array<NamedTest>({
    {"boolean", 0, [](Heap&, const Value& a, const Value&) { return a.is(Kind::kBoolean); }},
    {"callable", 0, [](Heap&, const Value& a, const Value&) { return is_callable(a); }},
    {"defined", 0, [](Heap&, const Value& a, const Value&) { return !a.is_undefined(); }},
    {"divisibleby", 1, [](Heap& heap, const Value& a, const Value& b) { return leaves(heap, a, b, 0); }},
    {"even", 0, [](Heap& heap, const Value& a, const Value&) { return leaves_of_two(heap, a, 0); }},
    {"odd", 0, [](Heap& heap, const Value& a, const Value&) { return leaves_of_two(heap, a, 1); }},
    {"escaped", 0, [](Heap&, const Value& a, const Value&) { return a.is_string() && a.string->is_safe; }},
    {"false", 0, [](Heap&, const Value& a, const Value&) { return a.is(Kind::kBoolean) && !a.boolean; }},
    {"true", 0, [](Heap&, const Value& a, const Value&) { return a.is(Kind::kBoolean) && a.boolean; }},
    {"float", 0, [](Heap&, const Value& a, const Value&) { return a.is(Kind::kFloat); }},
    {"integer", 0, [](Heap&, const Value& a, const Value&) { return a.is(Kind::kInteger); }},
    {"number", 0, [](Heap&, const Value& a, const Value&) { return a.is_number(); }},
    {"in", 1, [](Heap& heap, const Value& a, const Value& b) { return contains(heap, b, a); }},
    {"iterable", 0, [](Heap&, const Value& a, const Value&) { return is_iterable(a); }},
    {"sequence", 0, [](Heap&, const Value& a, const Value&) { return is_sequence(a); }},
    {"mapping", 0, [](Heap&, const Value& a, const Value&) { return a.is(Kind::kDict); }},
    {"none", 0, [](Heap&, const Value& a, const Value&) { return a.is(Kind::kNone); }},
    {"sameas", 1, [](Heap&, const Value& a, const Value& b) { return is_same(a, b); }},
    {"string", 0, [](Heap&, const Value& a, const Value&) { return a.is_string(); }},
    {"undefined", 0, [](Heap&, const Value& a, const Value&) { return a.is_undefined(); }},
    {"lower", 0,
     [](Heap& heap, const Value& a,
        const Value&) { return is_true(call_text_method(heap, text_of(heap, a), "islower")); }},
    {"upper", 0,
     [](Heap& heap, const Value& a,
        const Value&) { return is_true(call_text_method(heap, text_of(heap, a), "isupper")); }},
    {"==", 1, kEqual},
    {"eq", 1, kEqual},
    {"equalto", 1, kEqual},
    {"!=", 1, kUnequal},
    {"ne", 1, kUnequal},
    {"<", 1, kLess},
    {"lt", 1, kLess},
    {"lessthan", 1, kLess},
    {"<=", 1, kAtMost},
    {"le", 1, kAtMost},
    {">", 1, kMore},
    {"gt", 1, kMore},
    {"greaterthan", 1, kMore},
    {">=", 1, kAtLeast},
    {"ge", 1, kAtLeast},
});

}  // namespace

bool call_test(Heap& heap, std::string_view name, const Value& value, const Arguments& arguments) {
  heap.charge_steps();
  const auto* test =
      std::find_if(kTests.begin(), kTests.end(), [&](const NamedTest& each) { return each.name == name; });
  if (test == kTests.end()) throw Failure(fmt::format("the test '{}' is not supported", name));
  if (!arguments.named.empty() || arguments.positional.size() != test->n_arguments)
    throw Failure(fmt::format("the test '{}' takes {}", name,
                              counted(static_cast<std::int64_t>(test->n_arguments), "argument")));
  return test->call(heap, value, arguments.positional.empty() ? Value::none() : arguments.positional[0]);
}

}  // namespace keyscope::jinja

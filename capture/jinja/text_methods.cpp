// The methods of Python's str, as far as Jinja's sandbox lets templates call them.

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>
#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "base/text.hpp"
#include "capture/jinja/builtins.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

std::int64_t integer_argument(const Value& value) {
  if (!value.is_integer()) throw Failure(fmt::format("found {}, expected an integer", type_name(value)));
  return value.as_integer();
}

const std::string& text_argument(const Value& value) {
  if (value.is_undefined()) throw Failure(value.text());
  if (!value.is_string()) throw Failure(fmt::format("found {}, expected a string", type_name(value)));
  check_plain({value});
  return value.text();
}

void check_plain(std::initializer_list<Value> values) {
  for (const Value& value : values)
    if (value.is_string() && value.string->is_safe)
      throw Failure("this is not supported for a text marked by `safe` or `escape`");
}

void charge_search(Heap& heap, std::string_view text, std::string_view part) {
  heap.charge_steps(text.size() / 64 * (1 + part.size() / 64));
}

std::size_t find_text(Heap& heap, std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  charge_search(heap, text.substr(from), part);
  return text.find(part, from);
}

namespace {

std::string utf8(const icu::UnicodeString& text) {
  std::string result;
  text.toUTF8String(result);
  return result;
}

std::string upper(const std::string& text) {
  return utf8(icu::UnicodeString::fromUTF8(text).toUpper(icu::Locale::getRoot()));
}
std::string lower(const std::string& text) {
  return utf8(icu::UnicodeString::fromUTF8(text).toLower(icu::Locale::getRoot()));
}
std::string fold(const std::string& text) { return utf8(icu::UnicodeString::fromUTF8(text).foldCase()); }

// The first character in title case, the others small.
std::string capitalize(const std::string& text) {
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode error = U_ZERO_ERROR;
  icu::CaseMap::utf8ToTitle("", U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT, nullptr, text,
                            sink, nullptr, error);
  return U_SUCCESS(error) ? result : text;
}

bool is_cased(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED) != 0; }

// Every word's first letter in title case; a word is a row of cased letters.
std::string title(const std::string& text) {
  std::string result, word;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const bool cased = is_cased(next_code_point(text, at));
    const std::string_view character = std::string_view(text).substr(begin, at - begin);
    if (cased) {
      word += character;
      continue;
    }
    result.append(capitalize(word)).append(character);
    word.clear();
  }
  return result + capitalize(word);
}

std::string swap_case(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const auto c = static_cast<UChar32>(next_code_point(text, at));
    const std::string character = text.substr(begin, at - begin);
    result += u_isUUppercase(c) != 0   ? lower(character)
              : u_isULowercase(c) != 0 ? upper(character)
                                       : character;
  }
  return result;
}

// --- asking about every character

template <typename Predicate>
bool all_characters(std::string_view text, Predicate predicate) {
  for (std::size_t at = 0; at < text.size();)
    if (!predicate(static_cast<UChar32>(next_code_point(text, at)))) return false;
  return !text.empty();
}

int numeric_type(UChar32 c) { return u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE); }
bool is_white(UChar32 c) { return is_space(static_cast<char32_t>(c)); }
bool is_alpha(UChar32 c) { return u_isalpha(c) != 0; }
bool is_decimal(UChar32 c) { return numeric_type(c) == U_NT_DECIMAL; }
bool is_digit(UChar32 c) { return is_decimal(c) || numeric_type(c) == U_NT_DIGIT; }
bool is_numeric(UChar32 c) { return numeric_type(c) != U_NT_NONE; }
bool is_alphanumeric(UChar32 c) { return is_alpha(c) || is_numeric(c); }

// Whether there are cased letters, and all of them are of one case.
bool all_cased(std::string_view text, UBool (*is_right)(UChar32), UBool (*is_wrong)(UChar32)) {
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = static_cast<UChar32>(next_code_point(text, at));
    if (is_wrong(c) != 0 || u_charType(c) == U_TITLECASE_LETTER) return false;
    any = any || is_right(c) != 0;
  }
  return any;
}

// --- finding

struct Span {
  std::size_t begin, end;
};

// text[start:end] in bytes, bounds in characters as Python's slices take them.
Span bounds_of(std::string_view text, const std::optional<Value>& start, const std::optional<Value>& end) {
  if ((!start || start->is(Kind::kNone)) && (!end || end->is(Kind::kNone))) return {0, text.size()};
  const auto n = static_cast<std::int64_t>(count_characters(text));
  const auto place = [&](const std::optional<Value>& bound, std::int64_t otherwise) {
    std::int64_t at = bound && !bound->is(Kind::kNone) ? integer_argument(*bound) : otherwise;
    if (at < 0) at = std::max<std::int64_t>(at + n, 0);
    return at;
  };
  const std::int64_t first = place(start, 0), last = std::min(place(end, n), n);
  Span span{text.size() + 1, text.size() + 1};  // behind the text: finds not even nothing
  if (first > n) return span;
  std::int64_t i = 0;
  for (std::size_t at = 0;; ++i) {
    if (i == first) span.begin = at;
    if (i == last) span.end = at;
    if (at >= text.size()) break;
    next_code_point(text, at);
  }
  if (last < first) return {text.size() + 1, text.size() + 1};
  return span;
}

std::optional<std::int64_t> find_character(Heap& heap, const std::string& text, const Arguments& arguments,
                                           bool from_right) {
  const auto given = arguments.bind("find", {"sub", "start", "end"}, 1);
  const std::string& part = text_argument(*given[0]);
  const auto [begin, end] = bounds_of(text, given[1], given[2]);
  if (begin > text.size()) return std::nullopt;
  const std::string_view within = std::string_view(text).substr(begin, end - begin);
  charge_search(heap, within, part);
  const auto at = from_right ? within.rfind(part) : within.find(part);
  if (at == within.npos) return std::nullopt;
  return static_cast<std::int64_t>(count_characters(std::string_view(text).substr(0, begin + at)));
}

std::int64_t count_parts(Heap& heap, const std::string& text, const Arguments& arguments) {
  const auto given = arguments.bind("count", {"sub", "start", "end"}, 1);
  const std::string& part = text_argument(*given[0]);
  const auto [begin, end] = bounds_of(text, given[1], given[2]);
  if (begin > text.size()) return 0;
  const std::string_view within = std::string_view(text).substr(begin, end - begin);
  if (part.empty()) return static_cast<std::int64_t>(count_characters(within)) + 1;
  charge_search(heap, within, part);
  std::int64_t n = 0;
  for (auto at = within.find(part); at != within.npos; at = within.find(part, at + part.size())) ++n;
  return n;
}

bool starts_or_ends(const std::string& text, const Arguments& arguments, bool at_end) {
  const auto given = arguments.bind(at_end ? "endswith" : "startswith", {"prefix", "start", "end"}, 1);
  const auto [begin, end] = bounds_of(text, given[1], given[2]);
  if (begin > text.size()) return false;
  const std::string_view within = std::string_view(text).substr(begin, end - begin);
  const auto fits = [&](const Value& part) {
    return at_end ? within.ends_with(text_argument(part)) : within.starts_with(text_argument(part));
  };
  if (!given[0]->is(Kind::kTuple)) return fits(*given[0]);
  const auto& parts = given[0]->sequence->items;
  return std::any_of(parts.begin(), parts.end(), fits);
}

// --- filling up

std::string justify(Heap& heap, const std::string& text, std::string_view name, const Arguments& arguments) {
  const auto given = arguments.bind(name, {"width", "fillchar"}, 1);
  const std::int64_t width = integer_argument(*given[0]);
  const std::string fill = given[1] ? text_argument(*given[1]) : " ";
  if (count_characters(fill) != 1) throw Failure("the fill character must be exactly one character long");
  const auto n = static_cast<std::int64_t>(count_characters(text));
  if (width <= n) return text;
  const std::int64_t gap = width - n;
  heap.charge_bytes(static_cast<std::size_t>(std::min<std::int64_t>(gap, std::int64_t{1} << 40U)) *
                    fill.size());
  // Python's centre: what is left over goes to the left where width is odd.
  std::int64_t left = gap / 2 + (gap & width & 1);
  if (name == "ljust") left = 0;
  if (name == "rjust") left = gap;
  std::string result;
  for (std::int64_t i = 0; i < left; ++i) result += fill;
  result += text;
  for (std::int64_t i = left; i < gap; ++i) result += fill;
  return result;
}

std::string fill_zeros(Heap& heap, const std::string& text, const Arguments& arguments) {
  const auto given = arguments.bind("zfill", {"width"}, 1);
  const std::int64_t gap = integer_argument(*given[0]) - static_cast<std::int64_t>(count_characters(text));
  if (gap <= 0) return text;
  heap.charge_bytes(static_cast<std::size_t>(std::min<std::int64_t>(gap, std::int64_t{1} << 40U)));
  const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  return text.substr(0, sign ? 1 : 0) + std::string(static_cast<std::size_t>(gap), '0') +
         text.substr(sign ? 1 : 0);
}

std::string join(Heap& heap, const std::string& separator, const Arguments& arguments) {
  const auto given = arguments.bind("join", {"iterable"}, 1);
  std::string result;
  bool first = true;
  for (const Value& item : items_of(heap, *given[0])) {
    heap.charge_bytes(separator.size() + text_argument(item).size());
    if (!std::exchange(first, false)) result += separator;
    result += item.text();
  }
  return result;
}

using TextMethod = Value (*)(Heap&, const std::string&, const Arguments&);

template <std::string (*change)(const std::string&)>
Value changed(Heap& heap, const std::string& text, const Arguments& arguments) {
  arguments.bind("a method", {});
  heap.charge_steps(text.size() / 8);
  return heap.string(change(text));
}

template <bool (*predicate)(UChar32)>
Value asked(Heap& heap, const std::string& text, const Arguments& arguments) {
  arguments.bind("a method", {});
  heap.charge_steps(text.size() / 16);
  return Value::of(all_characters(text, predicate));
}

Value stripped(Heap& heap, const std::string& text, const Arguments& arguments, bool left, bool right) {
  return heap.string(strip(heap, text, arguments.bind("strip", {"chars"})[0], left, right));
}

Value without_affix(Heap& heap, const std::string& text, const Arguments& arguments, bool at_end) {
  const std::string& affix = text_argument(*arguments.bind("removeprefix", {"affix"}, 1)[0]);
  if (at_end && text.ends_with(affix)) return heap.string(text.substr(0, text.size() - affix.size()));
  if (!at_end && text.starts_with(affix)) return heap.string(text.substr(affix.size()));
  return heap.string(text);
}

Value found(const std::optional<std::int64_t>& place, bool must_be_there) {
  if (!place && must_be_there) throw Failure("substring not found");
  return Value::of(place.value_or(-1));
}

Value split_lines(Heap& heap, const std::string& text, const Arguments& arguments) {
  const auto given = arguments.bind("splitlines", {"keepends"});
  if (given[0] && is_true(*given[0])) throw Failure("splitlines(keepends=True) is not supported");
  std::vector<Value> lines;
  for (std::string& line : lines_of(text)) lines.push_back(heap.string(std::move(line)));
  return heap.list(std::move(lines));
}

struct NamedMethod {
  std::string_view name;
  TextMethod call;
};

constexpr auto kTextMethods = std::to_array<NamedMethod>({
    {"capitalize", changed<capitalize>},
    {"casefold", changed<fold>},
    {"center",
     [](auto& heap, auto& text, auto& args) { return heap.string(justify(heap, text, "center", args)); }},
    {"count", [](auto& heap, auto& text, auto& args) { return Value::of(count_parts(heap, text, args)); }},
    {"endswith", [](auto&, auto& text, auto& args) { return Value::of(starts_or_ends(text, args, true)); }},
    {"find", [](auto& heap, auto& text,
                auto& args) { return found(find_character(heap, text, args, false), false); }},
    {"format", [](auto& heap, auto& text, auto& args) { return format_braces(heap, text, args); }},
    {"index",
     [](auto& heap, auto& text, auto& args) { return found(find_character(heap, text, args, false), true); }},
    {"isalnum", asked<is_alphanumeric>},
    {"isalpha", asked<is_alpha>},
    {"isascii",
     [](auto&, auto& text, auto&) {
       return Value::of(
           std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; }));
     }},
    {"isdecimal", asked<is_decimal>},
    {"isdigit", asked<is_digit>},
    {"islower",
     [](auto&, auto& text, auto&) { return Value::of(all_cased(text, u_isULowercase, u_isUUppercase)); }},
    {"isnumeric", asked<is_numeric>},
    {"isspace", asked<is_white>},
    {"isupper",
     [](auto&, auto& text, auto&) { return Value::of(all_cased(text, u_isUUppercase, u_isULowercase)); }},
    {"join", [](auto& heap, auto& text, auto& args) { return heap.string(join(heap, text, args)); }},
    {"ljust",
     [](auto& heap, auto& text, auto& args) { return heap.string(justify(heap, text, "ljust", args)); }},
    {"lower", changed<lower>},
    {"lstrip", [](auto& heap, auto& text, auto& args) { return stripped(heap, text, args, true, false); }},
    {"partition", [](auto& heap, auto& text, auto& args) { return partition(heap, text, args, false); }},
    {"removeprefix",
     [](auto& heap, auto& text, auto& args) { return without_affix(heap, text, args, false); }},
    {"removesuffix",
     [](auto& heap, auto& text, auto& args) { return without_affix(heap, text, args, true); }},
    {"replace", [](auto& heap, auto& text, auto& args) { return heap.string(replace(heap, text, args)); }},
    {"rfind",
     [](auto& heap, auto& text, auto& args) { return found(find_character(heap, text, args, true), false); }},
    {"rindex",
     [](auto& heap, auto& text, auto& args) { return found(find_character(heap, text, args, true), true); }},
    {"rjust",
     [](auto& heap, auto& text, auto& args) { return heap.string(justify(heap, text, "rjust", args)); }},
    {"rpartition", [](auto& heap, auto& text, auto& args) { return partition(heap, text, args, true); }},
    {"rsplit", [](auto& heap, auto& text, auto& args) { return split(heap, text, args, true); }},
    {"rstrip", [](auto& heap, auto& text, auto& args) { return stripped(heap, text, args, false, true); }},
    {"split", [](auto& heap, auto& text, auto& args) { return split(heap, text, args, false); }},
    {"splitlines", split_lines},
    {"startswith",
     [](auto&, auto& text, auto& args) { return Value::of(starts_or_ends(text, args, false)); }},
    {"strip", [](auto& heap, auto& text, auto& args) { return stripped(heap, text, args, true, true); }},
    {"swapcase", changed<swap_case>},
    {"title", changed<title>},
    {"upper", changed<upper>},
    {"zfill", [](auto& heap, auto& text, auto& args) { return heap.string(fill_zeros(heap, text, args)); }},
});

}  // namespace

std::optional<Value> text_method(Heap& heap, const Value& self, std::string_view name) {
  const auto* method = std::find_if(kTextMethods.begin(), kTextMethods.end(),
                                    [&](const NamedMethod& each) { return each.name == name; });
  if (method == kTextMethods.end()) return std::nullopt;
  return heap.function(std::string(name), [&heap, self, method](const Arguments& arguments) {
    const Value result = method->call(heap, self.text(), arguments);
    if (!self.string->is_safe || result.is_number()) return result;
    static constexpr auto kStaySafe = std::to_array<std::string_view>(
        {"capitalize", "casefold", "lower", "lstrip", "rstrip", "strip", "swapcase", "title", "upper"});
    if (std::find(kStaySafe.begin(), kStaySafe.end(), method->name) == kStaySafe.end()) check_plain({self});
    return heap.string(result.text(), true);
  });
}

Value call_text_method(Heap& heap, const Value& self, std::string_view name, const Arguments& arguments) {
  return text_method(heap, self, name)->function->call(arguments);
}

Value text_of(Heap& heap, const Value& value) {
  return value.is_string() ? value : heap.string(to_text(heap, value));
}

}  // namespace keyscope::jinja

// Values as text: Python's str() and repr().

#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <unicode/uchar.h>

#include "base/text.hpp"
#include "capture/jinja/value.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  const auto end =
      std::to_chars(std::begin(digits), std::end(digits), value, std::chars_format::scientific).ptr;
  const std::string_view scientific(digits, static_cast<std::size_t>(end - digits));
  const auto e = scientific.find('e');
  int exponent = 0;
  std::from_chars(digits + e + 1 + (scientific[e + 1] == '+' ? 1 : 0), end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed = std::to_chars(std::begin(digits), std::end(digits), value, std::chars_format::fixed).ptr;
  std::string text(digits, fixed);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

namespace {

bool is_printable(char32_t c) {
  switch (u_charType(static_cast<UChar32>(c))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_SURROGATE:
    case U_PRIVATE_USE_CHAR:
    case U_UNASSIGNED:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
      return false;
    case U_SPACE_SEPARATOR:
      return c == ' ';
    default:
      return true;
  }
}

std::string repr_of(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos;
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  std::string result(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\')
      result.append(1, '\\').append(1, static_cast<char>(c));
    else if (c == '\n' || c == '\r' || c == '\t')
      result.append(1, '\\').append(1, c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (is_printable(c))
      result.append(text.substr(begin, at - begin));
    else if (c < 0x100)
      result += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else
      result += c < 0x10000 ? fmt::format("\\u{:04x}", static_cast<unsigned>(c))
                            : fmt::format("\\U{:08x}", static_cast<unsigned>(c));
  }
  return result + quote;
}

void append_repr(Heap& heap, const Value& value, int depth, std::string& text);

void append_items(Heap& heap, const Sequence& sequence, const char* brackets, int depth, std::string& text) {
  text += brackets[0];
  for (std::size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) text += ", ";
    append_repr(heap, sequence.items[i], depth + 1, text);
  }
  text += brackets[1];
}

void append_dict(Heap& heap, const Dict& dict, int depth, std::string& text) {
  const char* separator = "{";
  if (dict.entries.empty()) text += separator;
  for (const auto& [key, value] : dict.entries) {
    text += std::exchange(separator, ", ");
    append_repr(heap, key, depth + 1, text);
    text += ": ";
    append_repr(heap, value, depth + 1, text);
  }
  text += '}';
}

void append_tuple(Heap& heap, const Sequence& tuple, int depth, std::string& text) {
  append_items(heap, tuple, "()", depth, text);
  if (tuple.items.size() == 1) text.insert(text.size() - 1, 1, ',');
}

void append_repr(Heap& heap, const Value& value, int depth, std::string& text) {
  check_depth(depth);
  const std::size_t before = text.size();
  switch (value.kind) {
    case Kind::kUndefined:
      text += "Undefined";
      break;
    case Kind::kNone:
      text += "None";
      break;
    case Kind::kBoolean:
      text += value.boolean ? "True" : "False";
      break;
    case Kind::kInteger:
      text += std::to_string(value.integer);
      break;
    case Kind::kFloat:
      text += real_text(value.real);
      break;
    case Kind::kString:
      text +=
          value.string->is_safe ? fmt::format("Markup({})", repr_of(value.text())) : repr_of(value.text());
      break;
    case Kind::kList:
      append_items(heap, *value.sequence, "[]", depth, text);
      break;
    case Kind::kTuple:
      append_tuple(heap, *value.sequence, depth, text);
      break;
    case Kind::kRange:
      text += value.sequence->name;
      break;
    case Kind::kView:
      text += value.sequence->name + "(";
      append_items(heap, *value.sequence, "[]", depth, text);
      text += ')';
      break;
    case Kind::kDict:
      append_dict(heap, *value.dict, depth, text);
      break;
    case Kind::kNamespace:
      text += "<Namespace ";
      append_dict(heap, *value.dict, depth, text);
      text += '>';
      break;
    default:
      throw Failure(fmt::format("the text of a {} is not supported", type_name(value)));
  }
  if (!value.is_sequence() && !value.is(Kind::kDict)) heap.charge_bytes(text.size() - before);
  heap.charge_steps();
}

}  // namespace

std::string to_repr(Heap& heap, const Value& value) {
  std::string text;
  append_repr(heap, value, 0, text);
  return text;
}

std::string to_text(Heap& heap, const Value& value) {
  if (value.is_undefined()) return "";
  if (!value.is_string()) return to_repr(heap, value);
  heap.charge_steps(value.text().size() / 64);
  return value.text();
}

}  // namespace keyscope::jinja

// Texts made of values: "%s" % … and "{}".format(…).

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/jinja/builtins.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

namespace {

constexpr std::int64_t kWidest = 1'000'000;

// What both kinds of formatting know: [[fill]align][sign][#][0][width][,][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =; 0: as the type has it
  char sign = '-';
  bool alternate = false, thousands = false;
  std::int64_t width = 0;
  std::optional<int> precision;
  char type = 0;
};

std::string with_thousands(std::string digits) {
  const auto end = std::min(digits.find('.'), digits.size());
  for (auto at = static_cast<std::ptrdiff_t>(end) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string padded(Heap& heap, const Spec& spec, const std::string& sign, const std::string& body,
                   char align) {
  const auto n = static_cast<std::int64_t>(count_characters(sign) + count_characters(body));
  const std::int64_t gap = std::max<std::int64_t>(spec.width - n, 0);
  heap.charge_bytes(static_cast<std::size_t>(gap) * spec.fill.size());
  const auto fill = [&](std::int64_t times) {
    std::string text;
    for (std::int64_t i = 0; i < times; ++i) text += spec.fill;
    return text;
  };
  switch (align) {
    case '<':
      return sign + body + fill(gap);
    case '^':
      return fill(gap / 2) + sign + body + fill(gap - gap / 2);
    case '=':
      return sign + fill(gap) + body;
    default:
      return fill(gap) + sign + body;
  }
}

std::string sign_of(bool negative, const Spec& spec) {
  return negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string integer_text(Heap& heap, const Value& value, const Spec& spec) {
  const std::int64_t n = value.as_integer();
  const std::uint64_t size = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
  std::string digits;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", size);
      break;
    case 'X':
      digits = fmt::format("{:X}", size);
      break;
    case 'o':
      digits = fmt::format("{:o}", size);
      break;
    case 'b':
      digits = fmt::format("{:b}", size);
      break;
    default:
      digits = std::to_string(size);
  }
  std::string sign = sign_of(n < 0, spec);
  if (spec.alternate && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b'))
    sign.append(1, '0').append(1, spec.type);
  if (spec.thousands) digits = with_thousands(digits);
  return padded(heap, spec, sign, digits, spec.align != 0 ? spec.align : '>');
}

std::string float_text(Heap& heap, double value, const Spec& spec) {
  const double size = std::fabs(value);
  const int precision = std::min(spec.precision.value_or(6), 1000);
  std::string digits;
  switch (spec.type) {
    case 'f':
    case 'F':
      digits = fmt::format("{:.{}f}", size, precision);
      break;
    case 'e':
    case 'E':
      digits = fmt::format("{:.{}e}", size, precision);
      break;
    case '%':
      digits = fmt::format("{:.{}f}%", size * 100, precision);
      break;
    case 'g':
    case 'G':
      digits = fmt::format("{:.{}g}", size, precision);
      break;
    default:
      digits = spec.precision ? fmt::format("{:.{}g}", size, std::max(precision, 1)) : real_text(size);
  }
  if (spec.thousands) digits = with_thousands(digits);
  return padded(heap, spec, sign_of(std::signbit(value), spec), digits, spec.align != 0 ? spec.align : '>');
}

std::string text_text(Heap& heap, std::string text, const Spec& spec, char align) {
  if (spec.precision) {
    std::size_t at = 0;
    for (int i = 0; i < *spec.precision && at < text.size(); ++i) next_code_point(text, at);
    text.resize(at);
  }
  return padded(heap, spec, "", text, align);
}

// Reads a number; nullopt where there is none.
std::optional<std::int64_t> read_number(std::string_view text, std::size_t& at) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), n);
  if (error != std::errc() || text[at] == '-') return std::nullopt;
  at = static_cast<std::size_t>(end - text.data());
  if (n > kWidest) throw Failure(fmt::format("a width of {} is not supported", n));
  return n;
}

// --- "…" % …

class PercentFormat {
 public:
  PercentFormat(Heap& heap, std::string_view format, const Value& arguments)
      : heap_(heap), format_(format), arguments_(arguments) {}

  std::string run() {
    while (at_ < format_.size()) {
      const char c = format_[at_++];
      if (c != '%') {
        result_ += c;
      } else if (peek() == '%') {
        ++at_;
        result_ += '%';
      } else {
        convert();
      }
    }
    // What can be looked into may be passed in vain.
    const bool takes_all = arguments_.is(Kind::kTuple)
                               ? next_ == arguments_.sequence->items.size()
                               : next_ == 1 || arguments_.is(Kind::kDict) || arguments_.is(Kind::kList) ||
                                     arguments_.is(Kind::kRange) || arguments_.is_undefined();
    if (!takes_all) throw Failure("not all arguments converted during string formatting");
    return std::move(result_);
  }

 private:
  char peek() const { return at_ < format_.size() ? format_[at_] : '\0'; }

  Value argument() {
    if (!arguments_.is(Kind::kTuple) && next_ == 0) return ++next_, arguments_;
    if (!arguments_.is(Kind::kTuple) || next_ >= arguments_.sequence->items.size())
      throw Failure("not enough arguments for format string");
    return arguments_.sequence->items[next_++];
  }

  Value named() {
    const auto close = format_.find(')', at_);
    if (close == format_.npos) throw Failure("incomplete format key");
    const std::string name(format_.substr(at_ + 1, close - at_ - 1));
    at_ = close + 1;
    if (!arguments_.is(Kind::kDict)) throw Failure("format requires a mapping");
    const Value* value = find(heap_, *arguments_.dict, heap_.string(name));
    if (value == nullptr) throw Failure("format: there is no key '" + name + "'");
    return *value;
  }

  void convert() {
    Spec spec;
    std::optional<Value> value;
    if (peek() == '(') value = named();
    bool left = false, zeros = false;
    for (;; ++at_) {
      if (peek() == '-')
        left = true;
      else if (peek() == '0')
        zeros = true;
      else if (peek() == '+' || (peek() == ' ' && spec.sign != '+'))
        spec.sign = peek();
      else if (peek() == '#')
        spec.alternate = true;
      else if (peek() != ' ')
        break;
    }
    if (peek() == '*') throw Failure("a width of * is not supported");
    spec.width = read_number(format_, at_).value_or(0);
    if (peek() == '.') spec.precision = static_cast<int>(read_number(format_, ++at_).value_or(0));
    if (at_ >= format_.size()) throw Failure("incomplete format");
    spec.type = format_[at_++];
    if (!value) value = argument();
    spec.align = left ? '<' : '>';
    append(*value, spec, zeros && !left);
  }

  void append(const Value& value, Spec spec, bool zeros) {
    const auto number = [&] {
      if (!value.is_number())
        throw Failure(fmt::format("%{} format: a number is required, not {}", spec.type, type_name(value)));
      if (zeros) {
        spec.fill = "0";
        spec.align = '=';
      }
    };
    switch (spec.type) {
      case 's':
      case 'r':
        result_ += text_text(heap_, spec.type == 's' ? to_text(heap_, value) : to_repr(heap_, value), spec,
                             spec.align);
        return;
      case 'd':
      case 'i':
      case 'u':
        number();
        result_ += integer_text(heap_, value.is(Kind::kFloat) ? truncated(value.real) : value, spec);
        return;
      case 'x':
      case 'X':
      case 'o':
        number();
        result_ += integer_text(heap_, Value::of(integer_argument(value)), spec);
        return;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        number();
        result_ += float_text(heap_, value.as_real(), spec);
        return;
      default:
        throw Failure(fmt::format("%{} is not supported", spec.type));
    }
  }

  static Value truncated(double value) {
    if (!(std::fabs(value) < 9.2e18)) throw Failure("an integer of more than 64 bits");
    return Value::of(static_cast<std::int64_t>(value));
  }

  Heap& heap_;
  std::string_view format_;
  Value arguments_;
  std::string result_;
  std::size_t at_ = 0, next_ = 0;
};

// --- "…".format(…)

Spec read_spec(std::string_view text) {
  Spec spec;
  std::size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  std::size_t fill_end = 0;
  if (!text.empty()) next_code_point(text, fill_end);
  if (fill_end > 0 && fill_end < text.size() && is_align(text[fill_end])) {
    spec.fill = text.substr(0, fill_end);
    spec.align = text[fill_end];
    at = fill_end + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[at++];
  }
  const auto take = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != any.npos ? text[at++] : '\0';
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != 0;
  if (take("0") != 0 && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = read_number(text, at).value_or(0);
  spec.thousands = take(",") != 0;
  if (take(".") != 0) spec.precision = static_cast<int>(read_number(text, at).value_or(0));
  spec.type = take("sdbxXofFeEgG%");
  if (at != text.size()) throw Failure(fmt::format("the format '{}' is not supported", text));
  return spec;
}

std::string formatted(Heap& heap, const Value& value, std::string_view text) {
  if (text.empty()) return to_text(heap, value);
  const Spec spec = read_spec(text);
  const bool real_type =
      spec.type != 0 && std::string_view("fFeEgG%").find(spec.type) != std::string_view::npos;
  if (value.is_string() && (spec.type == 0 || spec.type == 's'))
    return text_text(heap, value.text(), spec, spec.align != 0 && spec.align != '=' ? spec.align : '<');
  if (value.is(Kind::kFloat) || (value.is_integer() && real_type))
    return float_text(heap, value.as_real(), spec);
  if (value.is_integer() && spec.type != 's') return integer_text(heap, value, spec);
  throw Failure(fmt::format("the format '{}' does not go with {}", text, type_name(value)));
}

class BraceFormat {
 public:
  BraceFormat(Heap& heap, std::string_view format, const Arguments& arguments)
      : heap_(heap), format_(format), arguments_(arguments) {}

  std::string run() {
    std::string result;
    for (std::size_t at = 0; at < format_.size();) {
      const char c = format_[at++];
      if ((c == '{' || c == '}') && at < format_.size() && format_[at] == c) {
        result += c;
        ++at;
      } else if (c == '{') {
        const auto close = format_.find('}', at);
        if (close == format_.npos) throw Failure("expected '}' before end of string");
        result += field(format_.substr(at, close - at));
        at = close + 1;
      } else if (c == '}') {
        throw Failure("single '}' encountered in format string");
      } else {
        result += c;
      }
    }
    return result;
  }

 private:
  std::string field(std::string_view text) {
    if (text.find('{') != text.npos) throw Failure("fields within a format are not supported");
    const auto colon = std::min(text.find(':'), text.size());
    std::string_view name = text.substr(0, colon);
    const auto mark = name.find('!');
    Value value = lookup(name.substr(0, mark));
    if (mark != name.npos) {
      const std::string_view conversion = name.substr(mark + 1);
      if (conversion != "r" && conversion != "s")
        throw Failure(fmt::format("the conversion !{} is not supported", conversion));
      value = heap_.string(conversion == "r" ? to_repr(heap_, value) : to_text(heap_, value));
    }
    return formatted(heap_, value, colon < text.size() ? text.substr(colon + 1) : "");
  }

  // "", "0", "name", and behind them ".attribute" and "[key]".
  Value lookup(std::string_view name) {
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, at));
    while (at < name.size()) {
      const bool item = name[at] == '[';
      const auto end = item ? name.find(']', at) : std::min(name.find_first_of(".[", at + 1), name.size());
      if (end == name.npos) throw Failure("missing ']' in format string");
      const std::string_view key = name.substr(at + 1, end - at - 1);
      std::size_t digits = 0;
      const auto number = item ? read_number(key, digits) : std::nullopt;
      const bool is_number = number && digits == key.size();
      value = !item       ? attribute_of(heap_, value, key)
              : is_number ? item_of(heap_, value, Value::of(*number))
                          : item_of(heap_, value, heap_.string(std::string(key)));
      at = item ? end + 1 : end;
    }
    return value;
  }

  Value first(std::string_view name) {
    std::size_t at = 0;
    auto number = name.empty() ? std::optional(next_++) : read_number(name, at);
    if (number && at == name.size()) {
      if (static_cast<std::size_t>(*number) >= arguments_.positional.size())
        throw Failure(fmt::format("replacement index {} out of range for positional args", *number));
      return arguments_.positional[static_cast<std::size_t>(*number)];
    }
    for (const auto& [each, value] : arguments_.named)
      if (each == name) return value;
    throw Failure(fmt::format("format: there is no argument '{}'", name));
  }

  Heap& heap_;
  std::string_view format_;
  const Arguments& arguments_;
  std::int64_t next_ = 0;
};

}  // namespace

Value format_percent(Heap& heap, const Value& format, const Value& arguments) {
  check_plain({format, arguments});
  heap.charge_bytes(format.text().size());
  return heap.string(PercentFormat(heap, format.text(), arguments).run());
}

Value format_braces(Heap& heap, std::string_view format, const Arguments& arguments) {
  heap.charge_bytes(format.size());
  return heap.string(BraceFormat(heap, format, arguments).run());
}

}  // namespace keyscope::jinja

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>
#include <unicode/uchar.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/jinja/syntax.hpp"
#include "capture/jinja/value.hpp"

namespace keyscope::jinja {

using Type = Token::Type;

namespace {

std::string with_plain_line_ends(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name_character(char32_t c) {
  return c == '_' || (c < 128 ? u_isalnum(static_cast<UChar32>(c)) != 0
                              : u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_XID_CONTINUE) != 0);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(with_plain_line_ends(source)), rest_(text_) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) read_data();
    add(Type::kEnd, "the end of the template");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw SyntaxError(line_, what); }

  void add(Type type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }

  // Moves on, counting lines.
  void go_to(std::size_t at) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    if (at > at_) line_starts_ = text_[at - 1] == '\n';
    at_ = at;
  }

  std::size_t behind_space(std::size_t at) const {
    while (at < text_.size()) {
      std::size_t next = at;
      if (!is_space(next_code_point(rest_, next))) break;
      at = next;
    }
    return at;
  }

  std::string_view without_space_behind(std::string_view data) const {
    while (!data.empty()) {
      const std::size_t begin = character_before(data, data.size());
      std::size_t at = begin;
      if (!is_space(next_code_point(data, at))) break;
      data = data.substr(0, begin);
    }
    return data;
  }

  bool is_blank(std::string_view data) const { return without_space_behind(data).empty(); }

  // Data before a tag: a "-" takes all white space away, and without a sign the margin of a line that begins
  // with a block or a comment goes.
  std::string_view trimmed(std::string_view data, char sign, bool is_output) const {
    if (sign == '-') return without_space_behind(data);
    if (sign == '+' || is_output) return data;
    const auto line = data.rfind('\n') + 1;
    const bool at_line_start = line > 0 || line_starts_;
    return at_line_start && is_blank(data.substr(line)) ? data.substr(0, line) : data;
  }

  void read_data() {
    std::size_t tag = at_;
    while (true) {
      tag = std::min(rest_.find('{', tag), rest_.size());
      if (tag + 1 >= rest_.size()) tag = rest_.size();
      if (tag == rest_.size() || std::string_view("{%#").find(rest_[tag + 1]) != std::string_view::npos)
        break;
      ++tag;
    }
    std::string_view data = rest_.substr(at_, tag - at_);
    if (tag == rest_.size()) {
      add(Type::kData, std::string(data));
      return go_to(tag);
    }
    const char kind = rest_[tag + 1];
    const char sign =
        tag + 2 < rest_.size() && (rest_[tag + 2] == '-' || rest_[tag + 2] == '+') ? rest_[tag + 2] : 0;
    data = trimmed(data, sign, kind == '{');
    if (!data.empty()) add(Type::kData, std::string(data));
    go_to(tag);
    const std::size_t inside = tag + 2 + (sign != 0 ? 1 : 0);
    if (kind == '#') return read_comment(inside);
    if (kind == '%' && read_raw(inside)) return;
    add(kind == '{' ? Type::kOutputBegin : Type::kBlockBegin, std::string(rest_.substr(tag, 2)));
    go_to(inside);
    read_tag(kind == '{');
  }

  void read_comment(std::size_t inside) {
    const auto end = rest_.find("#}", inside);
    if (end == rest_.npos) fail("missing end of comment tag");
    // A sign belongs to the end where it stands before it.
    const char sign = end > inside ? rest_[end - 1] : 0;
    go_to(behind_tag_end(end + 2, sign == '-' || sign == '+' ? sign : '\0'));
  }

  // Behind the end of a block or comment: "-" takes white space, without a sign one line end goes.
  std::size_t behind_tag_end(std::size_t at, char sign) const {
    if (sign == '-') return behind_space(at);
    return sign == 0 && at < text_.size() && text_[at] == '\n' ? at + 1 : at;
  }

  // The end of a block tag whose inside is `name` alone; the place behind it.
  std::optional<std::size_t> end_of_tag(std::size_t at, std::string_view name, bool is_begin) const {
    at = behind_space(at);
    if (!rest_.substr(at).starts_with(name)) return std::nullopt;
    at = behind_space(at + name.size());
    const char sign =
        at < rest_.size() && (rest_[at] == '-' || (rest_[at] == '+' && !is_begin)) ? rest_[at] : '\0';
    if (sign != 0) ++at;
    if (!rest_.substr(at).starts_with("%}")) return std::nullopt;
    return is_begin ? (sign == '-' ? behind_space(at + 2) : at + 2) : behind_tag_end(at + 2, sign);
  }

  bool read_raw(std::size_t inside) {
    const auto begin = end_of_tag(inside, "raw", true);
    if (!begin) return false;
    go_to(*begin);
    for (auto tag = rest_.find("{%", at_); tag != rest_.npos; tag = rest_.find("{%", tag + 2)) {
      const char next = tag + 2 < rest_.size() ? rest_[tag + 2] : '\0';
      const char sign = next == '-' || next == '+' ? next : '\0';
      const auto end = end_of_tag(tag + 2 + (sign != 0 ? 1 : 0), "endraw", false);
      if (!end) continue;
      const std::string_view data = trimmed(rest_.substr(at_, tag - at_), sign, false);
      if (!data.empty()) add(Type::kData, std::string(data));
      go_to(*end);
      return true;
    }
    fail("missing end of raw directive");
  }

  // A tag's inside, to its end.
  void read_tag(bool is_output) {
    const std::string_view end = is_output ? "}}" : "%}";
    std::string open;  // brackets that are to be closed
    while (true) {
      go_to(behind_space(at_));
      const std::string_view here = rest_.substr(at_);
      if (here.empty()) fail(fmt::format("found the end of the template, expected '{}'", end));
      if (open.empty() && read_end(here, end, is_output)) return;
      read_token(here, open);
    }
  }

  bool read_end(std::string_view here, std::string_view end, bool is_output) {
    const char sign = here[0] == '-' || (here[0] == '+' && !is_output) ? here[0] : '\0';
    if (!here.substr(sign != 0 ? 1 : 0).starts_with(end)) return false;
    add(is_output ? Type::kOutputEnd : Type::kBlockEnd, std::string(end));
    const std::size_t behind = at_ + 2 + (sign != 0 ? 1 : 0);
    go_to(is_output && sign == 0 ? behind : behind_tag_end(behind, sign));
    return true;
  }

  void read_token(std::string_view here, std::string& open) {
    if (is_digit(here[0])) return read_number(here);
    if (here[0] == '\'' || here[0] == '"') return read_string(here);
    std::size_t end = 0;
    while (end < here.size()) {
      std::size_t next = end;
      if (!is_name_character(next_code_point(here, next))) break;
      end = next;
    }
    if (end == 0) return read_operator(here, open);
    add(Type::kName, std::string(here.substr(0, end)));
    go_to(at_ + end);
  }

  // Digits parted by single "_"; the place behind them.
  static std::size_t behind_digits(std::string_view text, std::size_t at, std::string_view digits) {
    while (at < text.size() && digits.find(text[at]) != digits.npos)
      at += at + 2 < text.size() && text[at + 1] == '_' && digits.find(text[at + 2]) != digits.npos ? 2 : 1;
    return at;
  }

  void read_number(std::string_view here) {
    constexpr std::string_view kDigits = "0123456789";
    const char kind = here.size() > 1 && here[0] == '0' ? here[1] : '\0';
    const int base = kind == 'x' || kind == 'X'   ? 16
                     : kind == 'o' || kind == 'O' ? 8
                     : kind == 'b' || kind == 'B' ? 2
                                                  : 10;
    constexpr std::string_view kHexadecimal = "0123456789abcdefABCDEF";
    std::size_t end =
        base == 10
            ? behind_digits(here, 0, kDigits)
            : behind_digits(here, 2,
                            base == 16 ? kHexadecimal : kDigits.substr(0, static_cast<std::size_t>(base)));
    const bool behind_dot = at_ > 0 && text_[at_ - 1] == '.';  // "a.0.1" has no fraction
    const std::size_t whole = end;
    if (base == 10 && !behind_dot) end = behind_fraction(here, end);
    std::string digits(here.substr(base == 10 ? 0 : 2, end - (base == 10 ? 0 : 2)));
    std::erase(digits, '_');
    Token token{end > whole ? Type::kFloat : Type::kInteger, std::string(here.substr(0, end)), line_};
    if (token.type == Type::kFloat) {
      token.real = std::strtod(digits.c_str(), nullptr);  // beyond all reals: infinity, as in Python
    } else {
      const auto [last, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base);
      if (error != std::errc() || last != digits.data() + digits.size())
        fail(fmt::format("found {}, expected an integer of at most 64 bits", shown(token.text)));
    }
    tokens_.push_back(std::move(token));
    go_to(at_ + end);
  }

  static std::size_t behind_fraction(std::string_view here, std::size_t at) {
    constexpr std::string_view kDigits = "0123456789";
    if (at + 1 < here.size() && here[at] == '.' && is_digit(here[at + 1]))
      at = behind_digits(here, at + 1, kDigits);
    if (at >= here.size() || (here[at] != 'e' && here[at] != 'E')) return at;
    std::size_t digits = at + 1;
    if (digits < here.size() && (here[digits] == '+' || here[digits] == '-')) ++digits;
    const std::size_t end = behind_digits(here, digits, kDigits);
    return end > digits ? end : at;
  }

  void read_string(std::string_view here) {
    std::size_t end = 1;
    while (end < here.size() && here[end] != here[0]) end += here[end] == '\\' ? 2 : 1;
    if (end >= here.size()) fail("found a string without its end");
    add(Type::kString, unescaped(here.substr(1, end - 1)));
    go_to(at_ + end + 1);
  }

  // As Python's "unicode-escape" reads it; an unknown escape stays as it is written.
  std::string unescaped(std::string_view text) const {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at++];
      if (c != '\\' || at == text.size()) {
        result += c;
        continue;
      }
      const char escape = text[at++];
      constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
      if (const auto i = kLetters.find(escape); i != kLetters.npos)
        result += kMeanings[i];
      else if (escape == 'x' || escape == 'u' || escape == 'U')
        append_code(text, at, escape == 'x' ? 2 : escape == 'u' ? 4 : 8, 16, result);
      else if (escape >= '0' && escape <= '7')
        append_code(text, --at, 3, 8, result);
      else if (escape == 'N')
        fail("characters by their name, \\N{…}, are not supported");
      else if (escape != '\n')
        result.append(1, c).append(1, escape);
    }
    return result;
  }

  // Exactly `most` hexadecimal digits, or up to as many octal ones.
  void append_code(std::string_view text, std::size_t& at, std::size_t most, int base,
                   std::string& result) const {
    unsigned code = 0;
    const char* begin = text.data() + at;
    const char* limit = begin + std::min(most, text.size() - at);
    const auto [end, error] = std::from_chars(begin, limit, code, base);
    const auto n = static_cast<std::size_t>(end - begin);
    if (error != std::errc() || (base == 16 && n != most) || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000))
      fail(fmt::format("found the escape {}, expected {} digits of a character", shown(text.substr(at, most)),
                       most));
    append_utf8(result, code);
    at += n;
  }

  void read_operator(std::string_view here, std::string& open) {
    static constexpr auto kOperators = std::to_array<std::string_view>(
        {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
         "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"});
    const auto* found = std::find_if(kOperators.begin(), kOperators.end(),
                                     [&](std::string_view each) { return here.starts_with(each); });
    if (found == kOperators.end()) {
      std::size_t end = 0;
      next_code_point(here, end);
      fail(fmt::format("found the character {}, expected an expression", shown(here.substr(0, end))));
    }
    constexpr std::string_view kOpening = "([{", kClosing = ")]}";
    if (const auto i = kOpening.find(here[0]); i != kOpening.npos) open += kClosing[i];
    if (kClosing.find(here[0]) != kClosing.npos) {
      if (open.empty() || open.back() != here[0])
        fail(fmt::format("found '{}', expected {}", here[0],
                         open.empty() ? "no bracket" : open.substr(open.size() - 1)));
      open.pop_back();
    }
    add(Type::kOperator, std::string(*found));
    go_to(at_ + found->size());
  }

  std::string text_;
  std::string_view rest_;  // all of text_
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace keyscope::jinja

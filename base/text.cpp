#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unicode/utf8.h>

#include "base/interval_text.hpp"

namespace keyscope {

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  // ICU's macro works on any unsigned-compatible index type; it is given exactly the remaining bytes.
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  UChar32 code_point = 0;
  U8_NEXT_OR_FFFD(bytes, at, text.size(), code_point);
  return static_cast<char32_t>(code_point);
}

std::size_t character_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && continues_character(text[at])) --at;
  return at;
}

void append_utf8(std::string& text, char32_t code_point) {
  std::uint8_t bytes[U8_MAX_LENGTH];
  std::size_t n = 0;
  U8_APPEND_UNSAFE(bytes, n, static_cast<UChar32>(code_point));
  text.append(reinterpret_cast<const char*>(bytes), n);
}

namespace {

// Where the first ill-formed sequence starts; text.size() if there is none.
std::size_t find_invalid(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  std::size_t at = 0;
  while (at < text.size()) {
    if (bytes[at] < 0x80) {
      ++at;
      continue;
    }
    const std::size_t start = at;
    UChar32 code_point = 0;
    U8_NEXT(bytes, at, text.size(), code_point);
    if (code_point < 0) return start;
  }
  return text.size();
}

}  // namespace

bool is_digest(std::string_view text, std::size_t n_digits) {
  return text.size() == n_digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_utf8(std::string_view text) { return find_invalid(text) == text.size(); }

std::string_view replace_invalid_utf8(std::string_view text, std::string& buffer) {
  std::size_t at = find_invalid(text);
  if (at == text.size()) return text;
  buffer.assign(text, 0, at);
  buffer.reserve(text.size() + 16);
  while (at < text.size()) append_utf8(buffer, next_code_point(text, at));
  return buffer;
}

std::string csv_field(std::string_view text, bool always_quoted) {
  std::string buffer;
  const std::string_view valid = replace_invalid_utf8(text, buffer);
  if (!always_quoted && valid.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(valid);
  std::string field(1, '"');
  for (const char c : valid) field.append(c == '"' ? 2 : 1, c);
  field += '"';
  return field;
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string format_count(long long count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (left % 3 == 0 && i > 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string counted(std::int64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string format_signed(double value, int decimals) {
  const std::string digits = fmt::format("{:.{}f}", std::abs(value), decimals);
  const bool zero = digits.find_first_not_of("0.") == std::string::npos;
  return value < 0 && !zero ? "−" + digits : digits;
}

std::string format_value(double value, int significant_digits) {
  std::string text;
  for (const char c : fmt::format("{:.{}g}", value, significant_digits))
    text += c == '-' ? "−" : std::string(1, c);
  return text;
}

std::string format_share(double share, int decimals) {
  const double least = std::pow(10.0, -decimals);
  const double percent = 100 * share;
  if (percent > 0 && percent < least / 2) return fmt::format("< {:.{}f} %", least, decimals);
  return fmt::format("{:.{}f} %", percent, decimals);
}

std::string number_text(double value) { return number_text(value, 0); }

std::string interval_text(double low, double high) {
  if (std::isnan(low)) return "–";
  const int decimals = interval_decimals(low, high, 0);
  return fmt::format("[{}, {}]", number_text(low, decimals), number_text(high, decimals));
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes)
                   : fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, kUnits[unit]);
}

std::string gib_text(std::int64_t bytes, int decimals) {
  return fmt::format("{:.{}f} GiB", static_cast<double>(bytes) / (1 << 30), decimals);
}

std::string duration_text(double seconds) {
  const auto s = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
  return s >= 60 ? fmt::format("{} min {:02} s", s / 60, s % 60) : fmt::format("{} s", s);
}

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

namespace {

std::string escape_markup(std::string_view text, bool is_html) {
  std::string buffer, escaped;
  for (const char c : replace_invalid_utf8(text, buffer)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (is_html && c == '"')
      escaped += "&quot;";
    else if (is_html && c == '\'')
      escaped += "&#39;";
    else if (is_html)
      escaped += byte < 0x20 || byte == 0x7F ? ' ' : c;
    else if (byte >= 0x20 || c == '\n' || c == '\t')
      escaped += c;
  }
  return escaped;
}

}  // namespace

std::string xml_text(std::string_view text) { return escape_markup(text, false); }

std::string html_text(std::string_view text) { return escape_markup(text, true); }

namespace {

// What a terminal obeys instead of showing it: control characters of both sets, and marks, embeddings,
// overrides and isolates of direction.
bool is_obeyed(char32_t c) {
  if (c == U'\n' || c == U'\t') return false;
  if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return true;
  return c == 0x61C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string terminal_text(std::string_view text) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (!is_obeyed(c))
      append_utf8(safe, c);
    else if (c < 0x100)
      safe += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(c));
    else
      safe += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
  }
  return safe;
}

std::string base64_text(std::string_view bytes) {
  std::string base64((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends it with a zero
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  base64.resize(length);
  return base64;
}

std::string quote_word(std::string_view word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                                          "WXYZ0123456789_-+=:,./@%") == std::string_view::npos;
  if (plain) return std::string(word);
  std::string quoted(1, '\'');
  for (const char c : word) {
    if (c == '\'')
      quoted.append("'\\''");
    else
      quoted.push_back(c);
  }
  quoted.push_back('\'');
  return quoted;
}

std::string quote_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text.push_back(' ');
    text.append(quote_word(word));
  }
  return text;
}

std::string rate_text(double per_second, std::string_view unit) {
  return fmt::format("{:.{}f} {}/s", per_second, per_second < 10 ? 1 : 0, unit);
}

namespace {

constexpr int kNone = std::numeric_limits<int>::min() / 2;
// What a letter counts, alone and where it stands, and a word that the text begins with.
constexpr int kLetter = 4, kTogether = 6, kWordStart = 8, kTextStart = 16;
constexpr int kPerSkipped = 1;  // off for every letter of the text that is not used

bool is_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || byte >= 0x80U;
}

// The best score of one word: ending[j] is that of its first letters with the last of them at text[j].
int word_score(std::string_view word, const std::string& text) {
  std::vector<int> ending(text.size(), kNone);
  for (std::size_t i = 0; i < word.size(); ++i) {
    std::vector<int> next(text.size(), kNone);
    int before = i == 0 ? 0 : kNone;  // the best of ending[0 … j - 2], or an empty word
    for (std::size_t j = 0; j < text.size(); ++j) {
      if (i > 0 && j > 1) before = std::max(before, ending[j - 2]);
      if (text[j] != word[i]) continue;
      const bool starts = j == 0 || !is_letter(text[j - 1]);
      int best = before + (starts ? kWordStart : 0);
      if (i > 0 && j > 0) best = std::max(best, ending[j - 1] + kTogether);
      if (best > kNone / 2) next[j] = best + kLetter;
    }
    ending = std::move(next);
  }
  return ending.empty() ? kNone : *std::ranges::max_element(ending);
}

}  // namespace

std::optional<int> fuzzy_score(std::string_view wanted, std::string_view text) {
  const std::string where = lower_case(text);
  const std::string what = lower_case(wanted);
  int score = -kPerSkipped * static_cast<int>(where.size());
  for (std::size_t at = 0; at < what.size();) {
    const std::size_t first = what.find_first_not_of(' ', at);
    if (first == std::string::npos) break;
    const std::size_t end = std::min(what.find(' ', first), what.size());
    const std::string_view word = std::string_view(what).substr(first, end - first);
    const int fit = word_score(word, where);
    if (fit <= kNone / 2) return std::nullopt;
    score += fit + (where.starts_with(word) ? kTextStart : 0);
    at = end;
  }
  return score;
}

}  // namespace keyscope

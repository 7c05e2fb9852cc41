#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"

namespace keyscope {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// The code point that starts at `at`, which moves behind it.
//   text: valid UTF-8; at < text.size()
char32_t next_code_point(std::string_view text, std::size_t& at);

void append_utf8(std::string& text, char32_t code_point);

// Whether a byte of UTF-8 continues a character, instead of beginning one.
constexpr bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Where the character begins that the byte before `end` belongs to.
//   end: from 1 to text.size()
std::size_t character_before(std::string_view text, std::size_t end);

// Text as Python's `bytes.decode("utf-8", errors="replace")` reads it: every maximal part of an ill-formed
// sequence becomes one U+FFFD (Unicode 15, section 3.9, "substitution of maximal subparts"). Returns `text`
// itself where it is valid; otherwise a view of `buffer`.
std::string_view replace_invalid_utf8(std::string_view text, std::string& buffer);

bool is_utf8(std::string_view text);

// Whether a text is so many hexadecimal digits, in small letters, as digests are written.
bool is_digest(std::string_view text, std::size_t n_digits);

// As a field of CSV (RFC 4180): in quotes where it must be, or always; what is no UTF-8 becomes U+FFFD.
std::string csv_field(std::string_view text, bool always_quoted = false);

// With the letters A to Z as small ones; other bytes stay.
std::string lower_case(std::string_view text);

// "1,024": groups of thousands.
std::string format_count(long long count);

// "1 layer", "4 layers".
std::string counted(std::int64_t n, std::string_view what);

// "0.913", "−0.200": with a minus sign, and none before what is rounded to zero.
std::string format_signed(double value, int decimals);

// "−1.234e−05": with minus signs.
std::string format_value(double value, int significant_digits = 4);

// "12.3 %" of a share of 0.123; "< 0.1 %" where rounding would leave nothing of what there is.
std::string format_share(double share, int decimals);

// A number as people read it: three decimals, large ones with fewer, tiny ones as 1.2e−05, with minus signs;
// "–" for NaN.
std::string number_text(double value);

// "[0.121, 0.254]"; "–" where there is no interval.
std::string interval_text(double low, double high);

// "1.5 GiB", "640 KiB".
std::string bytes_text(std::int64_t bytes);

// "0.04 GiB": always in that unit, for amounts that are compared.
std::string gib_text(std::int64_t bytes, int decimals = 2);

// "12 s", "3 min 05 s", "2 h 07 min".
std::string duration_text(double seconds);

// The time as ISO 8601 has it: "2026-03-01T09:30:00Z".
std::string utc_now();

// Any bytes as the content of an XML element: markup characters become entities, what is no UTF-8 becomes
// U+FFFD, and control characters, which XML forbids, are left out; line ends and tabs stay.
std::string xml_text(std::string_view text);

// Any bytes as the text of an HTML page, also inside a quoted attribute: as above, quotes become entities
// too, and every control character a space.
std::string html_text(std::string_view text);

// Any bytes as a terminal may be sent them: control characters and those that turn the direction of text
// become visible, as "\x1b" and "\u202e", and what is no UTF-8 becomes U+FFFD; line ends and tabs stay.
std::string terminal_text(std::string_view text);

// A list as a message shows it: "1, 2, 3", and of a long one the first entries and how many more there are.
template <typename Entries>
std::string shown_list(const Entries& entries, std::string_view between = ", ") {
  constexpr std::size_t kMost = 32;
  const std::size_t n = std::size(entries);
  const auto end = std::next(std::begin(entries), static_cast<std::ptrdiff_t>(std::min(n, kMost)));
  std::string text = fmt::format("{}", fmt::join(std::begin(entries), end, between));
  return n > kMost ? fmt::format("{}{}… and {} more", text, between, n - kMost) : text;
}

// Bytes as base64 (RFC 4648), on one line, padded.
std::string base64_text(std::string_view bytes);

// A word as a POSIX shell reads it back: as it is where it is plain, else in single quotes.
std::string quote_word(std::string_view word);

// Words with spaces between them, each quoted where it needs it.
std::string quote_words(const std::vector<std::string>& words);

// The longest text that is read, and that rewriting may make of one: ICU and the merges count in 32 bits, and
// a damaged file can ask for replacements that double a text again and again.
inline constexpr std::size_t kLongestText = std::size_t{1} << 29U;

//   throws InvalidInput if a text has grown beyond that
inline void check_length(std::size_t n_bytes) {
  if (n_bytes > kLongestText)
    throw InvalidInput(fmt::format("the text: found {} bytes, expected at most {}", n_bytes, kLongestText));
}

// "812 tokens/s", "2.5 layers/s".
//   unit: what is counted, in the plural
std::string rate_text(double per_second, std::string_view unit);

// How well what was typed fits a text; empty where it does not. Every word of `wanted` must stand in `text`
// letter by letter in this order, in either case, with anything between. What begins words and what stands
// together counts more, and of equally good texts the shorter one wins. An empty `wanted` fits everything.
// The quickest route through the letters is not always the best, so all are tried: O(|wanted| · |text|).
std::optional<int> fuzzy_score(std::string_view wanted, std::string_view text);

}  // namespace keyscope

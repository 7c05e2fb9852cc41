#include "app/evaluation/plain_text.hpp"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "base/text.hpp"

namespace keyscope::evaluation {
namespace {

std::u32string code_points(const icu::UnicodeString& text) {
  std::u32string characters;
  for (std::int32_t at = 0; at < text.length(); at = text.moveIndex32(at, 1))
    characters.push_back(static_cast<char32_t>(text.char32At(at)));
  return characters;
}

// The longest runs of characters of which `is_inside` is true.
template <typename Predicate>
std::vector<std::u32string> runs(std::u32string_view text, const Predicate& is_inside) {
  std::vector<std::u32string> found;
  std::u32string run;
  for (const char32_t character : text) {
    if (is_inside(character)) {
      run.push_back(character);
    } else if (!run.empty()) {
      found.push_back(std::move(run));
      run.clear();
    }
  }
  if (!run.empty()) found.push_back(std::move(run));
  return found;
}

}  // namespace

std::u32string code_points(std::string_view text) {
  std::string buffer;
  const std::string_view valid = tokenizer::replace_invalid_utf8(text, buffer);
  std::u32string characters;
  for (std::size_t at = 0; at < valid.size();) characters.push_back(tokenizer::next_code_point(valid, at));
  return characters;
}

std::u32string lowered(std::string_view text) {
  std::string buffer;
  const std::string_view valid = tokenizer::replace_invalid_utf8(text, buffer);
  auto characters = icu::UnicodeString::fromUTF8({valid.data(), static_cast<std::int32_t>(valid.size())});
  return code_points(characters.toLower(icu::Locale::getRoot()));
}

bool is_space(char32_t character) {
  constexpr char32_t kFileSeparator = 0x1C, kUnitSeparator = 0x1F;
  return u_isUWhiteSpace(static_cast<UChar32>(character)) != 0 ||
         (character >= kFileSeparator && character <= kUnitSeparator);
}

bool is_word_character(char32_t character) {
  constexpr std::uint32_t kWord = U_GC_L_MASK | U_GC_N_MASK;
  return character == U'_' || (U_MASK(u_charType(static_cast<UChar32>(character))) & kWord) != 0;
}

std::vector<std::u32string> split_words(std::u32string_view text) {
  return runs(text, [](char32_t character) { return !is_space(character); });
}

std::vector<std::u32string> find_numbers(std::u32string_view text) {
  return runs(text, [](char32_t character) {
    return u_charType(static_cast<UChar32>(character)) == U_DECIMAL_DIGIT_NUMBER;
  });
}

}  // namespace keyscope::evaluation

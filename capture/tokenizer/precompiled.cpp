// SentencePiece's replacements: a table from texts to texts, as a double-array trie (Aoe, "An efficient
// digital search algorithm by using a double-array structure", 1989) in the layout of darts-clone.

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <unicode/brkiter.h>
#include <unicode/utext.h>

#include "base/errors.hpp"
#include "base/text.hpp"
#include "capture/tokenizer/normalizer.hpp"

namespace keyscope::tokenizer {
namespace {

// Calls visit(begin, end) for every grapheme cluster.
template <typename Visit>
void for_each_grapheme(std::string_view text, Visit visit) {
  UErrorCode status = U_ZERO_ERROR;
  static thread_local const std::unique_ptr<icu::BreakIterator> kGraphemes(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  icu::LocalUTextPointer view(
      utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status));
  if (kGraphemes != nullptr) kGraphemes->setText(view.getAlias(), status);
  if (U_FAILURE(status) != 0 || kGraphemes == nullptr)
    throw Error(fmt::format("ICU could not part a text into graphemes: {}", u_errorName(status)));
  std::int32_t begin = kGraphemes->first();
  for (std::int32_t end = kGraphemes->next(); end != icu::BreakIterator::DONE; end = kGraphemes->next())
    visit(static_cast<std::size_t>(std::exchange(begin, end)), static_cast<std::size_t>(end));
}

class Precompiled : public Normalizer {
 public:
  //   table: as SentencePiece's models hold it: the trie's size in bytes, the trie, the replacements
  //   fail: throws, saying what was found
  template <typename Fail>
  Precompiled(const std::string& table, Fail fail) {
    std::uint32_t size = 0;
    if (table.size() < sizeof(size)) fail("no table");
    std::memcpy(&size, table.data(), sizeof(size));
    if (size == 0 || size % sizeof(std::uint32_t) != 0 || size > table.size() - sizeof(size))
      fail(fmt::format("a trie of {} bytes in a table of {}", size, table.size()));
    units_.resize(size / sizeof(std::uint32_t));
    std::memcpy(units_.data(), table.data() + sizeof(size), size);
    replacements_ = table.substr(sizeof(size) + size);
    if (!is_utf8(replacements_)) fail("replacements that are no UTF-8");
  }

  // A grapheme of up to five bytes is looked for as a whole, others by their characters, as the tokenizers
  // library does it. What is found may be the beginning alone: the rest goes with it.
  bool normalize(std::string& text) const override {
    if (text.size() > std::numeric_limits<std::int32_t>::max())
      throw InvalidInput("a text of more than 2 GiB cannot be normalised");
    std::string result;
    result.reserve(text.size());
    const std::string_view all(text);
    for_each_grapheme(all, [&](std::size_t begin, std::size_t end) {
      constexpr std::size_t kLongestGrapheme = 5;
      if (end - begin <= kLongestGrapheme && replace(all.substr(begin, end - begin), result)) return;
      for (std::size_t at = begin; at < end;) {
        const std::size_t from = at;
        next_code_point(all, at);
        const std::string_view character = all.substr(from, at - from);
        if (!replace(character, result)) result += character;
      }
    });
    text = std::move(result);
    return false;
  }

 private:
  // Appends what stands for the shortest entry that `text` begins with; false where there is none.
  bool replace(std::string_view text, std::string& result) const {
    const auto offset = [](std::uint32_t unit) { return (unit >> 10U) << ((unit & (1U << 9U)) >> 6U); };
    std::size_t node = offset(units_[0]);
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return false;
      node ^= byte;
      if (node >= units_.size()) return false;
      const std::uint32_t unit = units_[node];
      if ((unit & ((1U << 31U) | 0xFFU)) != byte) return false;
      node ^= offset(unit);
      if (((unit >> 8U) & 1U) == 0) continue;
      if (node >= units_.size()) return false;
      const std::size_t begin = units_[node] & ((1U << 31U) - 1);
      if (begin > replacements_.size()) return false;
      result += std::string_view(replacements_).substr(begin, replacements_.find('\0', begin) - begin);
      return true;
    }
    return false;
  }

  std::vector<std::uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

// nullopt where the text is no Base64.
std::optional<std::string> from_base64(const std::string& text) {
  std::string bytes(text.size() / 4 * 3 + 3, '\0');
  const int n =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (n < 0) return std::nullopt;
  const std::size_t n_padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(n) - n_padding);
  return bytes;
}

}  // namespace

std::unique_ptr<Normalizer> read_precompiled(const JsonField& field) {
  const JsonField map = field.member("precompiled_charsmap");
  const std::string text = map.string();
  constexpr std::size_t kLargest = std::size_t{1} << 28U;
  const auto table = text.size() <= kLargest ? from_base64(text) : std::nullopt;
  if (!table) map.fail("no Base64", "SentencePiece's table of replacements in Base64");
  return std::make_unique<Precompiled>(
      *table, [&](const std::string& found) { map.fail(found, "SentencePiece's table of replacements"); });
}

}  // namespace keyscope::tokenizer

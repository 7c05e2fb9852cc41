#include "capture/tokenizer/added_tokens.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/tokenizer/characters.hpp"

namespace keyscope::tokenizer {

namespace {

AddedToken read_added_token(const JsonField& field) {
  AddedToken token;
  token.id = static_cast<std::int32_t>(field.member("id").integer(0, kLargestId));
  token.content = field.member("content").string();
  token.single_word = field.boolean_or("single_word", false);
  token.lstrip = field.boolean_or("lstrip", false);
  token.rstrip = field.boolean_or("rstrip", false);
  token.special = field.boolean_or("special", false);
  token.normalized = field.boolean_or("normalized", !token.special);
  return token;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0) {
    std::size_t before = character_before(text, begin);
    if (is_word_character(next_code_point(text, before))) return false;
  }
  return end == text.size() || !is_word_character(next_code_point(text, end));
}

std::size_t strip_left(std::string_view text, std::size_t begin, std::size_t least) {
  while (begin > least) {
    std::size_t at = character_before(text, begin);
    const std::size_t before = at;
    if ((character_classes(next_code_point(text, at)) & kSpace) == 0) break;
    begin = before;
  }
  return begin;
}

std::size_t strip_right(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    std::size_t next = end;
    if ((character_classes(next_code_point(text, next)) & kSpace) == 0) break;
    end = next;
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(const std::optional<JsonField>& field, const Vocabulary& vocabulary,
                         const Normalizer* normalizer) {
  if (!field) return;
  field->for_each([&](const JsonField& entry) { add(read_added_token(entry), entry, vocabulary); });
  // Of equal tokens special ones come first, as in the tokenizers library.
  for (const bool special : {true, false})
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      if (token.special != special) continue;
      std::string content = token.content;
      if (token.normalized && normalizer != nullptr) normalizer->normalize(content);
      if (!content.empty())
        (token.normalized ? normalized_ : raw_).add(content, static_cast<std::int64_t>(i));
    }
}

void AddedTokens::add(AddedToken token, const JsonField& field, const Vocabulary& vocabulary) {
  if (token.content.empty()) return;  // ignored by the tokenizers library as well
  const auto known_id = vocabulary.find(token.content);
  if (known_id && *known_id != token.id)
    field.member("id").fail(fmt::format("{} for {}", token.id, shown(token.content)),
                            fmt::format("{}, its id in model.vocab", *known_id));
  if (!known_id && vocabulary.contains(token.id))
    field.member("id").fail(fmt::format("{} for {}", token.id, shown(token.content)),
                            "an id that is not " + shown(vocabulary.text(token.id)) + "'s in model.vocab");
  const auto same_id = by_id_.find(token.id);
  if (same_id != by_id_.end() && tokens_[same_id->second].content != token.content)
    field.member("id").fail(fmt::format("{} for {}", token.id, shown(token.content)),
                            "an id that is not " + shown(tokens_[same_id->second].content) + "'s");
  const auto same_content = by_content_.find(token.content);
  if (same_content != by_content_.end()) {
    if (tokens_[same_content->second].id != token.id)
      field.member("id").fail(fmt::format("{} for {}", token.id, shown(token.content)),
                              fmt::format("{}, its id above", tokens_[same_content->second].id));
    tokens_[same_content->second] = std::move(token);
    return;
  }
  by_id_[token.id] = tokens_.size();
  by_content_[token.content] = tokens_.size();
  largest_id_ = std::max(largest_id_, token.id);
  tokens_.push_back(std::move(token));
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

void AddedTokens::split(const TextTrie& trie, std::string_view text, AddedTokenSink sink) const {
  std::size_t done = 0;  // what comes before was handed out
  std::size_t from = 0;
  for (auto match = trie.find(text, from); match.value != TextTrie::kNone; match = trie.find(text, from)) {
    const AddedToken& token = tokens_[match.value];
    from = match.end;
    // Behind a token that took the white space after it, a match may lie in what is gone already.
    if (match.begin < done || (token.single_word && !stands_alone(text, match.begin, match.end))) continue;
    const std::size_t begin = token.lstrip ? strip_left(text, match.begin, done) : match.begin;
    const std::size_t end = token.rstrip ? strip_right(text, match.end) : match.end;
    if (done < begin) sink(std::nullopt, done, begin);
    sink(token.id, begin, end);
    done = end;
  }
  if (done < text.size()) sink(std::nullopt, done, text.size());
}

namespace {

std::uint64_t edge_key(std::uint32_t node, char byte) {
  return static_cast<std::uint64_t>(node) << 8U | static_cast<unsigned char>(byte);
}

}  // namespace

void TextTrie::add(std::string_view text, std::int64_t value) {
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::uint32_t& next =
        i == 0 ? root_[static_cast<unsigned char>(text[0])] : edges_[edge_key(node, text[i])];
    if (next == 0) {
      next = static_cast<std::uint32_t>(values_.size());
      values_.push_back(kNone);
    }
    node = next;
  }
  if (values_[node] == kNone) values_[node] = value;
}

TextTrie::Match TextTrie::find(std::string_view text, std::size_t from) const {
  if (empty()) return {};
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    Match match;
    std::uint32_t node = root_[static_cast<unsigned char>(text[begin])];
    for (std::size_t at = begin + 1; node != 0; ++at) {
      if (values_[node] != kNone) match = {begin, at, values_[node]};
      if (at == text.size()) break;
      const auto edge = edges_.find(edge_key(node, text[at]));
      node = edge == edges_.end() ? 0 : edge->second;
    }
    if (match.value != kNone) return match;
  }
  return {};
}

}  // namespace keyscope::tokenizer

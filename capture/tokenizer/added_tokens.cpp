#include "capture/tokenizer/added_tokens.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <system_error>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "capture/tokenizer/characters.hpp"

namespace keyscope::tokenizer {

AddedToken read_added_token(const JsonField& field, bool special) {
  AddedToken token;
  token.special = field.is_string() ? special : field.boolean_or("special", special);
  token.normalized = !token.special;
  if (field.is_string()) {
    token.content = field.string();
    return token;
  }
  token.content = field.member("content").string();
  token.single_word = field.boolean_or("single_word", false);
  token.lstrip = field.boolean_or("lstrip", false);
  token.rstrip = field.boolean_or("rstrip", false);
  token.normalized = field.boolean_or("normalized", token.normalized);
  return token;
}

namespace {

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

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary,
                         const Normalizer* normalizer) {
  for (const AddedToken& token : tokens)
    if (token.special) special_.insert(token.content);
  for (const AddedToken& token : tokens)
    if (!token.content.empty()) add(token, vocabulary);
  for (const auto& [id, token] : by_id_) {
    std::string& text = decoded_[id] = token.content;
    if (token.normalized && normalizer != nullptr) normalizer->normalize(text);
  }
  // Of equal contents special ones come first, as in the tokenizers library.
  for (const bool special : {true, false})
    for (const AddedToken& token : tokens) {
      if (token.content.empty() || special_.contains(token.content) != special) continue;
      std::string content = token.content;
      if (token.normalized && normalizer != nullptr) normalizer->normalize(content);
      if (!content.empty()) (token.normalized ? normalized_ : raw_).add(content, ids_.at(token.content));
    }
}

void AddedTokens::add(const AddedToken& token, const Vocabulary& vocabulary) {
  const auto n_vocabulary = static_cast<std::int32_t>(vocabulary.size());
  const auto known = ids_.find(token.content);
  const std::int32_t id =
      known != ids_.end() ? known->second
                          : vocabulary.find(token.content).value_or(std::max(n_vocabulary, largest_id_ + 1));
  ids_[token.content] = id;
  by_id_[id] = token;
  largest_id_ = std::max(largest_id_, id);
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

void AddedTokens::split(const TextTrie& trie, std::string_view text, AddedTokenSink sink) const {
  std::size_t done = 0;  // what comes before was handed out
  std::size_t from = 0;
  for (auto match = trie.find(text, from); match.value != TextTrie::kNone; match = trie.find(text, from)) {
    const auto id = static_cast<std::int32_t>(match.value);
    const AddedToken& token = by_id_.at(id);
    from = match.end;
    if (token.single_word && !stands_alone(text, match.begin, match.end)) continue;
    const std::size_t begin = token.lstrip ? strip_left(text, match.begin, done) : match.begin;
    const std::size_t end = token.rstrip ? strip_right(text, match.end) : match.end;
    if (done < begin) sink(std::nullopt, done, begin);
    sink(id, begin, end);
    done = end;
  }
  if (done < text.size()) sink(std::nullopt, done, text.size());
}

namespace {

std::optional<nlohmann::json> read_beside(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  return parse_json_object(read_small_file(file), file.string());
}

// The special tokens that a configuration names, in the order in which Transformers looks at them.
std::vector<AddedToken> named_tokens(const JsonField& configuration) {
  std::vector<AddedToken> tokens;
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (const auto field = configuration.optional(name)) tokens.push_back(read_added_token(*field, true));
  return tokens;
}

// Lists, or objects whose values are tokens.
std::vector<AddedToken> additional_tokens(const JsonField& configuration) {
  std::vector<AddedToken> tokens;
  for (const char* name : {"extra_special_tokens", "additional_special_tokens"}) {
    const auto field = configuration.optional(name);
    if (!field) continue;
    const auto add = [&](const JsonField& entry) { tokens.push_back(read_added_token(entry, true)); };
    field->is_object() ? field->for_each_member(add) : field->for_each(add);
  }
  return tokens;
}

bool has_content(const std::vector<AddedToken>& tokens, const std::string& content) {
  return std::ranges::find(tokens, content, &AddedToken::content) != tokens.end();
}

}  // namespace

std::vector<AddedToken> tokens_beside(const std::filesystem::path& folder,
                                      const std::vector<AddedToken>& known) {
  const auto config_file = folder / "tokenizer_config.json", map_file = folder / "special_tokens_map.json",
             added_file = folder / "added_tokens.json";
  nlohmann::json configuration = read_beside(config_file).value_or(nlohmann::json::object());
  std::map<std::int64_t, AddedToken> by_id;  // of the decoder
  if (configuration.contains("added_tokens_decoder") && !configuration["added_tokens_decoder"].is_null()) {
    const JsonField decoder =
        JsonField(configuration, config_file.string(), "").member("added_tokens_decoder");
    for (const auto& [id, token] : configuration["added_tokens_decoder"].items())
      by_id.emplace(std::strtoll(id.c_str(), nullptr, 10), read_added_token(decoder.member(id)));
  } else {
    if (const auto map = read_beside(map_file)) configuration.update(*map);
    const JsonField fields(configuration, map_file.string(), "");
    const auto named = named_tokens(fields), additional = additional_tokens(fields);
    if (const auto list = read_beside(added_file))
      for (const auto& [content, id] : list->items()) {
        AddedToken token{.content = content};
        token.special = has_content(named, content) || has_content(additional, content);
        token.normalized = !token.special;
        by_id.emplace(JsonField(*list, added_file.string(), "").member(content).integer(0, kLargestId),
                      token);
      }
  }
  std::vector<AddedToken> tokens;
  for (const auto& [id, token] : by_id)
    if (std::ranges::find(known, token) == known.end()) tokens.push_back(token);
  const JsonField fields(configuration, config_file.string(), "");
  const auto named = named_tokens(fields);
  for (AddedToken& token : tokens) token.special = token.special || has_content(named, token.content);
  for (const auto& list : {named, additional_tokens(fields)})
    for (const AddedToken& token : list)
      if (!has_content(known, token.content) && !has_content(tokens, token.content)) tokens.push_back(token);
  return tokens;
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

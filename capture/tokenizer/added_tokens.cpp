#include "capture/tokenizer/added_tokens.hpp"

#include <algorithm>
#include <array>
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

constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kAdditional = "additional_special_tokens";  // as it was called before
constexpr const char* kOwn = "model_specific_special_tokens";
constexpr std::array<std::string_view, 7> kNamed{"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};

bool holds_something(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null() && !found->empty();
}

// An object of names holds tokens that are a model's own.
void set_own_apart(nlohmann::json& configuration) {
  if (!configuration.contains(kExtra) || !configuration[kExtra].is_object()) return;
  configuration[kOwn] = configuration[kExtra];
  configuration.erase(kExtra);
}

// As Transformers puts tokenizer_config.json and special_tokens_map.json together: the list under the older
// name is that under the newer one where that is empty; the map's tokens take the configuration's place, but
// for its list under the newer name, which is added, and under the older one, which counts only where there
// is none.
void put_together(nlohmann::json& configuration, const nlohmann::json& map) {
  if (configuration.contains(kAdditional) && !holds_something(configuration, kExtra))
    configuration[kExtra] = configuration[kAdditional];
  configuration.erase(kAdditional);
  set_own_apart(configuration);
  for (const auto& [name, value] : map.items()) {
    if (name == kExtra && value.is_array() && holds_something(configuration, kExtra))
      configuration[kExtra].insert(configuration[kExtra].end(), value.begin(), value.end());
    else if (name != kAdditional)
      configuration[name] = value;
  }
  set_own_apart(configuration);
  if (map.contains(kAdditional) && !configuration.contains(kExtra)) configuration[kExtra] = map[kAdditional];
}

// The special tokens that a configuration names, in the order in which Transformers looks at them.
std::vector<AddedToken> named_tokens(const JsonField& configuration) {
  std::vector<AddedToken> tokens;
  for (const std::string_view name : kNamed)
    if (const auto field = configuration.optional(std::string(name)))
      tokens.push_back(read_added_token(*field, true));
  return tokens;
}

// Those that a model has besides, "image_token", under any name.
std::vector<AddedToken> own_tokens(const nlohmann::json& configuration, const JsonField& fields) {
  std::vector<AddedToken> tokens;
  const auto add = [&](const JsonField& field) { tokens.push_back(read_added_token(field, true)); };
  for (const auto& [name, value] : configuration.items()) {
    const bool is_token = value.is_string() || (value.is_object() && value.contains("content"));
    if (is_token && name.ends_with("_token") && std::ranges::find(kNamed, name) == kNamed.end())
      add(fields.member(name));
  }
  if (const auto own = fields.optional(kOwn)) own->for_each_member(add);
  return tokens;
}

std::vector<AddedToken> extra_tokens(const JsonField& fields) {
  std::vector<AddedToken> tokens;
  if (const auto extra = fields.optional(kExtra))
    extra->for_each([&](const JsonField& entry) { tokens.push_back(read_added_token(entry, true)); });
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
    put_together(configuration, nlohmann::json::object());
  } else {
    put_together(configuration, read_beside(map_file).value_or(nlohmann::json::object()));
    const JsonField fields(configuration, map_file.string(), "");
    const auto named = named_tokens(fields), extra = extra_tokens(fields);
    if (const auto list = read_beside(added_file))
      for (const auto& [content, id] : list->items()) {
        AddedToken token{.content = content};
        token.special = has_content(named, content) || has_content(extra, content);
        token.normalized = !token.special;
        by_id.emplace(JsonField(*list, added_file.string(), "").member(content).integer(0, kLargestId),
                      token);
      }
  }
  std::vector<AddedToken> tokens;
  for (const auto& [id, token] : by_id)
    if (std::ranges::find(known, token) == known.end()) tokens.push_back(token);
  const JsonField fields(configuration, config_file.string(), "");
  const auto named = named_tokens(fields), own = own_tokens(configuration, fields);
  for (AddedToken& token : tokens)
    token.special = token.special || has_content(named, token.content) || has_content(own, token.content);
  for (const auto& list : {named, own, extra_tokens(fields)})
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

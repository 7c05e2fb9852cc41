#include "capture/tokenizer/gguf_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/tokenizer/tokenizer_json.hpp"

namespace keyscope::tokenizer {

namespace {

using gguf::Container;
using gguf::Value;
using Json = nlohmann::ordered_json;

// As llama.cpp numbers them (llama_token_type); 0 and others are taken for normal ones.
enum class TokenType : std::int8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Token {
  std::string_view text;
  TokenType type = TokenType::kNormal;
  double score = 0;
};

void read_types(const Container& file, std::vector<Token>& tokens) {
  const Value* types = file.find("tokenizer.ggml.token_type");
  if (types == nullptr) return;
  if (types->size() != tokens.size())
    types->fail(fmt::format("a list of {}", types->size()), fmt::format("{}, one a token", tokens.size()));
  std::size_t id = 0;
  types->for_each([&](const Value& type) {
    const std::int64_t number = type.integer(0, INT32_MAX);
    tokens[id++].type = number >= 1 && number <= 6 ? static_cast<TokenType>(number) : TokenType::kNormal;
  });
}

void read_scores(const Container& file, std::vector<Token>& tokens) {
  const Value& scores = file.require("tokenizer.ggml.scores");
  if (scores.size() != tokens.size())
    scores.fail(fmt::format("a list of {}", scores.size()), fmt::format("{}, one a token", tokens.size()));
  std::size_t id = 0;
  scores.for_each([&](const Value& score) {
    const double value = score.number();
    if (!std::isfinite(value)) score.fail(fmt::format("a list with {}", value), "finite scores");
    tokens[id++].score = value;
  });
}

std::vector<Token> read_tokens(const Container& file) {
  const Value& list = file.require("tokenizer.ggml.tokens");
  if (list.size() > static_cast<std::uint64_t>(kLargestId))
    list.fail(fmt::format("a list of {}", list.size()), fmt::format("at most {}", kLargestId));
  std::vector<Token> tokens;
  tokens.reserve(list.size());
  std::string buffer;
  list.for_each([&](const Value& text) {
    if (replace_invalid_utf8(text.string(), buffer) != text.string())
      list.fail(fmt::format("a list with {} at {}", shown(text.string()), tokens.size()), "UTF-8");
    tokens.push_back({text.string()});
  });
  read_types(file, tokens);
  return tokens;
}

std::optional<std::int32_t> token_id(const Container& file, std::string_view key, std::size_t n_tokens) {
  const Value* id = file.find(key);
  // Files have been seen that say 4294967295 for none.
  if (id == nullptr || id->integer(INT32_MIN, UINT32_MAX) >= static_cast<std::int64_t>(n_tokens))
    return std::nullopt;
  return static_cast<std::int32_t>(id->integer(0, kLargestId));
}

bool flag(const Container& file, std::string_view key, bool otherwise) {
  const Value* value = file.find(key);
  return value == nullptr ? otherwise : value->boolean();
}

// --- parts of a tokenizer.json ---

std::string quoted(std::string_view text) { return json_text(nlohmann::json(std::string(text))); }

Json split_step(std::string_view expression) {
  return {
      {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}};
}

#define KEYSCOPE_WORDS(LETTERS, DIGITS, OTHERS)                                        \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?)" LETTERS "|" DIGITS "| ?" OTHERS \
  R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define KEYSCOPE_CAPITALS R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define KEYSCOPE_SMALL R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define KEYSCOPE_BEFORE R"([^\r\n\p{L}\p{N}]?)"
#define KEYSCOPE_ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define KEYSCOPE_SLASHES R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"

constexpr std::string_view kThreeDigits = KEYSCOPE_WORDS(R"(\p{L}+)", R"(\p{N}{1,3})", R"([^\s\p{L}\p{N}]+)");
constexpr std::string_view kOneDigit = KEYSCOPE_WORDS(R"(\p{L}+)", R"(\p{N})", R"([^\s\p{L}\p{N}]+)");
constexpr std::string_view kMarks =
    KEYSCOPE_WORDS(R"([\p{L}\p{M}]+)", R"(\p{N})", R"([^\s\p{L}\p{M}\p{N}]+)");
constexpr std::string_view kCasedWords = KEYSCOPE_BEFORE KEYSCOPE_CAPITALS
    "*" KEYSCOPE_SMALL "+" KEYSCOPE_ENDINGS "|" KEYSCOPE_BEFORE KEYSCOPE_CAPITALS "+" KEYSCOPE_SMALL
    "*" KEYSCOPE_ENDINGS R"(|\p{N}{1,3})" KEYSCOPE_SLASHES;
constexpr std::string_view kTekken = KEYSCOPE_BEFORE KEYSCOPE_CAPITALS
    "*" KEYSCOPE_SMALL "+|" KEYSCOPE_BEFORE KEYSCOPE_CAPITALS "+" KEYSCOPE_SMALL
    "*"
    R"(|\p{N})" KEYSCOPE_SLASHES;

#undef KEYSCOPE_WORDS
#undef KEYSCOPE_CAPITALS
#undef KEYSCOPE_SMALL
#undef KEYSCOPE_BEFORE
#undef KEYSCOPE_ENDINGS
#undef KEYSCOPE_SLASHES

constexpr std::string_view kGpt2Split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Json by_pattern(std::string_view expression) {
  return {{"type", "Sequence"}, {"pretokenizers", {split_step(expression), byte_level(false)}}};
}

Json like_gpt2() { return byte_level(true); }

Json digit_by_digit() {
  return {{"type", "Sequence"},
          {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)}}};
}

// What llama.cpp does where a file's maker did not know the model's own way.
Json by_default() {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {split_step(R"([\p{P}\$\+<=>\^~\|]+)"), split_step(kGpt2Split), split_step(R"(\p{N}+)"),
            split_step("[0-9][0-9][0-9]"), byte_level(false)}}};
}

// A way to split text before its pieces are merged, by the name that `tokenizer.ggml.pre` has for it; as the
// tokenizer.json of the models has it for which the name was given.
// Names: get_vocab_base_pre in llama.cpp's convert_hf_to_gguf.py.
struct Split {
  std::string_view name;
  Json (*pre_tokenizer)();
  bool whole_tokens = false;  // a piece that is a token is taken whole, whatever its merges
  bool nfc = false;
  bool begins_text = false;  // a "begin of text" is put in front where the file says nothing about it
};

constexpr std::array kSplits{
    Split{"llama-bpe", [] { return by_pattern(kThreeDigits); }, true, false, true},  // Llama 3
    Split{"llama3", [] { return by_pattern(kThreeDigits); }, true, false, true},
    Split{"llama-v3", [] { return by_pattern(kThreeDigits); }, true, false, true},
    Split{"smaug-bpe", [] { return by_pattern(kThreeDigits); }, true},  // Llama 3 without it; SmolLM3
    Split{"dbrx", [] { return by_pattern(kThreeDigits); }},             // cl100k; OLMo 2, Granite 4
    Split{"glm4", [] { return by_pattern(kThreeDigits); }},
    Split{"chatglm-bpe", [] { return by_pattern(kThreeDigits); }},
    Split{"qwen2", [] { return by_pattern(kOneDigit); }, false, true},  // Qwen 2 to 3
    Split{"deepseek-r1-qwen", [] { return by_pattern(kOneDigit); }, false, true},
    Split{"qwen35", [] { return by_pattern(kMarks); }, false, true},
    Split{"tekken", [] { return by_pattern(kTekken); }, true, false, true},  // Mistral Nemo
    Split{"gpt-4o", [] { return by_pattern(kCasedWords); }},                 // o200k; gpt-oss
    Split{"smollm", digit_by_digit},
    Split{"starcoder", digit_by_digit},
    Split{"refact", digit_by_digit},  // Granite
    Split{"gpt-2", like_gpt2},
    Split{"phi-2", like_gpt2},
    Split{"default", by_default},
};

const Split& split_of(const Container& file) {
  const Value* pre = file.find("tokenizer.ggml.pre");
  const std::string name(pre == nullptr ? "default" : pre->string());
  const auto* found = std::ranges::find(kSplits, name, &Split::name);
  if (found != kSplits.end()) return *found;
  std::vector<std::string_view> known;
  for (const Split& split : kSplits) known.push_back(split.name);
  pre->fail(shown(name), fmt::format("one of {}", fmt::join(known, ", ")));
}

bool is_special(const Token& token) {
  return token.type == TokenType::kControl || token.type == TokenType::kUnknown;
}

Json added_tokens(const std::vector<Token>& tokens) {
  Json added = Json::array();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const Token& token = tokens[id];
    if (token.text.empty() || (!is_special(token) && token.type != TokenType::kUserDefined)) continue;
    added.push_back({{"id", id},
                     {"content", token.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", is_special(token)}});
  }
  return added;
}

// The file's "begin of text" and "end of text" around a text, where it wants them.
Json post_processor(const Container& file, const std::vector<Token>& tokens, bool begins_text) {
  Json around = Json::array(), special = Json::object();
  const auto add = [&](std::string_view key) {
    const auto id = token_id(file, key, tokens.size());
    if (!id) return;
    const std::string text(tokens[*id].text);
    around.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
  };
  if (flag(file, "tokenizer.ggml.add_bos_token", begins_text)) add("tokenizer.ggml.bos_token_id");
  around.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (flag(file, "tokenizer.ggml.add_eos_token", false)) add("tokenizer.ggml.eos_token_id");
  if (around.size() == 1) return nullptr;
  return {{"type", "TemplateProcessing"}, {"single", around}, {"special_tokens", special}};
}

// The tables are written as text: a document with all their entries would take several times as long.
struct Tables {
  std::string vocab, merges;
};

std::string table_text(const std::vector<std::string>& entries, char open, char close) {
  return fmt::format("{}{}{}", open, fmt::join(entries, ","), close);
}

// Without those that only fill the matrix up.
std::string vocabulary_text(const std::vector<Token>& tokens, bool with_unused) {
  std::vector<std::string> entries;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    if (!tokens[id].text.empty() && (with_unused || tokens[id].type != TokenType::kUnused))
      entries.push_back(fmt::format("{}:{}", quoted(tokens[id].text), id));
  return table_text(entries, '{', '}');
}

// `fields` without tables, then the model with them.
std::string whole_text(const Json& fields, Json model, const Tables& tables) {
  std::string text = json_text(fields);
  std::string inner = json_text(model);
  inner.pop_back();
  inner += ",\"vocab\":" + tables.vocab;
  if (!tables.merges.empty()) inner += ",\"merges\":" + tables.merges;
  text.pop_back();
  return fmt::format("{},\"model\":{}}}}}", text, inner);
}

// --- the kinds ---

std::string byte_level_json(const Container& file) {
  const std::vector<Token> tokens = read_tokens(file);
  const Split& split = split_of(file);
  Json fields{{"version", "1.0"}, {"added_tokens", added_tokens(tokens)}};
  fields["normalizer"] = split.nfc ? Json{{"type", "NFC"}} : Json();
  fields["pre_tokenizer"] = split.pre_tokenizer();
  fields["post_processor"] = post_processor(file, tokens, split.begins_text);
  fields["decoder"] = {{"type", "ByteLevel"}};
  std::vector<std::string> merges;
  file.require("tokenizer.ggml.merges").for_each([&](const Value& merge) {
    merges.push_back(quoted(merge.string()));
  });
  return whole_text(fields, {{"type", "BPE"}, {"ignore_merges", split.whole_tokens}},
                    {vocabulary_text(tokens, false), table_text(merges, '[', ']')});
}

// Where SentencePiece's BPE joins two pieces: the higher the score of what they make, the earlier. Only
// normal pieces join. In the order of build_tokenizer_from_spm_proto in Transformers'
// convert_slow_tokenizer.py.
struct ScoredMerge {
  std::string_view left, right;
  double score;
  std::size_t id;  // of what they make
};

std::vector<ScoredMerge> scored_merges(const Container& file, const std::vector<Token>& tokens) {
  constexpr std::size_t kLongestPiece = 1024;  // bytes; every place to part one is looked at
  std::unordered_set<std::string_view> normal;
  for (const Token& token : tokens)
    if (token.type == TokenType::kNormal) normal.insert(token.text);
  std::vector<ScoredMerge> merges;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view text = tokens[id].text;
    if (tokens[id].type != TokenType::kNormal) continue;
    if (text.size() > kLongestPiece)
      file.require("tokenizer.ggml.tokens")
          .fail(fmt::format("a list with one of {} bytes at {}", text.size(), id),
                fmt::format("at most {}", kLongestPiece));
    for (std::size_t at = 0; at < text.size();) {
      next_code_point(text, at);
      const std::string_view left = text.substr(0, at), right = text.substr(at);
      if (normal.contains(left) && normal.contains(right))
        merges.push_back({left, right, tokens[id].score, id});
    }
  }
  std::ranges::sort(merges, [](const ScoredMerge& a, const ScoredMerge& b) {
    return std::tuple(-a.score, a.id, a.left, a.right) < std::tuple(-b.score, b.id, b.left, b.right);
  });
  return merges;
}

std::optional<std::int32_t> unknown_id(const Container& file, const std::vector<Token>& tokens) {
  if (const auto id = token_id(file, "tokenizer.ggml.unknown_token_id", tokens.size())) return id;
  const auto found = std::ranges::find(tokens, TokenType::kUnknown, &Token::type);
  if (found == tokens.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - tokens.begin());
}

// BPE's scores are the negated ranks of its pieces, those of a unigram model the logarithms of probabilities.
bool is_unigram(const std::vector<Token>& tokens) {
  return std::ranges::any_of(tokens, [](const Token& token) {
    return token.type == TokenType::kNormal && token.score != std::floor(token.score);
  });
}

Tables scored_tables(const Container& file, const std::vector<Token>& tokens, bool unigram) {
  std::vector<std::string> entries;
  if (unigram) {
    for (const Token& token : tokens)
      entries.push_back(fmt::format("[{},{}]", quoted(token.text), json_text(nlohmann::json(token.score))));
    return {table_text(entries, '[', ']'), ""};
  }
  for (const ScoredMerge& merge : scored_merges(file, tokens))
    entries.push_back(fmt::format("[{},{}]", quoted(merge.left), quoted(merge.right)));
  return {vocabulary_text(tokens, true), table_text(entries, '[', ']')};
}

std::string sentencepiece_json(const Container& file) {
  std::vector<Token> tokens = read_tokens(file);
  read_scores(file, tokens);
  const bool prefix = flag(file, "tokenizer.ggml.add_space_prefix", true), unigram = is_unigram(tokens);
  Json normalizers = Json::array(), decoders = Json::array();
  if (flag(file, "tokenizer.ggml.remove_extra_whitespaces", false))
    for (const auto& [spaces, instead] : {std::pair{R"(\A +| +\z)", ""}, {" {2,}", " "}})
      normalizers.push_back({{"type", "Replace"}, {"pattern", {{"Regex", spaces}}}, {"content", instead}});
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}});
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}});
  for (const char* step : {"ByteFallback", "Fuse"}) decoders.push_back({{"type", step}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  Json fields{{"version", "1.0"}, {"added_tokens", added_tokens(tokens)}};
  fields["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
  fields["pre_tokenizer"] = nullptr;
  fields["post_processor"] = post_processor(file, tokens, true);
  fields["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  Json model{{"type", unigram ? "Unigram" : "BPE"}, {"byte_fallback", true}};
  const auto unknown = unknown_id(file, tokens);
  if (unigram) {
    model["unk_id"] = unknown ? Json(*unknown) : Json();
  } else {
    model["fuse_unk"] = true;
    model["unk_token"] = unknown ? Json(tokens[*unknown].text) : Json();
  }
  return whole_text(fields, std::move(model), scored_tables(file, tokens, unigram));
}

}  // namespace

std::string gguf_tokenizer_json(const Container& file) {
  const Value& kind = file.require("tokenizer.ggml.model");
  if (kind.string() == "gpt2") return byte_level_json(file);
  if (kind.string() == "llama") return sentencepiece_json(file);
  kind.fail(shown(kind.string()),
            "\"gpt2\" (byte-level BPE) or \"llama\" (SentencePiece); others are not supported");
}

std::string gguf_tokenizer_config(const Container& file) {
  Json config = Json::object();
  if (const Value* list = file.find("tokenizer.ggml.tokens")) {
    std::vector<std::string_view> tokens;
    list->for_each([&](const Value& text) { tokens.push_back(text.string()); });
    constexpr std::array<std::pair<const char*, const char*>, 6> kNames{
        {{"bos_token", "bos_token_id"},
         {"eos_token", "eos_token_id"},
         {"unk_token", "unknown_token_id"},
         {"sep_token", "seperator_token_id"},  // as it is written there
         {"pad_token", "padding_token_id"},
         {"mask_token", "mask_token_id"}}};
    for (const auto& [name, key] : kNames)
      if (const auto id = token_id(file, fmt::format("tokenizer.ggml.{}", key), tokens.size()))
        config[name] = tokens[*id];
  }
  constexpr std::string_view kTemplate = "tokenizer.chat_template";
  Json templates = Json::array();
  if (const Value* text = file.find(kTemplate))
    templates.push_back({{"name", "default"}, {"template", text->string()}});
  if (const Value* names = file.find("tokenizer.chat_templates"))
    names->for_each([&](const Value& name) {
      const Value& text = file.require(fmt::format("{}.{}", kTemplate, name.string()));
      templates.push_back({{"name", name.string()}, {"template", text.string()}});
    });
  if (!templates.empty()) config["chat_template"] = templates;
  return json_text(config);
}

}  // namespace keyscope::tokenizer

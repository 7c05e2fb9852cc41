#include "app/session/token_table.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace keyscope::session {
namespace {

using Json = nlohmann::ordered_json;

// As RFC 4180 has it.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + "\"";
}

template <typename T>
std::string cell(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

template <typename T>
Json field(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::string valid_utf8(const std::string& bytes) {
  // The library's own way, which keeps what is sound.
  return Json::parse(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

}  // namespace

std::vector<TokenFacts> token_table(const recording::RecordingInfo& info, const HeadPoints& points,
                                    std::int64_t block, const TokenSet* only) {
  std::vector<TokenFacts> tokens;
  const std::int64_t n_seen = points.seen.at(static_cast<std::size_t>(block));
  tokens.reserve(only != nullptr ? only->size() : static_cast<std::size_t>(n_seen));
  if (only != nullptr) {
    for (const std::int32_t position : *only)
      if (position < n_seen) tokens.push_back(token_facts(info, points, block, position));
    return tokens;
  }
  for (std::int64_t position = 0; position < n_seen; ++position)
    tokens.push_back(token_facts(info, points, block, position));
  return tokens;
}

std::string tokens_as_csv(const recording::RecordingInfo& info, int run,
                          const std::vector<TokenFacts>& tokens) {
  std::string csv =
      "position,id,text,arrived,retained,evicted_at,evicted_margin,score,attention_received,"
      "attention_per_query\r\n";
  for (const TokenFacts& token : tokens)
    csv += fmt::format("{},{},{},{},{},{},{},{},{},{}\r\n", token.position, token.id,
                       quoted(valid_utf8(token_bytes(info, run, token.position))), token.arrived,
                       token.retained ? 1 : 0, cell(token.evicted_at), cell(token.evicted_margin),
                       cell(token.score), cell(token.attention_received), cell(token.attention_per_query));
  return csv;
}

std::string tokens_as_json(const recording::RecordingInfo& info, int run,
                           const std::vector<TokenFacts>& tokens, const std::string& where) {
  Json json;
  json["recording"] = info.source;
  json["selection"] = where;
  json["tokens"] = Json::array();
  for (const TokenFacts& token : tokens)
    json["tokens"].push_back({{"position", token.position},
                              {"id", token.id},
                              {"text", token_bytes(info, run, token.position)},
                              {"arrived", token.arrived},
                              {"retained", token.retained},
                              {"evicted_at", field(token.evicted_at)},
                              {"evicted_margin", field(token.evicted_margin)},
                              {"score", field(token.score)},
                              {"attention_received", field(token.attention_received)},
                              {"attention_per_query", field(token.attention_per_query)}});
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace keyscope::session

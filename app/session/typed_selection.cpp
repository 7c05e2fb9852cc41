#include "app/session/typed_selection.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace keyscope::session {
namespace {

enum class Word { kLayer, kHead, kBlock };

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The text in small letters, without what may stand between words and numbers.
std::string essence(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' && c != ',' && c != '-' && c != '=') result += lower(c);
  return result;
}

std::optional<Word> take_word(std::string_view& rest) {
  constexpr std::pair<std::string_view, Word> kWords[] = {
      {"kvhead", Word::kHead}, {"head", Word::kHead},   {"h", Word::kHead}, {"layer", Word::kLayer},
      {"l", Word::kLayer},     {"block", Word::kBlock}, {"b", Word::kBlock}};
  for (const auto& [name, word] : kWords) {
    if (!rest.starts_with(name)) continue;
    rest.remove_prefix(name.size());
    return word;
  }
  return std::nullopt;
}

std::optional<int> take_number(std::string_view& rest) {
  int number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return number;
}

// "0 to 7", or "0, 3, 5" where there are gaps and not many.
std::string say_numbers(const std::vector<int>& numbers) {
  const bool gaps = numbers.back() - numbers.front() + 1 != static_cast<int>(numbers.size());
  if (!gaps || numbers.size() > 12)
    return fmt::format("{} to {}{}", numbers.front(), numbers.back(), gaps ? ", with gaps" : "");
  std::string text;
  for (const int number : numbers) text += fmt::format("{}{}", text.empty() ? "" : ", ", number);
  return text;
}

}  // namespace

std::optional<SelectionRequest> typed_selection(std::string_view text) {
  const std::string all = essence(text);
  std::string_view rest = all;
  SelectionRequest request;
  while (!rest.empty()) {
    const auto word = take_word(rest);
    const auto number = word ? take_number(rest) : std::nullopt;
    if (!number) return std::nullopt;
    if (*word == Word::kLayer) request.layer = *number;
    if (*word == Word::kHead) request.kv_head = *number;
    if (*word == Word::kBlock) request.block = *number;
  }
  return all.empty() ? std::nullopt : std::optional(request);
}

std::string describe_request(const SelectionRequest& request) {
  std::string text;
  const auto add = [&](const char* word, std::int64_t number) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", word, number);
  };
  if (request.layer) add("layer", *request.layer);
  if (request.kv_head) add("KV head", *request.kv_head);
  if (request.block) add("block", *request.block);
  if (!text.empty() && text.front() >= 'a') text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

std::string selection_refusal(const recording::RecordingInfo& info, const Selection& now,
                              const SelectionRequest& request) {
  if (request.layer && std::ranges::find(info.layers, *request.layer) == info.layers.end())
    return "recorded layers: " + say_numbers(info.layers);
  const std::vector<int> heads = info.heads.list(info.model.n_kv_heads);
  if (request.kv_head && std::ranges::find(heads, *request.kv_head) == heads.end())
    return "recorded KV heads: " + say_numbers(heads);
  const std::int64_t blocks = info.runs[static_cast<std::size_t>(now.run)].blocks_done;
  if (request.block && *request.block >= blocks)
    return blocks == 0 ? std::string("no block is there yet")
                       : fmt::format("blocks of this run: 0 to {}", blocks - 1);
  return {};
}

}  // namespace keyscope::session

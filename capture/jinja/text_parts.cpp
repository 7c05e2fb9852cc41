// How texts are taken apart and put together again: strip, split, partition, replace.

#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "capture/jinja/builtins.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

namespace {

struct Span {
  std::size_t begin, end;
};

// Where words stand: what is between white space.
std::vector<Span> words_of(std::string_view text) {
  std::vector<Span> words;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const bool space = is_space(next_code_point(text, at));
    if (!space && !in_word) words.push_back({begin, at});
    if (!space) words.back().end = at;
    in_word = !space;
  }
  return words;
}

std::vector<std::string> split_words(std::string_view text, std::size_t most, bool from_right) {
  const auto words = words_of(text);
  std::vector<std::string> parts;
  if (words.size() <= most) {
    for (const auto [begin, end] : words) parts.emplace_back(text.substr(begin, end - begin));
    return parts;
  }
  // What is not split keeps its white space, that at the text's end included.
  const std::size_t rest = words.size() - most;
  if (from_right) parts.emplace_back(text.substr(0, words[rest - 1].end));
  for (std::size_t i = 0; i < most; ++i) {
    const auto [begin, end] = words[from_right ? rest + i : i];
    parts.emplace_back(text.substr(begin, end - begin));
  }
  if (!from_right) parts.emplace_back(text.substr(words[most].begin));
  return parts;
}

std::vector<std::string> split_at(Heap& heap, std::string_view text, std::string_view separator,
                                  std::size_t most, bool from_right) {
  std::vector<Span> cuts;
  if (from_right) {
    charge_search(heap, text, separator);
    for (std::size_t end = text.size(); end >= separator.size() && cuts.size() < most;) {
      const auto at = text.rfind(separator, end - separator.size());
      if (at == text.npos) break;
      cuts.insert(cuts.begin(), {at, at + separator.size()});
      end = at;
    }
  } else {
    for (std::size_t from = 0; cuts.size() < most;) {
      const auto at = text.find(separator, from);
      if (at == text.npos) break;
      heap.charge_steps();
      cuts.push_back({at, from = at + separator.size()});
    }
    charge_search(heap, text, separator);
  }
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (const auto [begin, end] : cuts) {
    parts.emplace_back(text.substr(from, begin - from));
    from = end;
  }
  parts.emplace_back(text.substr(from));
  return parts;
}

Value list_of(Heap& heap, std::vector<std::string> parts, Kind kind) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (auto& part : parts) items.push_back(heap.string(std::move(part)));
  return heap.sequence(kind, std::move(items));
}

std::size_t most_of(const std::optional<Value>& count) {
  const std::int64_t n = count ? integer_argument(*count) : -1;
  return n < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(n);
}

}  // namespace

std::string strip(Heap& heap, std::string_view text, const std::optional<Value>& characters, bool left,
                  bool right) {
  const bool white = !characters || characters->is(Kind::kNone);
  const auto set = white ? std::vector<std::string_view>() : characters_of(heap, text_argument(*characters));
  const auto goes = [&](std::string_view character) {
    heap.charge_steps(set.size() / 8);
    std::size_t at = 0;
    return white ? is_space(next_code_point(character, at))
                 : std::find(set.begin(), set.end(), character) != set.end();
  };
  while (left && !text.empty()) {
    std::size_t end = 0;
    next_code_point(text, end);
    if (!goes(text.substr(0, end))) break;
    text.remove_prefix(end);
  }
  while (right && !text.empty()) {
    const std::size_t begin = character_before(text, text.size());
    if (!goes(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return std::string(text);
}

Value split(Heap& heap, const std::string& text, const Arguments& arguments, bool from_right) {
  const auto given = arguments.bind(from_right ? "rsplit" : "split", {"sep", "maxsplit"});
  heap.charge_steps(text.size() / 8);
  const std::size_t most = most_of(given[1]);
  if (!given[0] || given[0]->is(Kind::kNone))
    return list_of(heap, split_words(text, most, from_right), Kind::kList);
  const std::string& separator = text_argument(*given[0]);
  if (separator.empty()) throw Failure("empty separator");
  return list_of(heap, split_at(heap, text, separator, most, from_right), Kind::kList);
}

Value partition(Heap& heap, const std::string& text, const Arguments& arguments, bool from_right) {
  const auto given = arguments.bind("partition", {"sep"}, 1);
  const std::string& separator = text_argument(*given[0]);
  if (separator.empty()) throw Failure("empty separator");
  charge_search(heap, text, separator);
  const auto at = from_right ? text.rfind(separator) : text.find(separator);
  if (at == text.npos)
    return list_of(
        heap, from_right ? std::vector<std::string>{"", "", text} : std::vector<std::string>{text, "", ""},
        Kind::kTuple);
  return list_of(heap, {text.substr(0, at), separator, text.substr(at + separator.size())}, Kind::kTuple);
}

std::string replace(Heap& heap, const std::string& text, const Arguments& arguments) {
  const auto given = arguments.bind("replace", {"old", "new", "count"}, 2);
  const std::string& from = text_argument(*given[0]);
  const std::string& to = text_argument(*given[1]);
  const std::size_t most = most_of(given[2]);
  charge_search(heap, text, from);
  std::string result;
  std::size_t done = 0, n = 0;
  const auto put = [&](std::size_t until) {
    heap.charge_bytes(until - done + to.size());
    result.append(text, done, until - done).append(to);
    ++n;
  };
  if (from.empty()) {  // before every character, and at the end
    for (std::size_t at = 0; n < most; done = at, next_code_point(text, at)) {
      put(at);
      if (at >= text.size()) {
        done = at;
        break;
      }
    }
  } else {
    for (auto at = text.find(from); at != text.npos && n < most; at = text.find(from, done)) {
      put(at);
      done = at + from.size();
    }
  }
  return result.append(text, done);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(text, at);
    const bool ends =
        (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    lines.emplace_back(text.substr(line, begin - line));
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    line = at;
  }
  if (line < text.size()) lines.emplace_back(text.substr(line));
  return lines;
}

}  // namespace keyscope::jinja

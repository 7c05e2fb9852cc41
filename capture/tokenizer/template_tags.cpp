#include "capture/tokenizer/template_tags.hpp"

#include <algorithm>
#include <utility>

namespace keyscope::tokenizer {
namespace {

constexpr std::string_view kBlank = " \t\n\v\f\r";

void strip_end(std::string& text) {
  const auto last = text.find_last_not_of(kBlank);
  text.erase(last == std::string::npos ? 0 : last + 1);
}

// Line ends as Jinja reads them: one kind, and none at the very end.
std::string with_plain_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      text += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n')
      text += '\n';
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Cuts a template at its tags, from the front.
class Splitter {
 public:
  explicit Splitter(std::string source) : source_(std::move(source)) {}

  std::optional<std::vector<TemplateTag>> split() {
    while (at_ < source_.size()) {
      const std::size_t begin = next_tag();
      std::string text = source_.substr(at_, begin - at_);
      if (begin == source_.size()) {
        add(TemplateTag::Kind::kText, std::move(text));
        break;
      }
      if (!read_tag(begin, std::move(text))) return std::nullopt;
    }
    return std::move(tags_);
  }

 private:
  std::size_t next_tag() const {
    for (std::size_t at = at_; at + 1 < source_.size(); ++at)
      if (source_[at] == '{' && std::string_view("{%#").find(source_[at + 1]) != std::string_view::npos)
        return at;
    return source_.size();
  }

  // The tag that opens at `begin`, with the text in front of it.
  bool read_tag(std::size_t begin, std::string text) {
    const char mark = source_[begin + 1];
    const std::size_t inside = begin + 2;
    const char sign = inside < source_.size() ? source_[inside] : '\0';
    if (sign == '-')
      strip_end(text);
    else if (sign != '+' && mark != '{')
      strip_indent(text);
    add(TemplateTag::Kind::kText, std::move(text));
    const std::size_t first = sign == '-' || sign == '+' ? inside + 1 : inside;
    const std::size_t close = find_end(first, mark);
    if (close == std::string::npos) return false;
    const bool signed_end = close > first && (source_[close - 1] == '-' || source_[close - 1] == '+');
    if (mark != '#')
      add(mark == '{' ? TemplateTag::Kind::kOutput : TemplateTag::Kind::kStatement,
          source_.substr(first, close - (signed_end ? 1 : 0) - first));
    skip_behind(close + 2, signed_end ? source_[close - 1] : '\0', mark != '{');
    return true;
  }

  // White space that only indents a statement or comment at the start of its line.
  void strip_indent(std::string& text) const {
    const auto newline = text.rfind('\n');
    if (newline == std::string::npos && !line_starts_) return;
    const std::size_t line = newline == std::string::npos ? 0 : newline + 1;
    if (text.find_first_not_of(kBlank, line) == std::string::npos) text.erase(line);
  }

  // Where the tag closes: not inside of a string, nor of brackets that it opened.
  std::size_t find_end(std::size_t at, char mark) const {
    const std::string end = {mark == '{' ? '}' : mark, '}'};
    if (mark == '#') return source_.find(end, at);
    int depth = 0;
    for (; at < source_.size(); ++at) {
      const char c = source_[at];
      if (depth == 0 && source_.compare(at, 2, end) == 0) return at;
      if (c == '\'' || c == '"') at = string_end(at);
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
    }
    return std::string::npos;
  }

  std::size_t string_end(std::size_t at) const {
    const char quote = source_[at];
    for (++at; at < source_.size() && source_[at] != quote; ++at)
      if (source_[at] == '\\') ++at;
    return at;
  }

  void skip_behind(std::size_t at, char sign, bool block) {
    const std::size_t end = at;
    if (sign == '-')
      at = std::min(source_.find_first_not_of(kBlank, at), source_.size());
    else if (sign != '+' && block && at < source_.size() && source_[at] == '\n')
      ++at;
    line_starts_ = at > end && source_[at - 1] == '\n';
    at_ = at;
  }

  void add(TemplateTag::Kind kind, std::string text) {
    if (kind != TemplateTag::Kind::kText || !text.empty()) tags_.push_back({kind, std::move(text)});
  }

  std::string source_;
  std::size_t at_ = 0;
  bool line_starts_ = true;
  std::vector<TemplateTag> tags_;
};

}  // namespace

std::optional<std::vector<TemplateTag>> split_template(std::string_view source) {
  return Splitter(with_plain_newlines(source)).split();
}

}  // namespace keyscope::tokenizer

#include "capture/tokenizer/template_skeleton.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.hpp"

namespace keyscope::tokenizer {

namespace {

using Tokens = std::vector<std::string>;

bool is_name_character(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool is_name(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) != 0) return false;
  for (const char c : text)
    if (!is_name_character(c)) return false;
  return true;
}

// The string whose quote stands at `at`, which moves behind it.
std::optional<std::string> read_string(std::string_view text, std::size_t& at) {
  constexpr std::string_view kEscaped = "ntr\\'\"";
  constexpr std::string_view kMeaning = "\n\t\r\\'\"";
  const char quote = text[at];
  std::string value = "'";
  for (++at; at < text.size() && text[at] != quote; ++at) {
    if (text[at] != '\\') {
      value += text[at];
      continue;
    }
    const auto which = at + 1 < text.size() ? kEscaped.find(text[++at]) : std::string_view::npos;
    if (which == std::string_view::npos) return std::nullopt;
    value += kMeaning[which];
  }
  if (at == text.size()) return std::nullopt;
  ++at;
  return value;
}

// How long the mark at `at` is: == and its like are one.
std::size_t mark_size(std::string_view text, std::size_t at) {
  constexpr std::array<std::string_view, 6> kPairs{"==", "!=", "<=", ">=", "//", "**"};
  for (const auto pair : kPairs)
    if (text.substr(at, 2) == pair) return 2;
  return 1;
}

std::optional<Tokens> split_tokens(std::string_view text) {
  Tokens tokens;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at;
    } else if (c == '\'' || c == '"') {
      auto value = read_string(text, at);
      if (!value) return std::nullopt;
      tokens.push_back(std::move(*value));
    } else {
      std::size_t size = 0;
      while (at + size < text.size() && is_name_character(text[at + size])) ++size;
      if (size == 0) size = mark_size(text, at);
      tokens.emplace_back(text.substr(at, size));
      at += size;
    }
  }
  return tokens;
}

// Whether a value ends with this token, so that a [ behind it asks for a part of that value.
bool ends_value(const std::string& token) {
  constexpr std::array<std::string_view, 8> kWords{"in", "and", "or", "not", "if", "else", "elif", "is"};
  for (const auto word : kWords)
    if (token == word) return false;
  return is_name(token) || token == "]" || token == ")";
}

int depth_change(const std::string& token) {
  if (token == "(" || token == "[" || token == "{") return 1;
  return token == ")" || token == "]" || token == "}" ? -1 : 0;
}

// The tokens of a Jinja expression or statement in one spelling, whatever its author's: names, numbers and
// marks as they are; a string as ' and its characters; x['name'] as x.name; the reason in
// raise_exception('…') left out.
//   returns nullopt on a string that is not closed or holds an escape of another kind than \n \t \r \\ \' \"
std::optional<Tokens> expression_tokens(std::string_view text) {
  const auto split = split_tokens(text);
  if (!split) return std::nullopt;
  Tokens tokens;
  for (std::size_t i = 0; i < split->size(); ++i) {
    const auto token = [&](std::size_t ahead) {
      return i + ahead < split->size() ? std::string_view((*split)[i + ahead]) : std::string_view();
    };
    const bool string_next = token(1).starts_with('\'');
    if (token(0) == "[" && string_next && token(2) == "]" && is_name(token(1).substr(1)) && !tokens.empty() &&
        ends_value(tokens.back())) {
      tokens.emplace_back(".");
      tokens.emplace_back(token(1).substr(1));
      i += 2;
    } else if (token(0) == "(" && string_next && token(2) == ")" && !tokens.empty() &&
               tokens.back() == "raise_exception") {
      tokens.emplace_back("(");
      ++i;
    } else {
      tokens.emplace_back(token(0));
    }
  }
  return tokens;
}

// The tokens in one line, a space between any two: equal exactly for equal tokens.
std::string join_tokens(const Tokens& tokens) {
  std::string line;
  for (const auto& token : tokens) {
    if (!line.empty()) line += ' ';
    // A quote or backslash inside of a string must not pass for its end.
    for (std::size_t i = 0; i < token.size(); ++i) {
      if (i > 0 && token.front() == '\'' && (token[i] == '\'' || token[i] == '\\')) line += '\\';
      line += token[i];
    }
    if (token.starts_with('\'')) line += '\'';
  }
  return line;
}

// Takes away brackets that enclose all of the tokens from `first` on.
void strip_brackets(Tokens& tokens, std::size_t first) {
  while (tokens.size() > first + 2 && tokens[first] == "(" && tokens.back() == ")") {
    int depth = 0;
    for (std::size_t i = first; i + 1 < tokens.size(); ++i) {
      depth += depth_change(tokens[i]);
      if (depth == 0) return;  // the first bracket closes before the end
    }
    tokens.pop_back();
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(first));
  }
}

// The operands of a + b + …, which print one after the other what the whole prints; the expression itself
// where it is no plain sum.
std::vector<Tokens> sum_operands(const Tokens& tokens) {
  std::vector<Tokens> operands(1);
  int depth = 0;
  for (const auto& token : tokens) {
    depth += depth_change(token);
    const bool closes = depth_change(token) < 0;
    if (depth == 0 && token == "+") {
      operands.emplace_back();
      continue;
    }
    // Of what binds less than +, or is no value, nothing may stand between the operands.
    const bool value = token.starts_with('\'') || closes || token == "." || token == "|" ||
                       ends_value(token) ||
                       (!token.empty() && std::isdigit(static_cast<unsigned char>(token.front())) != 0);
    if (depth == 0 && !value) return {tokens};
    operands.back().push_back(token);
  }
  for (const auto& operand : operands)
    if (operand.empty()) return {tokens};
  return operands;
}

// One part of a Jinja template.
struct TemplateTag {
  enum class Kind { kText, kOutput, kStatement };
  Kind kind = Kind::kText;
  std::string text;  // the text itself; for {{ … }} and {% … %} what stands between the marks
};

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

// The parts of a Jinja template in order, comments left out. White space around tags is dropped as
// Transformers renders: `trim_blocks` and `lstrip_blocks` are on, `-` strips, `+` keeps.
//   returns nullopt where a tag, a string or a bracket is not closed
//   source: Jinja 3.1, "Template Designer Documentation", Whitespace Control
std::optional<std::vector<TemplateTag>> split_template(std::string_view source) {
  return Splitter(with_plain_newlines(source)).split();
}

// Marks of a skeleton; a template that holds them itself has none.
constexpr char kStatement = '\x01';
constexpr char kOutput = '\x02';
constexpr char kEnd = '\x03';
constexpr std::string_view kMarks = "\x01\x02\x03";
constexpr int kDeepestBlock = 64;

std::string statement(const Tokens& tokens) { return kStatement + join_tokens(tokens) + kEnd; }

// Thrown and caught in this file: what stands in the template is not followed here.
struct NotFollowed {};

struct Branch {
  Tokens condition;  // empty: else
  std::string body;
};

// Reads tags into a skeleton, leaving out what is known not to happen.
class Pruner {
 public:
  Pruner(std::vector<TemplateTag> tags, const KnownConditions& known)
      : tags_(std::move(tags)), known_(known) {}

  std::string skeleton() {
    std::string all = block();
    if (at_ < tags_.size()) throw NotFollowed();  // an end without its beginning
    return all;
  }

 private:
  static bool ends_block(const std::string& keyword) {
    return keyword == "elif" || keyword == "else" || keyword == "endif" || keyword == "endfor";
  }

  // What follows, up to the end of the block that it stands in.
  std::string block() {
    if (++depth_ > kDeepestBlock) throw NotFollowed();
    std::string body;
    for (; at_ < tags_.size(); ++at_) {
      const TemplateTag& tag = tags_[at_];
      if (tag.kind == TemplateTag::Kind::kText)
        body += printable(tag.text);
      else if (tag.kind == TemplateTag::Kind::kOutput)
        body += output(tokens_of(tag));
      else if (const Tokens tokens = tokens_of(tag); ends_block(tokens.front()))
        break;
      else
        body += statement_block(tokens);
    }
    --depth_;
    return body;
  }

  static Tokens tokens_of(const TemplateTag& tag) {
    auto tokens = expression_tokens(tag.text);
    if (!tokens || tokens->empty()) throw NotFollowed();
    return std::move(*tokens);
  }

  static const std::string& printable(const std::string& text) {
    if (text.find_first_of(kMarks) != std::string::npos) throw NotFollowed();
    return text;
  }

  // One piece per operand: text that is printed by several pieces is one text.
  static std::string output(const Tokens& tokens) {
    std::string pieces;
    for (Tokens& operand : sum_operands(tokens)) {
      strip_brackets(operand, 0);
      if (operand.size() == 1 && operand.front().starts_with('\''))
        pieces += printable(operand.front().substr(1));
      else
        pieces += skeleton_output(printable(join_tokens(operand)));
    }
    return pieces;
  }

  // A statement, and for a block all that belongs to it; ends on its last tag.
  std::string statement_block(const Tokens& tokens) {
    if (tokens.front() == "raw") throw NotFollowed();
    if (tokens.front() == "if") return if_block(tokens);
    if (tokens.front() == "for") return for_block(tokens);
    return statement(tokens);
  }

  std::string for_block(const Tokens& head) {
    ++at_;
    const std::string body = block();
    if (keyword() != "endfor") throw NotFollowed();
    return body.empty() ? "" : statement(head) + body + statement({"endfor"});
  }

  std::string if_block(const Tokens& head) {
    std::vector<Branch> branches;
    Tokens tokens = head;
    while (tokens.front() != "endif") {
      if (tokens.front() == "endfor" || (!branches.empty() && branches.back().condition.empty()))
        throw NotFollowed();
      strip_brackets(tokens, 1);
      Branch branch;
      branch.condition.assign(tokens.begin() + 1, tokens.end());
      if (branch.condition.empty() != (tokens.front() == "else")) throw NotFollowed();
      ++at_;
      branch.body = block();
      branches.push_back(std::move(branch));
      if (at_ == tags_.size()) throw NotFollowed();
      tokens = tokens_of(tags_[at_]);
    }
    return reachable(branches);
  }

  std::string reachable(const std::vector<Branch>& branches) const {
    std::vector<Branch> kept;
    for (const Branch& branch : branches) {
      const auto found = known_.find(join_tokens(branch.condition));
      const bool is_known = found != known_.end();
      if (is_known && !found->second) continue;
      kept.push_back(is_known ? Branch{{}, branch.body} : branch);
      if (kept.back().condition.empty()) break;  // nothing behind an else
    }
    if (!kept.empty() && kept.back().condition.empty() && kept.back().body.empty()) kept.pop_back();
    if (std::ranges::all_of(kept, [](const Branch& branch) { return branch.body.empty(); })) return "";
    if (kept.front().condition.empty()) return kept.front().body;
    std::string all;
    for (const Branch& branch : kept) {
      Tokens head = branch.condition;
      head.insert(head.begin(), head.empty() ? "else" : all.empty() ? "if" : "elif");
      all += statement(head) + branch.body;
    }
    return all + statement({"endif"});
  }

  std::string keyword() const { return at_ < tags_.size() ? tokens_of(tags_[at_]).front() : std::string(); }

  std::vector<TemplateTag> tags_;
  const KnownConditions& known_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string condition_text(std::string_view condition) {
  auto tokens = expression_tokens(condition);
  if (!tokens) throw InvalidInput("a condition: found no expression in '" + std::string(condition) + "'");
  strip_brackets(*tokens, 0);
  return join_tokens(*tokens);
}

std::optional<std::string> template_skeleton(std::string_view source, const KnownConditions& known) {
  auto tags = split_template(source);
  if (!tags) return std::nullopt;
  try {
    return Pruner(std::move(*tags), known).skeleton();
  } catch (const NotFollowed&) {
    return std::nullopt;
  }
}

std::string skeleton_output(std::string_view name) { return kOutput + std::string(name) + kEnd; }

bool is_plain_text(std::string_view part) { return part.find_first_of(kMarks) == std::string_view::npos; }

}  // namespace keyscope::tokenizer

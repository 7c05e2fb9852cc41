#include "capture/tokenizer/template_expression.hpp"

#include <array>
#include <cctype>
#include <iterator>

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

}  // namespace

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

}  // namespace keyscope::tokenizer

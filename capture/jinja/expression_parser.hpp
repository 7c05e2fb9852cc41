#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.hpp"
#include "capture/jinja/syntax.hpp"

namespace keyscope::jinja {

// Reads expressions from tokens, as Jinja's grammar has them; statements are read by what derives from it.
class ExpressionParser {
 protected:
  using Part = Node::Kind;
  using Pointer = Node::Pointer;
  using Type = Token::Type;

  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // --- tokens

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }

  static bool is(const Token& token, std::string_view text) {
    return (token.type == Type::kName || token.type == Type::kOperator) && token.text == text;
  }
  bool is(std::string_view text) const { return is(now(), text); }
  bool is_any(std::initializer_list<std::string_view> texts) const {
    return std::any_of(texts.begin(), texts.end(), [this](std::string_view text) { return is(text); });
  }
  bool skip(std::string_view text) {
    if (!is(text)) return false;
    take();
    return true;
  }

  [[noreturn]] void fail(const std::string& expected) const {
    const bool is_text = now().type == Type::kData || now().type == Type::kString;
    throw SyntaxError(now().line,
                      fmt::format("found {}, expected {}", is_text ? "a text" : shown(now().text), expected));
  }
  void expect(std::string_view text) {
    if (!skip(text)) fail(fmt::format("'{}'", text));
  }
  std::string expect_name() {
    if (now().type != Type::kName) fail("a name");
    return take().text;
  }
  void expect_end_of_tag() {
    if (now().type != Type::kBlockEnd) fail("'%}'");
    take();
  }

  // --- nodes

  template <typename... Parts>
  Pointer make(Part kind, int line, std::string text, Parts... parts) {
    auto node = std::make_unique<Node>(Node{kind, line, std::move(text), {}});
    (add(*node, std::move(parts)), ...);
    return node;
  }

  static void add(Node& node, Pointer part) {
    if (part) node.depth = std::max(node.depth, part->depth + 1);
    if (node.depth > kDeepestTree)
      throw SyntaxError(node.line, fmt::format("found a template nested deeper than {}", kDeepestTree));
    node.parts.push_back(std::move(part));
  }

  // Counts how deep the parser is in itself.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.n_nested_ > kMostNestedBlocks)
        throw SyntaxError(parser_.now().line,
                          fmt::format("found blocks or brackets nested deeper than {}", kMostNestedBlocks));
    }
    ~Nested() { --parser_.n_nested_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    ExpressionParser& parser_;
  };

  // --- expressions

  // One expression, or several with commas.
  Pointer parse_tuple(bool with_condition = true, std::string_view end = "", bool may_be_empty = false);
  Pointer parse_expression();
  Pointer parse_or();
  Pointer parse_and();
  Pointer parse_not();
  Pointer parse_compare();
  // + and -, then ~, then * / // %, then **.
  Pointer parse_binary(int level);
  Pointer parse_concat();
  Pointer parse_unary(bool with_filters);
  Pointer parse_primary();
  Pointer parse_named(const Token& name);
  Pointer parse_list(int line);
  Pointer parse_dict(int line);
  Pointer parse_postfix(Pointer node);
  Pointer parse_subscript(Pointer object);
  Pointer parse_item(int line, Pointer object);
  Pointer parse_invoke(Pointer callee);
  void parse_arguments(Node& node);
  Pointer parse_filters(Pointer node);
  std::string parse_dotted_name();
  //   inline_start: the first filter stands without its "|"
  Pointer parse_filter_chain(Pointer node, bool inline_start);
  Pointer parse_test(Pointer operand);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;

 private:
  static constexpr int kDeepestTree = 400;
  static constexpr int kMostNestedBlocks = 60;  // of brackets and blocks: each takes a dozen functions

  int n_nested_ = 0;
};

}  // namespace keyscope::jinja

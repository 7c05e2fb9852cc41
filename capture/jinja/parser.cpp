#include <fmt/ranges.h>

#include "capture/jinja/expression_parser.hpp"

namespace keyscope::jinja {
namespace {

// The statements of a template.
class Parser : public ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  Pointer run() { return parse_body({}); }

 private:
  // Statements up to a tag named as one of `ends`, whose name is read; all of the template where there are
  // none.
  Pointer parse_body(std::initializer_list<std::string_view> ends) {
    const Nested nested(*this);
    Pointer body = make(Part::kBody, now().line, "");
    while (now().type != Type::kEnd) {
      if (now().type == Type::kData) {
        const Token data = take();
        add(*body, make(Part::kData, data.line, data.text));
      } else if (now().type == Type::kOutputBegin) {
        const int line = take().line;
        add(*body, make(Part::kOutput, line, "", parse_tuple()));
        if (now().type != Type::kOutputEnd) fail("'}}'");
        take();
      } else {
        if (now().type != Type::kBlockBegin) fail("a tag");
        take();
        if (is_any(ends)) return body;
        add(*body, parse_statement(ends));
        expect_end_of_tag();
      }
    }
    if (ends.size() > 0) fail(fmt::format("the tag {}", fmt::join(ends, " or ")));
    return body;
  }

  // The rest of a tag, and statements up to one of `ends`.
  Pointer parse_block(std::initializer_list<std::string_view> ends) {
    skip(":");
    expect_end_of_tag();
    return parse_body(ends);
  }

  Pointer parse_block_to(std::string_view end) {
    Pointer body = parse_block({end});
    take();
    return body;
  }

  // A body that is called, so that a loop around it is not its own; `node` notes what it asks for.
  Pointer parse_function(Node& node, std::string_view end) {
    const int n_loops = std::exchange(n_loops_, 0);
    const std::size_t first = at_;
    Pointer body = parse_block_to(end);
    n_loops_ = n_loops;
    const auto asks_for = [&](std::string_view name) {
      return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(first),
                         tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                         [&](const Token& token) { return token.type == Type::kName && token.text == name; });
    };
    node.uses_caller = asks_for("caller");
    node.uses_varargs = asks_for("varargs");
    node.uses_kwargs = asks_for("kwargs");
    return body;
  }

  Pointer parse_statement(std::initializer_list<std::string_view> ends) {
    const Token tag = now();
    if (tag.type != Type::kName) fail("a tag's name");
    take();
    if (tag.text == "if") return parse_if(tag.line);
    if (tag.text == "for") return parse_for(tag.line);
    if (tag.text == "set") return parse_set(tag.line);
    if (tag.text == "with") return parse_with(tag.line);
    if (tag.text == "macro") return parse_macro(tag.line);
    if (tag.text == "call") return parse_call(tag.line);
    if (tag.text == "filter") {
      Pointer filter = parse_filter_chain(nullptr, true);
      return make(Part::kFilterBlock, tag.line, "", std::move(filter), parse_block_to("endfilter"));
    }
    // What the assistant said, which Transformers can mark.
    if (tag.text == "generation") {
      Pointer node = make(Part::kScope, tag.line, "");
      add(*node, parse_function(*node, "endgeneration"));
      return node;
    }
    if (tag.text == "break" || tag.text == "continue") {
      if (n_loops_ == 0) throw SyntaxError(tag.line, fmt::format("found '{}' outside of a loop", tag.text));
      return make(tag.text == "break" ? Part::kBreak : Part::kContinue, tag.line, "");
    }
    if (tag.text == "print") return make(Part::kOutput, tag.line, "", parse_expression());
    for (const std::string_view other : {"import", "from", "include", "extends", "block", "autoescape"})
      if (tag.text == other)
        throw SyntaxError(tag.line,
                          fmt::format("the tag '{}' is not supported: a chat template stands alone", other));
    throw SyntaxError(tag.line,
                      fmt::format("found the tag {}, expected {}", shown(tag.text),
                                  ends.size() > 0 ? fmt::format("{} or a tag of Jinja", fmt::join(ends, ", "))
                                                  : "a tag of Jinja"));
  }

  Pointer parse_if(int line) {
    Pointer node = make(Part::kIf, line, "");
    while (true) {
      add(*node, parse_tuple(false));
      add(*node, parse_block({"elif", "else", "endif"}));
      const std::string tag = take().text;
      if (tag == "elif") continue;
      add(*node, tag == "else" ? parse_block_to("endif") : nullptr);
      return node;
    }
  }

  Pointer parse_for(int line) {
    Pointer target = parse_target("in");
    expect("in");
    Pointer items = parse_tuple(false, "recursive");
    Pointer condition = skip("if") ? parse_expression() : nullptr;
    const bool recursive = skip("recursive");
    ++n_loops_;
    Pointer body = parse_block({"endfor", "else"});
    --n_loops_;
    Pointer otherwise = take().text == "else" ? parse_block_to("endfor") : nullptr;
    Pointer node = make(Part::kFor, line, "", std::move(target), std::move(items), std::move(condition),
                        std::move(body), std::move(otherwise));
    node->flag = recursive;
    return node;
  }

  Pointer parse_set(int line) {
    Pointer target;
    if (now().type == Type::kName && is(ahead(), ".")) {
      Pointer name = make(Part::kName, line, take().text);
      take();
      target = make(Part::kMember, line, expect_name(), std::move(name));
    } else {
      target = parse_target("");
    }
    if (skip("=")) return make(Part::kSet, line, "", std::move(target), parse_tuple());
    Pointer filter = is("|") ? parse_filter_chain(nullptr, false) : nullptr;
    return make(Part::kSetBlock, line, "", std::move(target), parse_block_to("endset"), std::move(filter));
  }

  Pointer parse_with(int line) {
    Pointer node = make(Part::kWith, line, "");
    while (now().type != Type::kBlockEnd) {
      if (!node->parts.empty()) expect(",");
      add(*node, parse_target(""));
      expect("=");
      add(*node, parse_expression());
    }
    add(*node, parse_block_to("endwith"));
    return node;
  }

  void parse_parameters(Node& node) {
    expect("(");
    bool with_default = false;
    for (bool is_first = true; !is(")"); is_first = false) {
      if (!is_first) expect(",");
      const int line = now().line;
      std::string name = expect_name();
      if (!is("=") && with_default) fail("a default, as the parameter before it has one");
      with_default = is("=");
      add(node, make(Part::kParameter, line, std::move(name), skip("=") ? parse_expression() : nullptr));
    }
    expect(")");
  }

  Pointer parse_macro(int line) {
    Pointer node = make(Part::kMacro, line, expect_name());
    parse_parameters(*node);
    add(*node, parse_function(*node, "endmacro"));
    return node;
  }

  Pointer parse_call(int line) {
    Pointer node = make(Part::kCall, line, "", Pointer());
    if (is("(")) parse_parameters(*node);
    Pointer call = parse_expression();
    if (call->kind != Part::kInvoke) fail("a call");
    node->depth = std::max(node->depth, call->depth + 1);
    node->parts[0] = std::move(call);
    add(*node, parse_function(*node, "endcall"));
    return node;
  }

  // --- targets: a name, or several in a tuple

  Pointer parse_target(std::string_view end) {
    const int line = now().line;
    std::vector<Pointer> targets;
    bool is_tuple = false;
    do {
      if (!targets.empty() && (is("=") || is(")") || (!end.empty() && is(end)))) break;  // "a, = …"
      targets.push_back(parse_one_target());
      is_tuple = is_tuple || is(",");
    } while (skip(","));
    if (!is_tuple) return std::move(targets[0]);
    Pointer tuple = make(Part::kTuple, line, "");
    for (auto& target : targets) add(*tuple, std::move(target));
    return tuple;
  }

  Pointer parse_one_target() {
    const Nested nested(*this);
    const int line = now().line;
    if (skip("(")) {
      Pointer inner = parse_target(")");
      expect(")");
      return inner;
    }
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"})
      if (is(constant)) fail("a name");
    return make(Part::kName, line, expect_name());
  }

  int n_loops_ = 0;
};

}  // namespace

Node::Pointer parse(std::string_view source) { return Parser(tokenize(source)).run(); }

}  // namespace keyscope::jinja

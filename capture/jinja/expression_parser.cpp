#include "capture/jinja/expression_parser.hpp"

namespace keyscope::jinja {

using Pointer = Node::Pointer;

// One expression, or several with commas.
Pointer ExpressionParser::parse_tuple(bool with_condition, std::string_view end, bool may_be_empty) {
  const int line = now().line;
  Pointer tuple = make(Part::kTuple, line, "");
  bool is_tuple = false;
  while (true) {
    const bool ends = now().type == Type::kOutputEnd || now().type == Type::kBlockEnd || is(")") ||
                      (!end.empty() && is(end));
    if (ends) break;
    add(*tuple, with_condition ? parse_expression() : parse_or());
    if (!skip(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && tuple->parts.size() == 1) return std::move(tuple->parts[0]);
  if (tuple->parts.empty() && !may_be_empty) fail("an expression");
  return tuple;
}

Pointer ExpressionParser::parse_expression() {
  const Nested nested(*this);
  const int line = now().line;
  Pointer value = parse_or();
  while (skip("if")) {
    Pointer condition = parse_or();
    Pointer otherwise = skip("else") ? parse_expression() : nullptr;
    value = make(Part::kConditional, line, "", std::move(condition), std::move(value), std::move(otherwise));
  }
  return value;
}

Pointer ExpressionParser::parse_or() {
  Pointer left = parse_and();
  while (is("or")) {
    const int line = take().line;  // before what stands behind it
    left = make(Part::kOr, line, "", std::move(left), parse_and());
  }
  return left;
}

Pointer ExpressionParser::parse_and() {
  Pointer left = parse_not();
  while (is("and")) {
    const int line = take().line;
    left = make(Part::kAnd, line, "", std::move(left), parse_not());
  }
  return left;
}

Pointer ExpressionParser::parse_not() {
  if (!is("not")) return parse_compare();
  const Nested nested(*this);
  const int line = take().line;
  return make(Part::kNot, line, "", parse_not());
}

Pointer ExpressionParser::parse_compare() {
  const int line = now().line;
  Pointer node = parse_binary(0);
  bool is_chain = false;
  while (true) {
    std::string op;
    if (is_any({"==", "!=", "<", "<=", ">", ">=", "in"})) {
      op = take().text;
    } else if (is("not") && is(ahead(), "in")) {
      take();
      take();
      op = "not in";
    } else {
      break;
    }
    if (!std::exchange(is_chain, true)) node = make(Part::kCompare, line, "", std::move(node));
    add(*node, make(Part::kOperand, line, std::move(op), parse_binary(0)));
  }
  return node;
}

// + and -, then ~, then * / // %, then **.
Pointer ExpressionParser::parse_binary(int level) {
  if (level == 1) return parse_concat();
  if (level == 4) return parse_unary(true);
  const auto here = [&] {
    return level == 0 ? is_any({"+", "-"}) : level == 2 ? is_any({"*", "/", "//", "%"}) : is("**");
  };
  Pointer left = parse_binary(level + 1);
  while (here()) {
    Token op = take();
    left = make(Part::kBinary, op.line, std::move(op.text), std::move(left), parse_binary(level + 1));
  }
  return left;
}

Pointer ExpressionParser::parse_concat() {
  Pointer first = parse_binary(2);
  if (!is("~")) return first;
  Pointer node = make(Part::kConcat, now().line, "", std::move(first));
  while (skip("~")) add(*node, parse_binary(2));
  return node;
}

Pointer ExpressionParser::parse_unary(bool with_filters) {
  const Nested nested(*this);
  const int line = now().line;
  Pointer node;
  if (skip("-"))
    node = make(Part::kNegative, line, "", parse_unary(false));
  else if (skip("+"))
    node = make(Part::kPositive, line, "", parse_unary(false));
  else
    node = parse_primary();
  node = parse_postfix(std::move(node));
  if (with_filters) return parse_filters(std::move(node));
  return node;
}

Pointer ExpressionParser::parse_primary() {
  const Token token = take();
  switch (token.type) {
    case Type::kName:
      return parse_named(token);
    case Type::kString: {
      std::string text = token.text;
      while (now().type == Type::kString) text += take().text;
      return make(Part::kString, token.line, std::move(text));
    }
    case Type::kInteger:
    case Type::kFloat: {
      Pointer node = make(token.type == Type::kFloat ? Part::kFloat : Part::kInteger, token.line, token.text);
      node->integer = token.integer;
      node->real = token.real;
      return node;
    }
    default:
      break;
  }
  if (is(token, "(")) {
    Pointer inner = parse_tuple(true, "", true);
    expect(")");
    return inner;
  }
  if (is(token, "[")) return parse_list(token.line);
  if (is(token, "{")) return parse_dict(token.line);
  if (token.type != Type::kEnd) --at_;
  fail("an expression");
}

Pointer ExpressionParser::parse_named(const Token& name) {
  if (name.text == "true" || name.text == "True") return make(Part::kTrue, name.line, "");
  if (name.text == "false" || name.text == "False") return make(Part::kFalse, name.line, "");
  if (name.text == "none" || name.text == "None") return make(Part::kNone, name.line, "");
  return make(Part::kName, name.line, name.text);
}

Pointer ExpressionParser::parse_list(int line) {
  Pointer list = make(Part::kList, line, "");
  while (!is("]")) {
    if (!list->parts.empty()) expect(",");
    if (!is("]")) add(*list, parse_expression());
  }
  expect("]");
  return list;
}

Pointer ExpressionParser::parse_dict(int line) {
  Pointer dict = make(Part::kDict, line, "");
  while (!is("}")) {
    if (!dict->parts.empty()) expect(",");
    if (is("}")) break;
    add(*dict, parse_expression());
    expect(":");
    add(*dict, parse_expression());
  }
  expect("}");
  return dict;
}

Pointer ExpressionParser::parse_postfix(Pointer node) {
  while (true) {
    if (is(".") || is("["))
      node = parse_subscript(std::move(node));
    else if (is("("))
      node = parse_invoke(std::move(node));
    else
      return node;
  }
}

Pointer ExpressionParser::parse_subscript(Pointer object) {
  const Token token = take();
  if (token.text == "[") return parse_item(token.line, std::move(object));
  if (now().type == Type::kInteger) {
    Pointer key = parse_primary();
    return make(Part::kItem, token.line, "", std::move(object), std::move(key));
  }
  return make(Part::kAttribute, token.line, expect_name(), std::move(object));
}

Pointer ExpressionParser::parse_item(int line, Pointer object) {
  const auto bound = [&]() -> Pointer { return is(":") || is("]") ? nullptr : parse_expression(); };
  if (is("]")) fail("an index");
  Pointer start = bound();
  if (!skip(":")) {
    if (is(",")) fail("']': an index with a comma is not supported");
    expect("]");
    return make(Part::kItem, line, "", std::move(object), std::move(start));
  }
  Pointer stop = bound();
  Pointer step = skip(":") ? bound() : nullptr;
  expect("]");
  return make(Part::kSlice, line, "", std::move(object), std::move(start), std::move(stop), std::move(step));
}

Pointer ExpressionParser::parse_invoke(Pointer callee) {
  Pointer node = make(Part::kInvoke, now().line, "", std::move(callee));
  parse_arguments(*node);
  return node;
}

void ExpressionParser::parse_arguments(Node& node) {
  expect("(");
  for (bool is_first = true; !is(")"); is_first = false) {
    if (!is_first) expect(",");
    if (is(")")) break;
    const int line = now().line;
    if (skip("*")) {
      add(node, make(Part::kSpread, line, "", parse_expression()));
    } else if (skip("**")) {
      add(node, make(Part::kSpreadNamed, line, "", parse_expression()));
    } else if (now().type == Type::kName && is(ahead(), "=")) {
      std::string name = take().text;
      take();
      add(node, make(Part::kNamed, line, std::move(name), parse_expression()));
    } else {
      const bool is_late =
          !node.parts.empty() && node.parts.back() && node.parts.back()->kind == Part::kNamed;
      if (is_late) fail("an argument with its name, as the one before it has one");
      add(node, parse_expression());
    }
  }
  expect(")");
}

Pointer ExpressionParser::parse_filters(Pointer node) {
  while (true) {
    if (is("|"))
      node = parse_filter_chain(std::move(node), false);
    else if (is("is"))
      node = parse_test(std::move(node));
    else if (is("("))
      node = parse_invoke(std::move(node));
    else
      return node;
  }
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = expect_name();
  while (skip(".")) name.append(1, '.').append(expect_name());
  return name;
}

//   inline_start: the first filter stands without its "|"
Pointer ExpressionParser::parse_filter_chain(Pointer node, bool inline_start) {
  while (inline_start || is("|")) {
    if (!inline_start) take();
    inline_start = false;
    const int line = now().line;
    node = make(Part::kFilter, line, parse_dotted_name(), std::move(node));
    if (is("(")) parse_arguments(*node);
  }
  return node;
}

Pointer ExpressionParser::parse_test(Pointer operand) {
  const int line = take().line;
  const bool negated = skip("not");
  Pointer node = make(Part::kTest, line, parse_dotted_name(), std::move(operand));
  const Type type = now().type;
  if (is("(")) {
    parse_arguments(*node);
  } else if (is_any({"[", "{"}) || type == Type::kString || type == Type::kInteger || type == Type::kFloat ||
             (type == Type::kName && !is_any({"else", "or", "and", "if"}))) {
    if (is("is")) fail("no second test: tests cannot be chained");
    add(*node, parse_postfix(parse_primary()));
  }
  return negated ? make(Part::kNot, line, "", std::move(node)) : std::move(node);
}

}  // namespace keyscope::jinja

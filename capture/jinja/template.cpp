#include "capture/jinja/template.hpp"

#include <algorithm>
#include <array>
#include <deque>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "capture/jinja/builtins.hpp"
#include "capture/jinja/syntax.hpp"
#include "capture/jinja/value.hpp"

namespace keyscope::jinja {

namespace {

using Part = Node::Kind;

constexpr int kMostNestedCalls = 800;  // calls of the interpreter in itself

enum class Flow { kOn, kBreak, kContinue };

// The variables of a block. Blocks see what stands around them; what they set is theirs.
struct Scope {
  Scope* outer;
  std::vector<std::pair<std::string_view, Value>> variables{};

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer)
      for (const auto& [each, value] : scope->variables)
        if (each == name) return &value;
    return nullptr;
  }
  void set(std::string_view name, const Value& value) {
    for (auto& [each, old] : variables)
      if (each == name) {
        old = value;
        return;
      }
    variables.emplace_back(name, value);
  }
};

class Interpreter {
 public:
  Interpreter(Heap& heap, const std::tm& now) : heap_(heap), now_(now) {}

  std::string run(const Node& body, const nlohmann::ordered_json& variables) {
    Scope& globals = add_scope(nullptr);
    for (const auto& [name, value] : global_functions(heap_, now_)) globals.set(name, value);
    Scope& scope = add_scope(&globals);
    for (const auto& [name, value] : variables.items()) scope.set(name_of(name), from_json(heap_, value));
    std::string output;
    execute(body, add_scope(&scope), output);
    return output;
  }

  int line() const { return line_; }

 private:
  // --- what there is from the start

  Scope& add_scope(Scope* outer) {
    heap_.charge_bytes(sizeof(Scope));
    return scopes_.emplace_back(Scope{outer});
  }

  std::string_view name_of(const std::string& name) { return heap_.string(name).text(); }

  // Guards the stack, and tells where an error is.
  class Step {
   public:
    Step(Interpreter& interpreter, const Node& node) : interpreter_(interpreter) {
      interpreter_.heap_.charge_steps();
      interpreter_.line_ = node.line;
      if (++interpreter_.n_nested_ > kMostNestedCalls)
        throw LimitReached("the template calls itself too deeply");
    }
    ~Step() { --interpreter_.n_nested_; }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Interpreter& interpreter_;
  };

  // --- statements

  void print(std::string_view text, std::string& output) {
    heap_.charge_bytes(text.size());
    output += text;
  }

  Flow execute(const Node& node, Scope& scope, std::string& output) {
    const Step step(*this, node);
    switch (node.kind) {
      case Part::kBody:
        return execute_body(node, scope, output);
      case Part::kData:
        print(node.text, output);
        return Flow::kOn;
      case Part::kOutput:
        print(to_text(heap_, evaluate(*node.parts[0], scope)), output);
        return Flow::kOn;
      case Part::kIf:
        return execute_if(node, scope, output);
      case Part::kFor:
        execute_for(node, scope, output);
        return Flow::kOn;
      case Part::kSet:
        assign(*node.parts[0], evaluate(*node.parts[1], scope), scope);
        return Flow::kOn;
      case Part::kSetBlock:
        return execute_set_block(node, scope);
      case Part::kWith:
        return execute_with(node, scope, output);
      case Part::kMacro:
        scope.set(node.text, macro(node, 0, scope));
        return Flow::kOn;
      case Part::kCall:
        execute_call(node, scope, output);
        return Flow::kOn;
      case Part::kFilterBlock:
        return execute_filter_block(node, scope, output);
      case Part::kScope:
        return execute(*node.parts[0], add_scope(&scope), output);
      case Part::kBreak:
        return Flow::kBreak;
      case Part::kContinue:
        return Flow::kContinue;
      default:
        throw Failure("a statement that cannot be");
    }
  }

  Flow execute_body(const Node& node, Scope& scope, std::string& output) {
    for (const auto& statement : node.parts)
      if (const Flow flow = execute(*statement, scope, output); flow != Flow::kOn) return flow;
    return Flow::kOn;
  }

  Flow execute_if(const Node& node, Scope& scope, std::string& output) {
    for (std::size_t i = 0; i + 1 < node.parts.size(); i += 2)
      if (is_true(evaluate(*node.parts[i], scope))) return execute(*node.parts[i + 1], scope, output);
    return node.parts.back() ? execute(*node.parts.back(), scope, output) : Flow::kOn;
  }

  void execute_for(const Node& node, Scope& scope, std::string& output) {
    run_loop(node, evaluate(*node.parts[1], scope), scope, 0, output);
  }

  void run_loop(const Node& node, const Value& items, Scope& scope, std::int64_t depth, std::string& output) {
    Loop& loop = loops_.emplace_back(Loop{items_of(heap_, items), {}, {}, depth});
    loop.is_wanted = [this, &node, &scope](const Value& item) {
      if (!node.parts[2]) return true;
      Scope& trial = add_scope(&scope);
      assign(*node.parts[0], item, trial);
      return is_true(evaluate(*node.parts[2], trial));
    };
    if (node.flag)
      loop.recurse = [this, &node, &scope, depth](const Value& inner) {
        std::string text;
        run_loop(node, inner, scope, depth + 1, text);
        return heap_.string(std::move(text));
      };
    bool any = false;  // whole rounds: `continue` in each and `else` follows, as Jinja has it
    for (; loop.reaches(loop.at); ++loop.at) {
      Scope& inside = add_scope(&scope);
      inside.set("loop", Value::of(&loop));
      assign(*node.parts[0], loop.items[loop.at], inside);
      const Flow flow = execute(*node.parts[3], inside, output);
      if (flow == Flow::kBreak) break;
      any = any || flow == Flow::kOn;
    }
    if (!any && node.parts[4]) execute(*node.parts[4], add_scope(&scope), output);
  }

  // A `break` or `continue` inside leaves before the body is used.
  Flow execute_set_block(const Node& node, Scope& scope) {
    std::string text;
    if (const Flow flow = execute(*node.parts[1], add_scope(&scope), text); flow != Flow::kOn) return flow;
    const Value body = heap_.string(std::move(text));
    assign(*node.parts[0], node.parts[2] ? filter_body(*node.parts[2], scope, body) : body, scope);
    return Flow::kOn;
  }

  Flow execute_with(const Node& node, Scope& scope, std::string& output) {
    Scope& inside = add_scope(&scope);
    for (std::size_t i = 0; i + 1 < node.parts.size(); i += 2)
      assign(*node.parts[i], evaluate(*node.parts[i + 1], scope), inside);
    return execute(*node.parts.back(), inside, output);
  }

  Flow execute_filter_block(const Node& node, Scope& scope, std::string& output) {
    std::string text;
    if (const Flow flow = execute(*node.parts[1], add_scope(&scope), text); flow != Flow::kOn) return flow;
    print(to_text(heap_, filter_body(*node.parts[0], scope, heap_.string(std::move(text)))), output);
    return Flow::kOn;
  }

  void execute_call(const Node& node, Scope& scope, std::string& output) {
    const Node& call = *node.parts[0];
    Arguments arguments = evaluate_arguments(call, 1, scope);
    const Value callee = evaluate(*call.parts[0], scope);
    arguments.named.emplace_back("caller", macro(node, 1, scope));
    print(to_text(heap_, invoke(callee, arguments)), output);
  }

  void assign(const Node& target, const Value& value, Scope& scope) {
    heap_.charge_bytes(sizeof(Value) + sizeof(std::string_view));
    if (target.kind == Part::kName) return scope.set(target.text, value);
    if (target.kind == Part::kMember) {
      const Value object = evaluate(*target.parts[0], scope);
      if (!object.is(Value::Kind::kNamespace))
        throw Failure("cannot assign attribute on non-namespace object");
      check_namespace_name(target.text);
      return set(heap_, *object.dict, heap_.string(target.text), value);
    }
    const auto items = items_of(heap_, value);
    if (items.size() != target.parts.size())
      throw Failure(fmt::format("found {} values to unpack, expected {}", items.size(), target.parts.size()));
    for (std::size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i], scope);
  }

  // A macro, or the body of a `call`: parameters from `first` on, then the body.
  Value macro(const Node& node, std::size_t first, Scope& scope) {
    return heap_.function(node.text, [this, &node, first, &scope](const Arguments& arguments) {
      Scope& inside = add_scope(&scope);
      bind_parameters(node, first, arguments, inside);
      std::string text;
      execute(*node.parts.back(), inside, text);
      return heap_.string(std::move(text));
    });
  }

  void bind_parameters(const Node& node, std::size_t first, const Arguments& arguments, Scope& inside) {
    const std::size_t n = node.parts.size() - 1 - first;
    if (arguments.positional.size() > n && !node.uses_varargs)
      throw Failure(fmt::format("macro '{}' takes at most {} arguments, found {}", node.text, n,
                                arguments.positional.size()));
    std::vector<std::pair<std::string, Value>> named = arguments.named;
    for (std::size_t i = 0; i < n; ++i) {
      const Node& parameter = *node.parts[first + i];
      const auto by_name = std::find_if(named.begin(), named.end(),
                                        [&](const auto& each) { return each.first == parameter.text; });
      if (i < arguments.positional.size())
        inside.set(parameter.text, arguments.positional[i]);
      else if (by_name != named.end())
        inside.set(parameter.text, by_name->second);
      else if (parameter.parts[0])
        inside.set(parameter.text, evaluate(*parameter.parts[0], inside));
      else
        inside.set(parameter.text,
                   heap_.undefined(fmt::format("parameter '{}' was not provided", parameter.text)));
      if (by_name == named.end()) continue;
      if (i < arguments.positional.size())
        throw Failure(fmt::format("macro '{}' got its argument '{}' twice", node.text, parameter.text));
      named.erase(by_name);
    }
    bind_others(node, n, arguments, named, inside);
  }

  // What a macro's body may ask for beside its parameters.
  void bind_others(const Node& node, std::size_t n_parameters, const Arguments& arguments,
                   const std::vector<std::pair<std::string, Value>>& named, Scope& inside) {
    Value caller = heap_.undefined("No caller defined");
    const Value others = heap_.dict();
    for (const auto& [name, value] : named) {
      if (name == "caller" && node.uses_caller)
        caller = value;
      else if (node.uses_kwargs)
        set(heap_, *others.dict, heap_.string(name), value);
      else
        throw Failure(fmt::format("macro '{}' takes no keyword argument '{}'", node.text, name));
    }
    const auto is_parameter = [&](std::string_view name) {
      return std::any_of(inside.variables.begin(), inside.variables.end(),
                         [&](const auto& each) { return each.first == name; });
    };
    if (node.uses_caller && !is_parameter("caller")) inside.set("caller", caller);
    if (node.uses_kwargs) inside.set("kwargs", others);
    if (!node.uses_varargs) return;
    const auto first = arguments.positional.begin() +
                       static_cast<std::ptrdiff_t>(std::min(n_parameters, arguments.positional.size()));
    inside.set("varargs", heap_.tuple({first, arguments.positional.end()}));
  }

  // --- expressions

  Value evaluate(const Node& node, Scope& scope) {
    const Step step(*this, node);
    switch (node.kind) {
      case Part::kString:
        return heap_.string(node.text);
      case Part::kInteger:
        return Value::of(node.integer);
      case Part::kFloat:
        return Value::of(node.real);
      case Part::kTrue:
        return Value::of(true);
      case Part::kFalse:
        return Value::of(false);
      case Part::kNone:
        return Value::none();
      case Part::kName:
        return variable(node.text, scope);
      case Part::kList:
        return heap_.list(evaluate_all(node, scope));
      case Part::kTuple:
        return heap_.tuple(evaluate_all(node, scope));
      case Part::kDict:
        return evaluate_dict(node, scope);
      case Part::kAttribute:
        return attribute_of(heap_, evaluate(*node.parts[0], scope), node.text);
      case Part::kItem:
        return evaluate_item(node, scope);
      case Part::kSlice:
        return evaluate_slice(node, scope);
      case Part::kInvoke:
        return evaluate_invoke(node, scope);
      case Part::kFilter:
        return evaluate_filter(node, scope);
      case Part::kTest:
        return evaluate_test(node, scope);
      case Part::kNot:
        return Value::of(!is_true(evaluate(*node.parts[0], scope)));
      case Part::kNegative:
        return evaluate_sign(node, scope, "-");
      case Part::kPositive:
        return evaluate_sign(node, scope, "+");
      case Part::kBinary:
        return evaluate_binary(node, scope);
      case Part::kConcat:
        return evaluate_concat(node, scope);
      case Part::kCompare:
        return evaluate_compare(node, scope);
      case Part::kAnd:
      case Part::kOr:
        return evaluate_logic(node, scope);
      case Part::kConditional:
        return evaluate_conditional(node, scope);
      default:
        throw Failure("an expression that cannot be");
    }
  }

  Value variable(const std::string& name, const Scope& scope) {
    if (name == "self") throw Failure("the variable 'self' is not supported");
    const Value* value = scope.find(name);
    return value != nullptr ? *value : heap_.undefined(fmt::format("'{}' is undefined", name));
  }

  std::vector<Value> evaluate_all(const Node& node, Scope& scope) {
    std::vector<Value> values;
    values.reserve(node.parts.size());
    for (const auto& part : node.parts) values.push_back(evaluate(*part, scope));
    return values;
  }

  Value evaluate_dict(const Node& node, Scope& scope) {
    const Value dict = heap_.dict();
    for (std::size_t i = 0; i < node.parts.size(); i += 2) {
      const Value key = evaluate(*node.parts[i], scope);
      set(heap_, *dict.dict, key, evaluate(*node.parts[i + 1], scope));
    }
    return dict;
  }

  Value evaluate_item(const Node& node, Scope& scope) {
    const Value object = evaluate(*node.parts[0], scope);
    const Value key = evaluate(*node.parts[1], scope);
    return item_of(heap_, object, key);
  }

  Value evaluate_slice(const Node& node, Scope& scope) {
    const Value object = evaluate(*node.parts[0], scope);
    const auto bound = [&](std::size_t i) {
      return node.parts[i] ? evaluate(*node.parts[i], scope) : Value::none();
    };
    const Value start = bound(1), stop = bound(2), step = bound(3);
    return slice_of(heap_, object, start, stop, step);
  }

  Arguments evaluate_arguments(const Node& node, std::size_t first, Scope& scope) {
    Arguments arguments;
    for (std::size_t i = first; i < node.parts.size(); ++i) {
      const Node& part = *node.parts[i];
      if (part.kind == Part::kNamed) {
        arguments.named.emplace_back(part.text, evaluate(*part.parts[0], scope));
      } else if (part.kind == Part::kSpread) {
        for (const Value& each : items_of(heap_, evaluate(*part.parts[0], scope)))
          arguments.positional.push_back(each);
      } else if (part.kind == Part::kSpreadNamed) {
        const Value dict = evaluate(*part.parts[0], scope);
        if (!dict.is(Value::Kind::kDict)) throw Failure("** needs a dict, found " + type_name(dict));
        for (const auto& [key, value] : dict.dict->entries)
          arguments.named.emplace_back(text_argument(key), value);
      } else {
        arguments.positional.push_back(evaluate(part, scope));
      }
    }
    return arguments;
  }

  Value invoke(const Value& callee, const Arguments& arguments) {
    if (callee.is_undefined()) throw Failure(callee.text());
    if (callee.is(Value::Kind::kLoop)) {
      if (!callee.loop->recurse) throw Failure("the loop must have the 'recursive' marker to be called");
      return callee.loop->recurse(*arguments.bind("loop", {"iterable"}, 1)[0]);
    }
    if (!callee.is(Value::Kind::kFunction))
      throw Failure(fmt::format("'{}' object is not callable", type_name(callee)));
    return callee.function->call(arguments);
  }

  Value evaluate_invoke(const Node& node, Scope& scope) {
    const Value callee = evaluate(*node.parts[0], scope);
    return invoke(callee, evaluate_arguments(node, 1, scope));
  }

  Value evaluate_filter(const Node& node, Scope& scope) {
    return apply_filter(node, scope, evaluate(*node.parts[0], scope));
  }

  // A chain of filters whose innermost has no operand, for `body`.
  Value filter_body(const Node& node, Scope& scope, const Value& body) {
    return apply_filter(node, scope, node.parts[0] ? filter_body(*node.parts[0], scope, body) : body);
  }

  Value apply_filter(const Node& node, Scope& scope, const Value& operand) {
    const Arguments arguments = evaluate_arguments(node, 1, scope);
    line_ = node.line;
    return call_filter(heap_, node.text, operand, arguments);
  }

  Value evaluate_test(const Node& node, Scope& scope) {
    const Value operand = evaluate(*node.parts[0], scope);
    return Value::of(call_test(heap_, node.text, operand, evaluate_arguments(node, 1, scope)));
  }

  Value evaluate_sign(const Node& node, Scope& scope, std::string_view sign) {
    const Value operand = evaluate(*node.parts[0], scope);
    if (operand.is(Value::Kind::kFloat)) return Value::of(sign == "-" ? -operand.real : operand.real);
    return arithmetic(heap_, sign, Value::of(std::int64_t{0}), operand);
  }

  Value evaluate_binary(const Node& node, Scope& scope) {
    const Value left = evaluate(*node.parts[0], scope);
    return arithmetic(heap_, node.text, left, evaluate(*node.parts[1], scope));
  }

  Value evaluate_concat(const Node& node, Scope& scope) {
    std::string text;
    for (const auto& part : node.parts) {
      const Value value = evaluate(*part, scope);
      text += to_text(heap_, value);
      heap_.charge_bytes(text.size() / 8);
    }
    return heap_.string(std::move(text));
  }

  Value evaluate_compare(const Node& node, Scope& scope) {
    Value left = evaluate(*node.parts[0], scope);
    for (std::size_t i = 1; i < node.parts.size(); ++i) {
      const Node& operand = *node.parts[i];
      const Value right = evaluate(*operand.parts[0], scope);
      if (!compare(operand.text, left, right)) return Value::of(false);
      left = right;
    }
    return Value::of(true);
  }

  // By the tests of the same names.
  bool compare(std::string_view op, const Value& a, const Value& b) {
    if (op == "not in") return !compare("in", a, b);
    return call_test(heap_, op, a, {{b}, {}});
  }

  Value evaluate_logic(const Node& node, Scope& scope) {
    const Value left = evaluate(*node.parts[0], scope);
    return is_true(left) == (node.kind == Part::kAnd) ? evaluate(*node.parts[1], scope) : left;
  }

  Value evaluate_conditional(const Node& node, Scope& scope) {
    if (is_true(evaluate(*node.parts[0], scope))) return evaluate(*node.parts[1], scope);
    if (node.parts[2]) return evaluate(*node.parts[2], scope);
    return heap_.undefined("the condition is false, and there is no else");
  }

  Heap& heap_;
  const std::tm& now_;
  std::deque<Scope> scopes_;
  std::deque<Loop> loops_;
  int line_ = 1, n_nested_ = 0;
};

}  // namespace

Template::Template(std::string_view source) : body_(parse(source)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

std::string Template::render(const nlohmann::ordered_json& variables, const std::tm& now,
                             const Limits& limits) const {
  Heap heap(limits.steps, limits.bytes + limits.bytes_a_byte_of_variables *
                                             static_cast<std::int64_t>(json_bytes(variables)));
  Interpreter interpreter(heap, now);
  try {
    return interpreter.run(*body_, variables);
  } catch (const Raised& raised) {
    throw RenderError(interpreter.line(), raised.what(), true);
  } catch (const Failure& failure) {
    throw RenderError(interpreter.line(), failure.what(), false);
  }
}

}  // namespace keyscope::jinja

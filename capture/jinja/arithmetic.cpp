// What + - * / // % and ** do with numbers, texts and lists.

#include <algorithm>
#include <cmath>
#include <limits>

#include "capture/jinja/builtins.hpp"
#include "capture/jinja/value.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

namespace {

// Python's // and % round towards minus infinity.
Value floor_divide(const Value& a, const Value& b) {
  if (!a.is_integer() || !b.is_integer()) return Value::of(std::floor(a.as_real() / b.as_real()));
  const std::int64_t x = a.as_integer(), y = b.as_integer();
  if (x == std::numeric_limits<std::int64_t>::min() && y == -1)
    throw Failure("an integer of more than 64 bits");
  return Value::of(x / y - std::int64_t{x % y != 0 && (x < 0) != (y < 0)});
}

Value modulo(const Value& a, const Value& b) {
  if (!a.is_integer() || !b.is_integer()) {
    const double y = b.as_real();
    const double rest = std::fmod(a.as_real(), y);
    if (rest == 0) return Value::of(std::copysign(0.0, y));
    return Value::of((rest < 0) != (y < 0) ? rest + y : rest);
  }
  const std::int64_t y = b.as_integer();
  if (y == -1) return Value::of(std::int64_t{0});
  const std::int64_t rest = a.as_integer() % y;
  return Value::of(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
}

Value power(const Value& a, const Value& b) {
  if (!a.is_integer() || !b.is_integer() || b.as_integer() < 0) {
    if (a.as_real() == 0 && b.as_real() < 0) throw Failure("zero to a negative power");
    if (a.as_real() < 0 && b.as_real() != std::floor(b.as_real()))
      throw Failure("complex numbers are not supported");
    const double result = std::pow(a.as_real(), b.as_real());
    if (std::isinf(result) && std::isfinite(a.as_real()) && std::isfinite(b.as_real()))
      throw Failure("the result is too large");
    return Value::of(result);
  }
  std::int64_t result = 1, base = a.as_integer();
  for (std::int64_t n = b.as_integer(); n > 0; n /= 2) {
    bool too_large = n % 2 == 1 && __builtin_mul_overflow(result, base, &result);
    too_large = (n > 1 && __builtin_mul_overflow(base, base, &base)) || too_large;
    if (too_large) throw Failure("an integer of more than 64 bits");
  }
  return Value::of(result);
}

Value calculate(std::string_view op, const Value& a, const Value& b) {
  if (op == "/" || op == "//" || op == "%") {
    if (b.as_real() == 0) throw Failure("division by zero");
    if (op == "/") return Value::of(a.as_real() / b.as_real());
    return op == "%" ? modulo(a, b) : floor_divide(a, b);
  }
  if (op == "**") return power(a, b);
  if (!a.is_integer() || !b.is_integer()) {
    const double x = a.as_real(), y = b.as_real();
    return Value::of(op == "+" ? x + y : op == "-" ? x - y : x * y);
  }
  std::int64_t result = 0;
  const std::int64_t x = a.as_integer(), y = b.as_integer();
  const bool too_large = op == "+"   ? __builtin_add_overflow(x, y, &result)
                         : op == "-" ? __builtin_sub_overflow(x, y, &result)
                                     : __builtin_mul_overflow(x, y, &result);
  if (too_large) throw Failure("an integer of more than 64 bits");
  return Value::of(result);
}

Value repeat(Heap& heap, const Value& value, std::int64_t n) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(n, 0));
  if (value.is_string()) {
    const std::string& text = value.text();
    if (!text.empty())
      heap.charge_bytes(text.size() * std::min(times, (std::size_t{1} << 40U) / text.size()));
    std::string result;
    for (std::size_t i = 0; i < (text.empty() ? 0 : times); ++i) result += text;
    return heap.string(std::move(result), value.string->is_safe);
  }
  const auto& items = value.sequence->items;
  if (!items.empty())
    heap.charge_bytes(items.size() * std::min(times, (std::size_t{1} << 40U) / items.size()));
  std::vector<Value> result;
  for (std::size_t i = 0; i < (items.empty() ? 0 : times); ++i)
    result.insert(result.end(), items.begin(), items.end());
  return heap.sequence(value.kind, std::move(result));
}

bool can_repeat(const Value& value) {
  return value.is_string() || value.is(Kind::kList) || value.is(Kind::kTuple);
}

}  // namespace

Value arithmetic(Heap& heap, std::string_view op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return calculate(op, a, b);
  if (op == "+" && a.is_string() && b.is_string()) {
    const bool is_safe = a.string->is_safe || b.string->is_safe;  // which escapes the other
    return heap.string(is_safe ? escape(heap, a).text() + escape(heap, b).text() : a.text() + b.text(),
                       is_safe);
  }
  if (op == "+" && a.kind == b.kind && (a.is(Kind::kList) || a.is(Kind::kTuple))) {
    std::vector<Value> items = a.sequence->items;
    items.insert(items.end(), b.sequence->items.begin(), b.sequence->items.end());
    return heap.sequence(a.kind, std::move(items));
  }
  if (op == "*" && can_repeat(a) && b.is_integer()) return repeat(heap, a, b.as_integer());
  if (op == "*" && a.is_integer() && can_repeat(b)) return repeat(heap, b, a.as_integer());
  if (op == "%" && a.is_string()) return format_percent(heap, a, b);
  fail_operands(op, a, b);
}

}  // namespace keyscope::jinja

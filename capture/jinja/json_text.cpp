// JSON as Python's json.dumps writes it, and as variables come in it.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "capture/jinja/builtins.hpp"

namespace keyscope::jinja {

using Kind = Value::Kind;

namespace {

class JsonText {
 public:
  JsonText(Heap& heap, const Arguments& arguments) : heap_(heap) {
    const auto given = arguments.bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
    ascii_ = given[0] && is_true(*given[0]);
    sort_keys_ = given[3] && is_true(*given[3]);
    if (given[1] && !given[1]->is(Kind::kNone)) set_indent(*given[1]);
    if (indent_) item_separator_ = ",";
    if (!given[2] || given[2]->is(Kind::kNone)) return;
    const auto separators = items_of(heap, *given[2]);
    if (separators.size() != 2) throw Failure("separators: expected a pair");
    item_separator_ = text_argument(separators[0]);
    key_separator_ = text_argument(separators[1]);
  }

  std::string write(const Value& value) {
    append(value, 0);
    return std::move(text_);
  }

 private:
  void set_indent(const Value& indent) {
    if (indent.is_string()) {
      indent_ = indent.text();
    } else {
      indent_ = std::string(
          static_cast<std::size_t>(std::clamp<std::int64_t>(integer_argument(indent), 0, 1000)), ' ');
    }
  }

  void new_line(int depth) {
    if (!indent_) return;
    text_ += '\n';
    heap_.charge_bytes(indent_->size() * static_cast<std::size_t>(depth));
    for (int i = 0; i < depth; ++i) text_ += *indent_;
  }

  void append_string(std::string_view text) {
    heap_.charge_bytes(text.size());
    text_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const char32_t c = next_code_point(text, at);
      constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
      const auto escape = c < 128 ? kEscaped.find(static_cast<char>(c)) : kEscaped.npos;
      if (escape != kEscaped.npos)
        text_.append(1, '\\').append(1, kLetters[escape]);
      else if (c < 0x20 || (ascii_ && c >= 0x7F && c < 0x10000 && c != 0x7F))
        text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      else if (ascii_ && c >= 0x10000)
        text_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0U + (c >> 10U), 0xDC00U + (c & 0x3FFU));
      else
        text_.append(text.substr(begin, at - begin));
    }
    text_ += '"';
  }

  static std::string number_text(const Value& value) {
    if (value.is(Kind::kBoolean)) return value.boolean ? "true" : "false";
    if (!value.is(Kind::kFloat)) return std::to_string(value.integer);
    if (std::isnan(value.real)) return "NaN";
    return std::isinf(value.real) ? (value.real < 0 ? "-Infinity" : "Infinity") : real_text(value.real);
  }

  std::string key_text(const Value& key) const {
    if (key.is_string()) return key.text();
    if (key.is(Kind::kNone)) return "null";
    if (key.is_number()) return number_text(key);
    throw Failure(fmt::format("tojson: keys must be strings or numbers, not {}", type_name(key)));
  }

  void append(const Value& value, int depth) {
    if (depth > 200) throw Failure("tojson: values are nested deeper than 200");
    heap_.charge_bytes(16);
    if (value.is_string()) {
      append_string(value.text());
    } else if (value.is(Kind::kNone)) {
      text_ += "null";
    } else if (value.is_number()) {
      text_ += number_text(value);
    } else if (value.is(Kind::kList) || value.is(Kind::kTuple)) {
      append_list(value.sequence->items, depth);
    } else if (value.is(Kind::kDict)) {
      append_dict(*value.dict, depth);
    } else {
      throw Failure(fmt::format("tojson: a value of type {} is no JSON", type_name(value)));
    }
  }

  void append_list(const std::vector<Value>& items, int depth) {
    if (items.empty()) {
      text_ += "[]";
      return;
    }
    const char* separator = "[";
    for (const Value& item : items) {
      text_ += *separator == '[' ? "[" : item_separator_;
      separator = "";
      new_line(depth + 1);
      append(item, depth + 1);
    }
    new_line(depth);
    text_ += ']';
  }

  void append_dict(const Dict& dict, int depth) {
    if (dict.entries.empty()) {
      text_ += "{}";
      return;
    }
    auto entries = dict.entries;
    if (sort_keys_)
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto& a, const auto& b) { return is_less(heap_, a.first, b.first); });
    const char* separator = "{";
    for (const auto& [key, value] : entries) {
      text_ += *separator == '{' ? "{" : item_separator_;
      separator = "";
      new_line(depth + 1);
      append_string(key_text(key));
      text_ += key_separator_;
      append(value, depth + 1);
    }
    new_line(depth);
    text_ += '}';
  }

  Heap& heap_;
  std::string text_;
  std::optional<std::string> indent_;
  std::string item_separator_ = ", ", key_separator_ = ": ";
  bool ascii_ = false, sort_keys_ = false;
};

}  // namespace

Value to_json(Heap& heap, const Value& value, const Arguments& arguments) {
  return heap.string(JsonText(heap, arguments).write(value));
}

Value from_json(Heap& heap, const nlohmann::ordered_json& json) {
  if (json.is_string()) return heap.string(json.get<std::string>());
  if (json.is_boolean()) return Value::of(json.get<bool>());
  if (json.is_number_float()) return Value::of(json.get<double>());
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX)
    throw Failure("an integer of more than 64 bits");
  if (json.is_number()) return Value::of(json.get<std::int64_t>());
  if (json.is_array()) {
    std::vector<Value> items;
    for (const auto& item : json) items.push_back(from_json(heap, item));
    return heap.list(std::move(items));
  }
  if (!json.is_object()) return Value::none();
  const Value dict = heap.dict();
  for (const auto& [key, value] : json.items())
    set(heap, *dict.dict, heap.string(key), from_json(heap, value));
  return dict;
}

std::size_t json_bytes(const nlohmann::ordered_json& json) {
  if (json.is_string()) return sizeof(String) + json.get_ref<const std::string&>().size();
  std::size_t size = sizeof(Value);
  if (json.is_structured())
    for (const auto& [key, value] : json.items()) size += sizeof(String) + key.size() + json_bytes(value);
  return size;
}

}  // namespace keyscope::jinja

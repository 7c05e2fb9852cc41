#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keyscope::tokenizer {

// One part of a Jinja template.
struct TemplateTag {
  enum class Kind { kText, kOutput, kStatement };
  Kind kind = Kind::kText;
  std::string text;  // the text itself; for {{ … }} and {% … %} what stands between the marks
};

// The parts of a Jinja template in order, comments left out. White space around tags is dropped as
// Transformers renders: `trim_blocks` and `lstrip_blocks` are on, `-` strips, `+` keeps.
//   returns nullopt where a tag, a string or a bracket is not closed
//   source: Jinja 3.1, "Template Designer Documentation", Whitespace Control
std::optional<std::vector<TemplateTag>> split_template(std::string_view source);

}  // namespace keyscope::tokenizer

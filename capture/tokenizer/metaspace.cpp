#include "capture/tokenizer/metaspace.hpp"

#include "base/text.hpp"

namespace keyscope::tokenizer {
namespace {

Metaspace::Prepend read_prepend(const JsonField& field) {
  const auto scheme = field.optional("prepend_scheme");
  if (!scheme)
    return field.boolean_or("add_prefix_space", true) ? Metaspace::Prepend::kAlways
                                                      : Metaspace::Prepend::kNever;
  const std::string name = scheme->string();
  if (name == "always") return Metaspace::Prepend::kAlways;
  if (name == "first") return Metaspace::Prepend::kFirst;
  if (name == "never") return Metaspace::Prepend::kNever;
  scheme->fail(in_quotes(name), "always, first or never");
}

}  // namespace

Metaspace read_metaspace(const JsonField& field) {
  Metaspace metaspace;
  const JsonField replacement = field.member("replacement");
  metaspace.replacement = replacement.string();
  std::size_t end = 0;
  if (!metaspace.replacement.empty()) next_code_point(metaspace.replacement, end);
  if (end == 0 || end != metaspace.replacement.size())
    replacement.fail(in_quotes(metaspace.replacement), "one character");
  metaspace.prepend = read_prepend(field);
  metaspace.split = field.boolean_or("split", true);
  return metaspace;
}

}  // namespace keyscope::tokenizer

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace keyscope::tokenizer {

// Conditions of a Jinja template whose truth is known, as condition_text spells them.
using KnownConditions = std::map<std::string, bool>;

// A condition in the spelling of skeletons.
//   throws InvalidInput on text that is no expression
std::string condition_text(std::string_view condition);

// What a Jinja template does, in one spelling: comments, white space that is not printed, quotes, redundant
// brackets and the cutting of printed text make no difference, and branches that `known` rules out are gone,
// whatever they hold. Templates with equal skeletons print the same wherever `known` holds.
//   returns nullopt where the template is not well formed, or uses what is not followed here (raw, for …
//   else, nesting deeper than 64)
std::optional<std::string> template_skeleton(std::string_view source, const KnownConditions& known);

// How {{ name }} stands in a skeleton; no printed text can hold it.
std::string skeleton_output(std::string_view name);

// Whether a part of a skeleton is printed text alone.
bool is_plain_text(std::string_view part);

}  // namespace keyscope::tokenizer

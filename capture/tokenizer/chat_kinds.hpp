#pragma once

#include <string>
#include <vector>

#include "capture/tokenizer/template_skeleton.hpp"

namespace keyscope::tokenizer {

// One kind of chat template: how it is recognised, and what it prints for one user's turn.
//
// Prompts are written with slots: {bos} and {eos} of the model, the texts {user} and {system}, {date} as "26
// Jul 2024", {default} for the system text that the template itself holds; what stands between {strip} and
// {/strip} loses its white space at both ends, as Python's str.strip takes it.
struct ChatKind {
  std::string name;  // the families that have it
  std::string
      source;  // a template of this kind, reduced to its skeleton; {{ default_system }} stands for any text
  std::string prompt;               // without a system text
  std::string with_system;          // with one; empty where the template has no place for it
  bool drops_empty_system = false;  // an empty system text counts as none
};

// Every kind that is known.
const std::vector<ChatKind>& chat_kinds();

// What holds where a template is given messages of `system` and `user` alone, no tools, and asked for the
// generation prompt, as Transformers' apply_chat_template does it.
const KnownConditions& plain_chat_conditions();

}  // namespace keyscope::tokenizer

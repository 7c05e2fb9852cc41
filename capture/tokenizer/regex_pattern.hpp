#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "capture/tokenizer/split_pattern.hpp"

namespace keyscope::tokenizer {

// A regular expression through PCRE2, with Unicode classes: the way for split patterns that no scanner knows,
// and the scanners' oracle in tests. Time per match is bounded by a limit, not linear.
// PCRE2's \s has U+180E besides White_Space; the tokenizers library's has not.
class RegexPattern : public SplitPattern {
 public:
  //   throws InvalidInput, with PCRE2's words, on an expression that does not compile
  explicit RegexPattern(const std::string& expression);
  ~RegexPattern() override;

  void find_all(std::string_view text, StretchSink sink) const override;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace keyscope::tokenizer

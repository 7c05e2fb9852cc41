#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/callback_ref.hpp"

namespace keyscope {

// A regular expression over UTF-8, through Oniguruma. Immutable: safe from several threads.
class Regex {
 public:
  enum class Syntax {
    kOniguruma,  // its own, as the tokenizers library uses it: \h is a hexadecimal digit, {1,3}+ is greedy
    kPython,     // that of Python's `re`, with Unicode's classes
  };

  //   throws InvalidInput, with Oniguruma's words, on an expression that does not compile
  explicit Regex(const std::string& expression, Syntax syntax = Syntax::kOniguruma);
  ~Regex();
  Regex(Regex&&) noexcept;

  // Where a match or one of its groups lies in the text.
  struct Range {
    std::size_t begin = std::string::npos, end = std::string::npos;  // npos: a group that took no part

    bool found() const { return begin != std::string::npos; }
  };
  // Receives the whole match, which may be empty, and behind it its groups.
  using MatchVisitor = CallbackRef<void(std::span<const Range> groups)>;

  // Visits the matches that do not overlap, from left to right; an empty one right behind another is none.
  //   text: valid UTF-8
  //   throws InvalidInput where all of that takes more than a second of the processor, and a microsecond more
  //   for every byte of the text: an expression that goes back and forth is an error and no long wait
  void for_each_match(std::string_view text, MatchVisitor visit) const;

 private:
  struct Compiled;
  class Search;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace keyscope

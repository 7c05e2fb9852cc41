#include "base/regex.hpp"

#define ONIG_ESCAPE_UCHAR_COLLISION  // ICU has a UChar of its own

#include <algorithm>
#include <new>
#include <vector>

#include <fmt/format.h>
#include <oniguruma.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope {

namespace {

// As many as the tokenizers library allows one match, which is less than a second's work.
constexpr unsigned long kMostRetries = 10'000'000;
constexpr unsigned long kRetriesPerByte = 64;

const OnigUChar* units(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

std::string message_of(int code, OnigErrorInfo* info = nullptr) {
  OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN + 1];
  const int length =
      info != nullptr ? onig_error_code_to_str(message, code, info) : onig_error_code_to_str(message, code);
  return {reinterpret_cast<const char*>(message), static_cast<std::size_t>(std::max(length, 0))};
}

void start_library() {
  static const int status = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1);
  }();
  if (status != ONIG_NORMAL) throw Error("Oniguruma could not be started: " + message_of(status));
}

}  // namespace

struct Regex::Compiled {
  struct Free {
    void operator()(regex_t* owned) const { onig_free(owned); }
    void operator()(OnigRegion* owned) const { onig_region_free(owned, 1); }
    void operator()(OnigMatchParam* owned) const { onig_free_match_param(owned); }
  };
  std::string expression;
  std::unique_ptr<regex_t, Free> regex;
};

Regex::Regex(const std::string& expression, Syntax syntax) : compiled_(std::make_unique<Compiled>()) {
  start_library();
  compiled_->expression = expression;
  const std::string_view kept = compiled_->expression;  // messages point into it
  regex_t* regex = nullptr;
  OnigErrorInfo info{};
  const int status =
      onig_new(&regex, units(kept), units(kept) + kept.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
               syntax == Syntax::kPython ? ONIG_SYNTAX_PYTHON : ONIG_SYNTAX_DEFAULT, &info);
  if (status != ONIG_NORMAL) throw InvalidInput(message_of(status, &info));
  compiled_->regex.reset(regex);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

void Regex::for_each_match(std::string_view text, MatchVisitor visit) const {
  const std::unique_ptr<OnigRegion, Compiled::Free> region(onig_region_new());
  const std::unique_ptr<OnigMatchParam, Compiled::Free> limits(onig_new_match_param());
  if (!region || !limits) throw std::bad_alloc();
  onig_initialize_match_param(limits.get());
  onig_set_retry_limit_in_match_of_match_param(limits.get(), kMostRetries);
  onig_set_retry_limit_in_search_of_match_param(limits.get(), kMostRetries + kRetriesPerByte * text.size());
  const OnigUChar* begin = units(text);
  const OnigUChar* end = begin + text.size();
  std::vector<Range> groups;
  std::size_t last_end = std::string::npos;
  for (std::size_t from = 0; from <= text.size();) {
    const int found = onig_search_with_param(compiled_->regex.get(), begin, end, begin + from, end,
                                             region.get(), ONIG_OPTION_NONE, limits.get());
    if (found == ONIG_MISMATCH) return;
    if (found < 0)
      throw InvalidInput(fmt::format("the expression {} gave up at byte {} of the text: {}",
                                     shown(compiled_->expression), from, message_of(found)));
    groups.assign(region->num_regs, Range());
    for (int i = 0; i < region->num_regs; ++i)
      if (region->beg[i] >= 0)
        groups[i] = {static_cast<std::size_t>(region->beg[i]), static_cast<std::size_t>(region->end[i])};
    const Range match = groups.front();
    if (match.begin < from || match.end < match.begin)
      throw InvalidInput(fmt::format("the expression {}: \\K in a look-around is not supported",
                                     shown(compiled_->expression)));
    from = match.end;
    if (match.begin == match.end && match.end == last_end) {
      if (from == text.size()) return;
      next_code_point(text, from);
      continue;
    }
    last_end = match.end;
    visit(groups);
  }
}

}  // namespace keyscope

#include "base/regex.hpp"

#define ONIG_ESCAPE_UCHAR_COLLISION  // ICU has a UChar of its own

#include <algorithm>
#include <chrono>
#include <ctime>
#include <new>
#include <vector>

#include <fmt/format.h>
#include <oniguruma.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope {

namespace {

// A search goes back so many times before it is looked at how long all have taken; then twice as many, from
// where it began.
constexpr unsigned long kFirstRetries = 1 << 16;
constexpr double kMostSeconds = 1, kSecondsPerByte = 1e-6;  // of the processor

// Of this thread.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

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

// The searches of one text, and what they have taken.
class Regex::Search {
 public:
  Search(const Compiled& compiled, std::string_view text)
      : compiled_(compiled), text_(text), region_(onig_region_new()), limits_(onig_new_match_param()) {
    if (!region_ || !limits_) throw std::bad_alloc();
    onig_initialize_match_param(limits_.get());
  }

  // Whether there is a match from there on; `region` says where.
  bool from(std::size_t at) {
    const OnigUChar *begin = units(text_), *end = begin + text_.size();
    for (unsigned long retries = kFirstRetries;; retries *= 2) {
      onig_set_retry_limit_in_match_of_match_param(limits_.get(), retries);
      onig_set_retry_limit_in_search_of_match_param(limits_.get(), retries + text_.size());
      const auto started = std::chrono::steady_clock::now();
      const int found = onig_search_with_param(compiled_.regex.get(), begin, end, begin + at, end,
                                               region_.get(), ONIG_OPTION_NONE, limits_.get());
      searched_ += std::chrono::steady_clock::now() - started;
      check_time(at);
      if (found >= 0) return true;
      if (found == ONIG_MISMATCH) return false;
      if (found != ONIGERR_RETRY_LIMIT_IN_MATCH_OVER && found != ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER)
        give_up(at, message_of(found));
    }
  }
  const OnigRegion& region() const { return *region_; }

 private:
  // Both: what is done with matches is not the expression's, nor what other threads take of a processor.
  void check_time(std::size_t at) const {
    const double most = kMostSeconds + kSecondsPerByte * static_cast<double>(text_.size());
    if (searched_.count() > most && processor_seconds() - began_ > most)
      give_up(at, fmt::format("it has gone back and forth for more than {:.1f} seconds", most));
  }
  [[noreturn]] void give_up(std::size_t at, const std::string& why) const {
    throw InvalidInput(fmt::format("the expression {} gave up at byte {} of the text: {}",
                                   shown(compiled_.expression), at, why));
  }

  const Compiled& compiled_;
  std::string_view text_;
  std::unique_ptr<OnigRegion, Compiled::Free> region_;
  std::unique_ptr<OnigMatchParam, Compiled::Free> limits_;
  double began_ = processor_seconds();
  std::chrono::duration<double> searched_{};
};

void Regex::for_each_match(std::string_view text, MatchVisitor visit) const {
  Search search(*compiled_, text);
  const OnigRegion* const region = &search.region();
  std::vector<Range> groups;
  std::size_t last_end = std::string::npos;
  for (std::size_t from = 0; from <= text.size();) {
    if (!search.from(from)) return;
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

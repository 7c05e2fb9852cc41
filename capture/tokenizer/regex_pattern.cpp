#include "capture/tokenizer/regex_pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <cstdint>

#include <fmt/format.h>
#include <pcre2.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::tokenizer {
namespace {

// Generous for sane patterns (a few steps a character), seconds at most for catastrophic ones.
constexpr std::uint32_t kMatchLimit = 50'000'000;
constexpr std::uint32_t kHeapLimitKib = 1U << 20;

std::string pcre2_message(int code) {
  PCRE2_UCHAR message[256];
  if (pcre2_get_error_message(code, message, sizeof message) < 0) return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(message);
}

struct FreePcre2 {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct RegexPattern::Compiled {
  std::string expression;
  std::unique_ptr<pcre2_code, FreePcre2> code;
  std::unique_ptr<pcre2_match_context, FreePcre2> context;
};

RegexPattern::RegexPattern(const std::string& expression) : compiled_(std::make_unique<Compiled>()) {
  int error = 0;
  PCRE2_SIZE where = 0;
  compiled_->expression = expression;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &where,
                                      nullptr));
  if (!compiled_->code) throw InvalidInput(fmt::format("{} at byte {}", pcre2_message(error), where));
  compiled_->context.reset(pcre2_match_context_create(nullptr));
  if (!compiled_->context) throw std::bad_alloc();
  pcre2_set_match_limit(compiled_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(compiled_->context.get(), kHeapLimitKib);
}

RegexPattern::~RegexPattern() = default;

void RegexPattern::find_all(std::string_view text, StretchSink sink) const {
  const std::unique_ptr<pcre2_match_data, FreePcre2> data(
      pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  if (!data) throw std::bad_alloc();
  std::size_t gap = 0;
  for (std::size_t from = 0; from <= text.size();) {
    const int found =
        pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                    PCRE2_NO_UTF_CHECK, data.get(), compiled_->context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      throw InvalidInput(fmt::format("the split pattern {} gave up at byte {} of the text: {}",
                                     in_quotes(compiled_->expression), from, pcre2_message(found)));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    if (range[1] < range[0]) throw InvalidInput("a split pattern with \\K in a look-around is not supported");
    if (gap < range[0]) sink(gap, range[0], false);
    if (range[0] < range[1]) sink(range[0], range[1], true);
    gap = range[1];
    from = range[1];
    // An empty match cuts here and the search goes on behind the next character.
    if (range[0] == range[1]) {
      if (from == text.size()) break;
      next_code_point(text, from);
    }
  }
  if (gap < text.size()) sink(gap, text.size(), false);
}

}  // namespace keyscope::tokenizer

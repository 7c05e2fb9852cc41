#include "app/evaluation/substitution.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <cstdint>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <pcre2.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::evaluation {
namespace {

// A few steps a character for the expressions here; bounds the time on texts made to be slow.
constexpr std::uint32_t kMatchLimit = 50'000'000;

std::string pcre2_message(int code) {
  PCRE2_UCHAR message[256];
  if (pcre2_get_error_message(code, message, sizeof message) < 0) return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(message);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct FreePcre2 {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct Substitution::Compiled {
  std::string expression, replacement;
  std::unique_ptr<pcre2_code, FreePcre2> code;
  std::unique_ptr<pcre2_match_context, FreePcre2> context;
};

Substitution::Substitution(const std::string& expression, std::string replacement)
    : compiled_(std::make_unique<Compiled>()) {
  int error = 0;
  PCRE2_SIZE where = 0;
  compiled_->expression = expression;
  compiled_->replacement = std::move(replacement);
  compiled_->code.reset(
      pcre2_compile(units(expression), expression.size(), PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr));
  if (!compiled_->code)
    throw InvalidInput(fmt::format("{}: {} at byte {}", expression, pcre2_message(error), where));
  compiled_->context.reset(pcre2_match_context_create(nullptr));
  if (!compiled_->context) throw std::bad_alloc();
  pcre2_set_match_limit(compiled_->context.get(), kMatchLimit);
}

Substitution::~Substitution() = default;
Substitution::Substitution(Substitution&&) noexcept = default;

std::string Substitution::apply(std::string_view text) const {
  std::string buffer;
  const std::string_view valid = tokenizer::replace_invalid_utf8(text, buffer);
  constexpr std::uint32_t kOptions = PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH;
  std::string result(valid.size() + 64, '\0');
  // Once more with room for all of it, where the first guess was too little.
  for (;;) {
    PCRE2_SIZE size = result.size();
    const int n =
        pcre2_substitute(compiled_->code.get(), units(valid), valid.size(), 0, kOptions, nullptr,
                         compiled_->context.get(), units(compiled_->replacement),
                         compiled_->replacement.size(), reinterpret_cast<PCRE2_UCHAR*>(result.data()), &size);
    if (n == PCRE2_ERROR_NOMEMORY && size > result.size()) {
      result.resize(size);
      continue;
    }
    if (n < 0)
      throw InvalidInput(fmt::format("the expression {} gave up on a text of {} bytes: {}",
                                     compiled_->expression, valid.size(), pcre2_message(n)));
    result.resize(size);
    return result;
  }
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace keyscope::evaluation

#include "app/evaluation/utf8_option.hpp"

#include <string>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::evaluation {

void check_utf8(std::string_view value, std::string_view option) {
  std::string buffer;
  const std::string_view valid = tokenizer::replace_invalid_utf8(value, buffer);
  if (valid.data() != value.data())
    throw UsageError(fmt::format(
        "{}: {} is no UTF-8; expected a name or text in UTF-8, since results, which hold it, are JSON",
        option, valid));
}

}  // namespace keyscope::evaluation

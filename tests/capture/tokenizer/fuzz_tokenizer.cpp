// libFuzzer target: the input's first line is a text, the rest a tokenizer.json.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/errors.hpp"
#include "capture/tokenizer/tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view text = input.substr(0, line);
  try {
    const auto tokenizer =
        keyscope::tokenizer::Tokenizer::parse(input.substr(std::min(line + 1, input.size())), "input");
    const auto ids = tokenizer->encode(text, true);
    const auto shares = tokenizer->token_text(ids);
    if (shares.text != tokenizer->decode(ids)) std::abort();
  } catch (const keyscope::Error&) {
    // One sentence about what is wrong: what a damaged file should give.
  }
  return 0;
}

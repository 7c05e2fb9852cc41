// libFuzzer target: the input's first line is a text, the rest a tokenizer.model.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "capture/tokenizer/composed_tokenizer.hpp"
#include "tests/support/fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [text, model] = keyscope::test::first_line(keyscope::test::as_text(data, size));
  keyscope::test::read_or_refuse([&, text = text, model = model] {
    const auto tokenizer = keyscope::tokenizer::load_sentencepiece("/nowhere/tokenizer.model", model);
    const auto ids = tokenizer->encode(text, true);
    if (tokenizer->token_text(ids).text != tokenizer->decode(ids)) std::abort();
  });
  return 0;
}

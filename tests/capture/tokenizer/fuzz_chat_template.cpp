// libFuzzer target: the input's first line is a request in JSON, or empty for one user's turn; the rest is a
// chat template, which renders, fails or is refused, within its limits.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "capture/tokenizer/chat_template.hpp"
#include "tests/support/fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace keyscope;
  const auto [request, source] = test::first_line(test::as_text(data, size));
  test::read_or_refuse([&, request = request, source = source] {
    const tokenizer::ChatTemplate chat(source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, "input");
    if (request.empty())
      chat.render("user", std::nullopt, tokenizer::local_now());
    else
      tokenizer::chat_text(chat, request, {.chat = false, .system = std::nullopt, .messages = "request"});
  });
  return 0;
}

// libFuzzer target: the input is a chat template, which renders, fails or is refused, within its limits.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/errors.hpp"
#include "capture/tokenizer/chat_template.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const keyscope::tokenizer::ChatTemplate chat(input, {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
                                                 "input");
    chat.render("user", std::nullopt, keyscope::tokenizer::local_now());
  } catch (const keyscope::FileError&) {
    // No Jinja, or it failed.
  } catch (const keyscope::UsageError&) {
    // It refuses the messages.
  }
  return 0;
}

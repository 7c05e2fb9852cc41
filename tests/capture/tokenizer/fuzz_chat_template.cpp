// libFuzzer target: the input is a chat template; what is recognised must render.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/errors.hpp"
#include "capture/tokenizer/chat_template.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace std::chrono_literals;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const keyscope::tokenizer::ChatTemplate chat(input, {"<s>", "</s>"}, "input");
    if (chat.render("user", std::nullopt, 2024y / std::chrono::July / 26).find("user") == std::string::npos)
      std::abort();
  } catch (const keyscope::FileError&) {
    // Of no known kind, as almost every input.
  }
  return 0;
}

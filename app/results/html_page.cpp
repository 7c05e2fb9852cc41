#include "app/validation/html_text.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/text.hpp"

namespace keyscope::validation {

std::string html_text(std::string_view text) {
  std::string buffer, escaped;
  for (const char c : tokenizer::replace_invalid_utf8(text, buffer)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (c == '\'')
      escaped += "&#39;";
    else
      escaped += byte < 0x20 || byte == 0x7F ? ' ' : c;
  }
  return escaped;
}

std::string data_url(std::string_view media_type, std::string_view bytes) {
  std::string base64((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends it with a zero
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  base64.resize(static_cast<std::size_t>(length));
  return fmt::format("data:{};base64,{}", media_type, base64);
}

}  // namespace keyscope::validation

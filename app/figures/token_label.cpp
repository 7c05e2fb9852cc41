#include "app/figures/token_label.hpp"

#include <fmt/format.h>

namespace keyscope::figures {
namespace {

// Bytes of the well-formed UTF-8 character at the start of `text`; 0 if there is none (Unicode, table 3-7).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool sound = !(lead == 0xE0 && byte(1) < 0xA0) && !(lead == 0xED && byte(1) > 0x9F);
    return sound && continues(1) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool sound = !(lead == 0xF0 && byte(1) < 0x90) && !(lead == 0xF4 && byte(1) > 0x8F);
    return sound && continues(1) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

std::string control_label(unsigned char byte) {
  if (byte == '\n') return "↵";
  if (byte == '\t') return "⇥";
  return fmt::format("<{:02X}>", byte);
}

std::string label(std::string_view bytes, bool show_leading_space) {
  std::string result;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = character_length(bytes.substr(at));
    const auto byte = static_cast<unsigned char>(bytes[at]);
    if (length == 0) {
      result += fmt::format("<{:02X}>", byte);
    } else if (length == 1 && (byte < 0x20 || byte == 0x7F)) {
      result += control_label(byte);
    } else if (byte == ' ' && show_leading_space && at == 0) {
      result += "·";
    } else {
      result += bytes.substr(at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return result;
}

}  // namespace

std::string token_label(std::string_view bytes) { return label(bytes, true); }

std::string text_label(std::string_view bytes) { return label(bytes, false); }

}  // namespace keyscope::figures

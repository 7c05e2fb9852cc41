#include "app/figures/labels.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "app/figures/axis_ticks.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

using recording::RecordingInfo;
using recording::RunInfo;
using recording::RunPlan;

constexpr std::size_t kLongestOnAxis = 24;  // letters of a label

const RunPlan& plan_of(const RecordingInfo& info, int run) { return info.runs[run].plan; }

nlohmann::json options_of(const RunPlan& plan) {
  const nlohmann::json options = parse_json(plan.parameters);
  return options.is_object() ? options : nlohmann::json::object();
}

std::string shown(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

// Options of a plan by name, with budget and block size as if they were two more.
std::vector<std::pair<std::string, std::string>> settings_of(const RunPlan& plan) {
  std::vector<std::pair<std::string, std::string>> settings;
  const nlohmann::json options = options_of(plan);  // outlives the view of its items
  for (const auto& [key, value] : options.items()) settings.emplace_back(key, shown(value));
  settings.emplace_back("N =", format_count(plan.budget));
  settings.emplace_back("B =", format_count(plan.block_size));
  if (const analysis::CacheFormat& format = plan.cache_format; format.quantises())
    settings.emplace_back("cache", fmt::format("{} by {}", analysis::cache_dtype_name(format.dtype),
                                               analysis::cache_scales_name(format.scales)));
  return settings;
}

// The settings of a run that some other run of the same policy has otherwise.
std::string distinction(const RecordingInfo& info, const RunPlan& plan) {
  std::string text;
  for (const auto& setting : settings_of(plan)) {
    const bool differs = std::ranges::any_of(info.runs, [&](const RunInfo& other) {
      if (other.plan.policy != plan.policy) return false;
      const auto others = settings_of(other.plan);
      return std::ranges::find(others, setting) == others.end();
    });
    if (differs) text += fmt::format(", {} {}", setting.first, setting.second);
  }
  return text;
}

}  // namespace

std::string describe_plan(const RunPlan& plan) {
  std::string text = plan.policy;
  for (const auto& [name, value] : settings_of(plan)) text += fmt::format("\n{} {}", name, value);
  return text;
}

std::string run_label(const RecordingInfo& info, int run) {
  const RunPlan& plan = plan_of(info, run);
  const std::string label = plan.policy + distinction(info, plan);
  const auto same = std::ranges::count_if(info.runs, [&](const RunInfo& other) {
    return other.plan.policy + distinction(info, other.plan) == label;
  });
  return same > 1 ? plan.name : label;
}

RunNames name_runs(const RecordingInfo& info, const std::vector<int>& runs) {
  RunNames named;
  bool too_long = false;
  for (const int run : runs) {
    named.names.push_back(run_label(info, run));
    too_long = too_long || named.names.back().size() > kLongestOnAxis;
  }
  if (!too_long) return named;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunPlan& plan = plan_of(info, runs[i]);
    const std::string label = std::exchange(named.names[i], plan.name);
    if (const std::string lead = plan.policy + ", "; label.starts_with(lead))
      named.key += fmt::format(" {}: {}.", plan.name, label.substr(lead.size()));
  }
  return named;
}

std::string describe_budget(const RecordingInfo& info, const std::vector<int>& runs) {
  std::set<std::int64_t> budgets, block_sizes;
  for (const int run : runs) {
    const RunPlan& plan = plan_of(info, run);
    if (plan.policy == "none") continue;
    budgets.insert(plan.budget);
    block_sizes.insert(plan.block_size);
  }
  std::string text;
  if (budgets.size() == 1) text += fmt::format(", N = {}", format_count(*budgets.begin()));
  if (block_sizes.size() == 1) text += fmt::format(", B = {}", format_count(*block_sizes.begin()));
  return text;
}

namespace {

// Bytes of the well-formed UTF-8 character at the start of `text`; 0 if there is none (Unicode, table 3-7).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto continues = [&](std::size_t i) { return i < text.size() && continues_character(text[i]); };
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

std::string describe_keyless(const RecordingInfo& info) {
  if (info.keyless_layers.empty()) return "";
  const bool one = info.keyless_layers.size() == 1;
  return fmt::format("{} {} no keys: {} recurrent", counted(std::ssize(info.keyless_layers), "layer"),
                     one ? "has" : "have", one ? "its mixer is" : "their mixers are");
}

std::string token_label(std::string_view bytes) { return label(bytes, true); }

std::string text_label(std::string_view bytes) { return label(bytes, false); }

bool is_hard_wrapped(std::string_view text) {
  constexpr std::size_t kLeast = 45, kMost = 100;  // letters of such a line
  std::int64_t n_lines = 0, n_wrapped = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    ++n_lines;
    const bool indented = line.front() == ' ' || line.front() == '\t';
    n_wrapped += !indented && line.size() >= kLeast && line.size() <= kMost ? 1 : 0;
  }
  return n_lines >= 3 && 2 * n_wrapped >= n_lines;
}

bool breaks_line(std::string_view bytes, std::string_view before, bool flows) {
  const std::size_t first = bytes.find('\n');
  const bool one = first != std::string_view::npos && bytes.find('\n', first + 1) == std::string_view::npos;
  return first != std::string_view::npos && !(flows && one && !before.ends_with('\n'));
}

namespace {

struct PolicyLook {
  std::string_view policy;
  Colour colour;
  Marker marker;
};

// None of the colours and markers of what a key space shows besides: retained, evicted, anchor, mean query,
// queries. Colours by Okabe & Ito and by Tol, which are told apart with every common colour vision where few
// of them meet.
constexpr std::array kPolicyLooks{PolicyLook{"none", kBlack, Marker::kSquare},
                                  PolicyLook{"keydiff", kVermillion, Marker::kDownTriangle},
                                  PolicyLook{"snapkv", {0x7A, 0x5F, 0xD0}, Marker::kStar},
                                  PolicyLook{"sink", {0x44, 0xAA, 0x99}, Marker::kOpenDiamond},
                                  PolicyLook{"h2o", kSkyBlue, Marker::kOpenSquare},
                                  PolicyLook{"tova", {0xB0, 0x3A, 0x5B}, Marker::kPlus},
                                  PolicyLook{"random", {0x99, 0x99, 0x33}, Marker::kOpenDownTriangle},
                                  PolicyLook{"l2norm", {0x8C, 0x6D, 0x31}, Marker::kStar},
                                  PolicyLook{"logdet", {0x88, 0x44, 0x99}, Marker::kOpenSquare},
                                  PolicyLook{"leverage", {0x2A, 0x8A, 0x4A}, Marker::kPlus},
                                  PolicyLook{"cur", {0xC9, 0x5F, 0x74}, Marker::kOpenDiamond}};

constexpr std::array kMarkersInTurn{Marker::kDownTriangle, Marker::kStar, Marker::kOpenDiamond,
                                    Marker::kOpenSquare,   Marker::kPlus, Marker::kOpenDownTriangle,
                                    Marker::kSquare};

}  // namespace

PolicyLooks::Look policy_look(std::string_view policy) {
  const auto found = std::ranges::find(kPolicyLooks, policy, &PolicyLook::policy);
  if (found != kPolicyLooks.end()) return {found->colour, found->marker};
  // One that is not known here, by its name.
  std::size_t sum = 0;
  for (const char c : policy) sum = 31 * sum + static_cast<unsigned char>(c);
  const PolicyLook& look = kPolicyLooks[1 + sum % (kPolicyLooks.size() - 1)];
  return {look.colour, kMarkersInTurn[sum % kMarkersInTurn.size()]};
}

// The policy's own, while no other run of the figure has it; then its colour with the next markers, and where
// all are taken any that is free.
PolicyLooks::Look PolicyLooks::next(std::string_view policy) {
  const Look own = policy_look(policy);
  const auto at = std::ranges::find(kMarkersInTurn, own.marker) - kMarkersInTurn.begin();
  const std::size_t n_policies = kPolicyLooks.size(), n_markers = kMarkersInTurn.size();
  for (std::size_t i = 0; i < n_policies * n_markers; ++i) {
    Look look = own;
    if (i > 0) look.marker = kMarkersInTurn[(static_cast<std::size_t>(at) + i) % n_markers];
    if (i >= n_markers) look.colour = kPolicyLooks[i / n_markers].colour;
    if (std::ranges::find(taken_, look) != taken_.end()) continue;
    taken_.push_back(look);
    return look;
  }
  return own;
}

namespace {

constexpr std::array<std::string_view, 6> kNames{"letters", "digits",  "punctuation",
                                                 "space",   "newline", "special"};

bool has_form_of_control_token(std::string_view text) {
  if (text.size() < 3) return false;
  if (text.front() == '<' && text.back() == '>') return true;
  const auto capital = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; };
  return text.front() == '[' && text.back() == ']' &&
         std::ranges::all_of(text.substr(1, text.size() - 2), capital);
}

// Letters with their marks; numbers of every script; what is neither can be seen, and is punctuation or a
// sign.
TokenClass class_of(UChar32 character) {
  if (u_isalpha(character) || (U_GET_GC_MASK(character) & U_GC_M_MASK) != 0) return TokenClass::kLetters;
  if ((U_GET_GC_MASK(character) & U_GC_N_MASK) != 0) return TokenClass::kDigits;
  return u_isgraph(character) ? TokenClass::kPunctuation : TokenClass::kSpecial;
}

}  // namespace

std::span<const std::string_view> token_class_names() { return kNames; }

TokenClass token_class(std::string_view bytes) {
  if (bytes.empty() || has_form_of_control_token(bytes)) return TokenClass::kSpecial;
  const auto* text = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto length = static_cast<std::int32_t>(bytes.size());
  bool breaks = false;
  for (std::int32_t at = 0; at < length;) {
    UChar32 character = 0;
    U8_NEXT(text, at, length, character);
    if (character < 0) return TokenClass::kSpecial;
    if (!u_isUWhiteSpace(character)) return class_of(character);
    breaks = breaks || character == '\n' || character == '\r';
  }
  return breaks ? TokenClass::kNewline : TokenClass::kSpace;
}

}  // namespace keyscope::figures

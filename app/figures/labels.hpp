#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// What a run is called beside the others of its recording: the policy, and where several runs have it, the
// options, budget and block size in which they differ: "keydiff, anchor median". The run's own name where
// nothing tells them apart.
std::string run_label(const recording::RecordingInfo& info, int run);

// A run's policy with all its options, budget and block size, a line each.
std::string describe_plan(const recording::RunPlan& plan);

// Runs as the places of an axis: by their labels, or where one is too long to be read there by the runs' own
// names, with a key to them for the caption: " keydiff-2: anchor median, recent 0." Without one it is empty.
struct RunNames {
  std::vector<std::string> names;
  std::string key;
};
RunNames name_runs(const recording::RecordingInfo& info, const std::vector<int>& runs);

// What all evicting runs among these have in common, for a caption: ", N = 64, B = 128", or the part of it
// that they share.
std::string describe_budget(const recording::RecordingInfo& info, const std::vector<int>& runs);

// "6 layers have no keys: their mixers are recurrent"; empty where all recorded layers have some.
std::string describe_keyless(const recording::RecordingInfo& info);

// A token's bytes as one readable line: a leading space as "·", line breaks as "↵", tabs as "⇥", other
// control characters and bytes that are no UTF-8 as "<0A>".
std::string token_label(std::string_view bytes);

// The same for running text: spaces stay spaces.
std::string text_label(std::string_view bytes);

// Whether most lines of a text were broken to a width, as prose often is, so that they may be broken anew.
bool is_hard_wrapped(std::string_view text);

// Whether running text that is shown token by token has a new line after a token.
//   before: the token before it
//   flows: single line breaks are passed over, so that lines fill; blank lines stay
bool breaks_line(std::string_view bytes, std::string_view before, bool flows);

// How policies are drawn where several are compared: each has one colour and one marker in every figure, none
// of them those of what is retained and what is evicted. Of several runs of one policy in a figure each has
// its colour, with another marker.
class PolicyLooks {
 public:
  struct Look {
    Colour colour;
    Marker marker = Marker::kSquare;
    bool operator==(const Look&) const = default;
  };

  // The look of the next run, by its policy.
  Look next(std::string_view policy);

 private:
  std::vector<Look> taken_;
};

PolicyLooks::Look policy_look(std::string_view policy);

// What a token looks like in the text. The numbers are values on a colour scale.
enum class TokenClass : std::uint8_t { kLetters, kDigits, kPunctuation, kSpace, kNewline, kSpecial };

std::span<const std::string_view> token_class_names();  // in that order

// The class of a token by its bytes: newline where it has a line break and nothing that can be seen, space
// where it is white only, else by its first character that is not white. Special are tokens of no text,
// tokens in the form of control tokens such as <s>, <|end|> or [SEP], and parts of characters, which are no
// UTF-8.
TokenClass token_class(std::string_view bytes);

}  // namespace keyscope::figures

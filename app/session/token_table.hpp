#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/session/tokens.hpp"
#include "app/session/token_selection.hpp"

namespace keyscope::session {

// Every token of a head that was seen by the end of a block, with what is known of it, in time order.
//   only: of these, those that are wanted; null: all
std::vector<TokenFacts> token_table(const recording::RecordingInfo& info, const HeadPoints& points,
                                    std::int64_t block, const TokenSet* only = nullptr);

// As text. Columns and fields have one name each; what is not known is empty and null. Token texts are their
// bytes, where these are no UTF-8 with the replacement character.
//   where: of what they are, such as the options that select it; a field of the JSON
std::string tokens_as_csv(const recording::RecordingInfo& info, int run,
                          const std::vector<TokenFacts>& tokens);
std::string tokens_as_json(const recording::RecordingInfo& info, int run,
                           const std::vector<TokenFacts>& tokens, const std::string& where);

}  // namespace keyscope::session

#pragma once

#include <cstdint>

#include "app/figures/token_order.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::figures {

// The order of a matrix beside it: `token` and `retained`, an entry per row and column, and `linkage`, its
// tree as scipy.cluster.hierarchy has it: a row per merge, of both clusters, height and number of rows.
void write_order(recording::hdf5::Group& group, const TokenOrder& order);

//   n_places: of the matrix
//   throws FileError where a list has another length, or the tree is none, naming the dataset
TokenOrder read_order(const recording::hdf5::Group& group, std::int64_t n_places);

// Gives the places their texts, as far as they are tokens of the prompt.
void name_tokens(TokenOrder& order, const recording::TokenText& prompt);

}  // namespace keyscope::figures

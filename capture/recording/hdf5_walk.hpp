#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "capture/recording/hdf5_node.hpp"

namespace keyscope::recording::hdf5 {

// Walks what a file says of itself in a process of its own, which a damaged file may bring down instead of
// this one: HDF5 1.10 follows addresses, sizes and trees that a changed byte has made up. The process has a
// limit of memory and of time; it opens every object, reads every attribute and goes through the index of
// every chunked dataset, and reads no row. What is merely wrong is left to whoever reads it.
// The texts of variable length that it has read it hands over, so that nobody has HDF5 read them again.
//   part: a group of the root that will be read, such as "entry_2"; empty: all of the file, or, where it has
//   more than kMostParts parts, what these say of themselves and of their members
//   returns null where nothing is walked: see walk_files
//   throws FileError naming the place where it crashed, took too long or asked for too much
//   A file that was found sound is not walked again while its inode, size and time stay what they are.
std::shared_ptr<const Texts> require_sound(const std::filesystem::path& file, const std::string& part = "");

inline constexpr int kMostParts = 8;

// What is expected in place of a damaged file, and what to do.
inline constexpr std::string_view kAsWritten =
    "expected a file as it was written, so copy it anew, or make it again";

// Whether files are walked; a fuzzer, which wants to see the crash itself, does without.
void walk_files(bool walk);

}  // namespace keyscope::recording::hdf5

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace keyscope::evaluation {

// A text that needles are put into, with the places where it can be cut and opened, in bytes.
struct Haystack {
  std::string text;
  std::vector<std::size_t> word_ends;      // ascending, after each word with its punctuation
  std::vector<std::size_t> sentence_ends;  // ascending, among them: after . ! or ?, with quotes and brackets

  // The first n words. Where these end within a sentence, it is closed with a full stop.
  Haystack first_words(std::size_t n) const;
};

// Finds words and sentences.
Haystack make_haystack(std::string text);

// At least n_bytes of sentences from a small grammar, drawn by the seed: plain English, without a digit and
// without a capital letter but at the beginnings. Of a longer text of the same seed it is the beginning.
std::string generated_text(std::size_t n_bytes, std::uint64_t seed);

// A file's text, or those of all files in a folder, in the order of their names, an empty line between two.
//   throws FileError where it cannot be read, is no UTF-8 or has no sentence
std::string read_texts(const std::filesystem::path& file_or_folder);

// At least n_bytes of a text from a sentence on that the seed draws, begun again where it ends.
//   text: with one sentence at least
std::string turned_text(const Haystack& text, std::size_t n_bytes, std::uint64_t seed);

}  // namespace keyscope::evaluation

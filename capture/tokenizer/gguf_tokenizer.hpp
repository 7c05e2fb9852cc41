#pragma once

#include <string>

#include "capture/gguf/gguf.hpp"

namespace keyscope::tokenizer {

// What a GGUF file holds of its tokenizer, as the texts of the files that a Hugging Face folder has for it:
// from there on it is a tokenizer as any other.

// tokenizer.json: byte-level BPE ("gpt2", split as `tokenizer.ggml.pre` says), and SentencePiece's BPE and
// unigram models ("llama").
//   throws FileError where the file has none, it is of another kind or split in a way that is not known, each
//   by name, and where its lists contradict each other
std::string gguf_tokenizer_json(const gguf::Container& file);

// tokenizer_config.json: the chat templates, and special tokens by the names that they know them under.
std::string gguf_tokenizer_config(const gguf::Container& file);

}  // namespace keyscope::tokenizer

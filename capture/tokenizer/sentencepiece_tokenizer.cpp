#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sentencepiece_processor.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/tokenizer/composed_tokenizer.hpp"
#include "capture/tokenizer/unigram_model.hpp"

namespace keyscope::tokenizer {
namespace {

using nlohmann::json;
using sentencepiece::SentencePieceProcessor;

// Of some damage the library has a status, of other an exception of one of its parts.
void load_model(SentencePieceProcessor& model, std::string_view bytes, const std::filesystem::path& path) {
  const auto refuse = [&](std::string_view found) {
    throw FileError(
        fmt::format("{}: found {}, expected a model of SentencePiece", path.string(), shown(found)));
  };
  try {
    const auto status = model.LoadFromSerializedProto({bytes.data(), bytes.size()});
    if (!status.ok()) refuse(status.message());
  } catch (const FileError&) {
    throw;
  } catch (const std::exception& error) {
    refuse(error.what());
  }
}

// A number in the encoding of protocol buffers: seven bits a byte, the lowest first.
std::uint64_t read_varint(std::string_view bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; at < bytes.size() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

struct ProtoField {
  std::uint64_t number = 0, value = 0;
  std::string_view bytes;
};

// Calls visit(field) for every field of a message that is known to be one.
template <typename Visit>
void for_each_field(std::string_view message, Visit visit) {
  for (std::size_t at = 0; at < message.size();) {
    const std::uint64_t tag = read_varint(message, at);
    ProtoField field;
    field.number = tag >> 3U;
    switch (tag & 7U) {
      case 0:
        field.value = read_varint(message, at);
        break;
      case 1:
        at += 8;
        break;
      case 5:
        at += 4;
        break;
      default: {
        const std::uint64_t size = read_varint(message, at);
        field.bytes = message.substr(std::min(at, message.size()), size);
        at += field.bytes.size();
      }
    }
    visit(field);
  }
}

// What the library does not tell. Of a ModelProto: trainer_spec (2).model_type (3), of which 1, the default,
// is unigram; and of its pieces (1) those whose type (3) is USER_DEFINED (4), in the order of their ids.
struct Untold {
  explicit Untold(std::string_view bytes) {
    for_each_field(bytes, [this](const ProtoField& outer) {
      if (outer.number == 1) is_user_defined.push_back(false);
      for_each_field(outer.number <= 2 ? outer.bytes : "", [&](const ProtoField& inner) {
        if (inner.number != 3) return;
        outer.number == 1 ? is_user_defined.back() = inner.value == 4 : is_unigram = inner.value == 1;
      });
    });
  }
  bool is_unigram = true;
  std::vector<bool> is_user_defined;
};

// What LlamaTokenizer and its like do, which put a "begin of text" in front, unless it is said.
bool is_llama_like(const JsonField& config) {
  const std::string name = config.string_or("tokenizer_class", "");
  return name.starts_with("Llama") || name.starts_with("CodeLlama") || name.starts_with("Gemma");
}

class SentencePieceTokenizer : public ComposedTokenizer {
 public:
  SentencePieceTokenizer(const std::filesystem::path& path, std::string_view bytes) {
    load_model(model_, bytes, path);
    // The same without the space that is put before a text: messages of protocol buffers that follow each
    // other are one, and the last value of a field counts (normalizer_spec 3, add_dummy_prefix 3: false).
    load_model(inner_, std::string(bytes) + std::string("\x1A\x02\x18\x00", 4), path);
    for (int id = 0; id < model_.GetPieceSize(); ++id)
      if (vocabulary_.add(model_.IdToPiece(id), id) != Vocabulary::Added::kYes)
        throw FileError(fmt::format("{}: found the piece {} twice, expected it once", path.string(),
                                    shown(model_.IdToPiece(id))));
    const Untold untold(bytes);
    is_user_defined_ = untold.is_user_defined;
    is_user_defined_.resize(static_cast<std::size_t>(model_.GetPieceSize()));
    if (untold.is_unigram) unigram_.emplace(make_unigram());
    const std::filesystem::path config_file = folder_of(path) / "tokenizer_config.json";
    std::error_code error;
    const json document = std::filesystem::exists(config_file, error)
                              ? parse_json_object(read_small_file(config_file), config_file.string())
                              : json::object();
    const JsonField config(document, config_file.string(), "");
    prefix_everywhere_ = config.boolean_or("legacy", true);
    compose(vocabulary_, AddedTokens(special_tokens(folder_of(path)), vocabulary_, nullptr), around(config),
            decoder());
  }

 private:
  UnigramModel make_unigram() const {
    std::vector<double> scores;
    bool has_bytes = false;
    for (int id = 0; id < model_.GetPieceSize(); ++id) {
      const bool is_text =
          !model_.IsUnknown(id) && !model_.IsControl(id) && !model_.IsByte(id) && !model_.IsUnused(id);
      has_bytes = has_bytes || model_.IsByte(id);
      scores.push_back(is_text ? double{model_.GetScore(id)} : -std::numeric_limits<double>::infinity());
    }
    return {vocabulary_, std::move(scores), model_.unk_id(), has_bytes};
  }

  void encode_text(std::string_view text, bool at_start, PieceCache& cache,
                   std::vector<std::int32_t>& ids) const override {
    const SentencePieceProcessor& model = at_start || prefix_everywhere_ ? model_ : inner_;
    if (unigram_) return encode_unigram(model, text, cache, ids);
    std::vector<int> found;
    check(model.Encode({text.data(), text.size()}, &found));
    ids.insert(ids.end(), found.begin(), found.end());
  }

  // Of two ways with equal scores ("." and "..", ".." and ".") SentencePiece takes one or the other, by its
  // version and single precision. So it normalises, which its pieces joined show, and the model that the
  // tokenizers library has parts the text. Symbols that the model's maker defined stay whole.
  void encode_unigram(const SentencePieceProcessor& model, std::string_view text, PieceCache& cache,
                      std::vector<std::int32_t>& ids) const {
    std::vector<std::string> pieces;
    check(model.Encode({text.data(), text.size()}, &pieces));
    std::string normalized;
    const auto flush = [&] {
      if (!normalized.empty()) unigram_->encode(normalized, cache, ids);
      normalized.clear();
    };
    for (const std::string& piece : pieces) {
      const int id = model.PieceToId(piece);
      if (model.IsByte(id)) {
        normalized += static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16));  // <0x0A>
      } else if (is_user_defined_[static_cast<std::size_t>(id)]) {
        flush();
        ids.push_back(id);
      } else {
        normalized += piece;
      }
    }
    flush();
  }

  static void check(const sentencepiece::util::Status& status) {
    if (!status.ok()) throw InvalidInput(fmt::format("SentencePiece: {}", status.message()));
  }

  // The model's own, and those that lie beside it.
  std::vector<AddedToken> special_tokens(const std::filesystem::path& folder) const {
    std::vector<AddedToken> tokens;
    for (const int id : {model_.unk_id(), model_.bos_id(), model_.eos_id(), model_.pad_id()})
      if (id >= 0) tokens.push_back({.content = model_.IdToPiece(id), .normalized = false, .special = true});
    const auto others = tokens_beside(folder, tokens);
    tokens.insert(tokens.end(), others.begin(), others.end());
    return tokens;
  }

  PostProcessor around(const JsonField& config) const {
    std::vector<std::int32_t> before, after;
    if (config.boolean_or("add_bos_token", is_llama_like(config)) && model_.bos_id() >= 0)
      before.push_back(model_.bos_id());
    if (config.boolean_or("add_eos_token", false) && model_.eos_id() >= 0) after.push_back(model_.eos_id());
    return {std::move(before), std::move(after)};
  }

  // "▁" is a space, <0x0A> a byte, and the space before the text goes.
  static std::unique_ptr<Decoder> decoder() {
    const json steps = json::parse(R"({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
    return read_decoder(JsonField(steps, "", ""));
  }

  SentencePieceProcessor model_, inner_;
  Vocabulary vocabulary_;
  std::optional<UnigramModel> unigram_;
  std::vector<bool> is_user_defined_;  // by id
  bool prefix_everywhere_ = true;      // else only where the whole text begins
};

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& path, std::string_view bytes) {
  return std::make_unique<SentencePieceTokenizer>(path, bytes);
}

}  // namespace keyscope::tokenizer

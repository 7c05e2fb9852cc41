#include "capture/tokenizer/template_skeleton.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "capture/tokenizer/template_expression.hpp"
#include "capture/tokenizer/template_tags.hpp"

namespace keyscope::tokenizer {
namespace {

using Tokens = std::vector<std::string>;

// Marks of a skeleton; a template that holds them itself has none.
constexpr char kStatement = '\x01';
constexpr char kOutput = '\x02';
constexpr char kEnd = '\x03';
constexpr std::string_view kMarks = "\x01\x02\x03";
constexpr int kDeepest = 64;

std::string statement(const Tokens& tokens) { return kStatement + join_tokens(tokens) + kEnd; }

// Thrown and caught in this file: what stands in the template is not followed here.
struct NotFollowed {};

struct Branch {
  Tokens condition;  // empty: else
  std::string body;
};

// Reads tags into a skeleton, leaving out what is known not to happen.
class Pruner {
 public:
  Pruner(std::vector<TemplateTag> tags, const KnownConditions& known)
      : tags_(std::move(tags)), known_(known) {}

  std::string skeleton() {
    std::string all = block();
    if (at_ < tags_.size()) throw NotFollowed();  // an end without its beginning
    return all;
  }

 private:
  static bool ends_block(const std::string& keyword) {
    return keyword == "elif" || keyword == "else" || keyword == "endif" || keyword == "endfor";
  }

  // What follows, up to the end of the block that it stands in.
  std::string block() {
    if (++depth_ > kDeepest) throw NotFollowed();
    std::string body;
    for (; at_ < tags_.size(); ++at_) {
      const TemplateTag& tag = tags_[at_];
      if (tag.kind == TemplateTag::Kind::kText)
        body += printable(tag.text);
      else if (tag.kind == TemplateTag::Kind::kOutput)
        body += output(tokens_of(tag));
      else if (const Tokens tokens = tokens_of(tag); ends_block(tokens.front()))
        break;
      else
        body += statement_block(tokens);
    }
    --depth_;
    return body;
  }

  static Tokens tokens_of(const TemplateTag& tag) {
    auto tokens = expression_tokens(tag.text);
    if (!tokens || tokens->empty()) throw NotFollowed();
    return std::move(*tokens);
  }

  static const std::string& printable(const std::string& text) {
    if (text.find_first_of(kMarks) != std::string::npos) throw NotFollowed();
    return text;
  }

  // One piece per operand: text that is printed by several pieces is one text.
  static std::string output(const Tokens& tokens) {
    std::string pieces;
    for (Tokens& operand : sum_operands(tokens)) {
      strip_brackets(operand, 0);
      if (operand.size() == 1 && operand.front().starts_with('\''))
        pieces += printable(operand.front().substr(1));
      else
        pieces += skeleton_output(printable(join_tokens(operand)));
    }
    return pieces;
  }

  // A statement, and for a block all that belongs to it; ends on its last tag.
  std::string statement_block(const Tokens& tokens) {
    if (tokens.front() == "raw") throw NotFollowed();
    if (tokens.front() == "if") return if_block(tokens);
    if (tokens.front() == "for") return for_block(tokens);
    return statement(tokens);
  }

  std::string for_block(const Tokens& head) {
    ++at_;
    const std::string body = block();
    if (keyword() != "endfor") throw NotFollowed();
    return body.empty() ? "" : statement(head) + body + statement({"endfor"});
  }

  std::string if_block(const Tokens& head) {
    std::vector<Branch> branches;
    Tokens tokens = head;
    while (tokens.front() != "endif") {
      if (tokens.front() == "endfor" || (!branches.empty() && branches.back().condition.empty()))
        throw NotFollowed();
      strip_brackets(tokens, 1);
      Branch branch;
      branch.condition.assign(tokens.begin() + 1, tokens.end());
      if (branch.condition.empty() != (tokens.front() == "else")) throw NotFollowed();
      ++at_;
      branch.body = block();
      branches.push_back(std::move(branch));
      if (at_ == tags_.size()) throw NotFollowed();
      tokens = tokens_of(tags_[at_]);
    }
    return reachable(branches);
  }

  std::string reachable(const std::vector<Branch>& branches) const {
    std::vector<Branch> kept;
    for (const Branch& branch : branches) {
      const auto found = known_.find(join_tokens(branch.condition));
      const bool is_known = found != known_.end();
      if (is_known && !found->second) continue;
      kept.push_back(is_known ? Branch{{}, branch.body} : branch);
      if (kept.back().condition.empty()) break;  // nothing behind an else
    }
    if (!kept.empty() && kept.back().condition.empty() && kept.back().body.empty()) kept.pop_back();
    if (std::ranges::all_of(kept, [](const Branch& branch) { return branch.body.empty(); })) return "";
    if (kept.front().condition.empty()) return kept.front().body;
    std::string all;
    for (const Branch& branch : kept) {
      Tokens head = branch.condition;
      head.insert(head.begin(), head.empty() ? "else" : all.empty() ? "if" : "elif");
      all += statement(head) + branch.body;
    }
    return all + statement({"endif"});
  }

  std::string keyword() const { return at_ < tags_.size() ? tokens_of(tags_[at_]).front() : std::string(); }

  std::vector<TemplateTag> tags_;
  const KnownConditions& known_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string condition_text(std::string_view condition) {
  auto tokens = expression_tokens(condition);
  if (!tokens) throw InvalidInput("a condition: found no expression in '" + std::string(condition) + "'");
  strip_brackets(*tokens, 0);
  return join_tokens(*tokens);
}

std::optional<std::string> template_skeleton(std::string_view source, const KnownConditions& known) {
  auto tags = split_template(source);
  if (!tags) return std::nullopt;
  try {
    return Pruner(std::move(*tags), known).skeleton();
  } catch (const NotFollowed&) {
    return std::nullopt;
  }
}

std::string skeleton_output(std::string_view name) { return kOutput + std::string(name) + kEnd; }

bool is_plain_text(std::string_view part) { return part.find_first_of(kMarks) == std::string_view::npos; }

}  // namespace keyscope::tokenizer

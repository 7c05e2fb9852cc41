#include "app/evaluation/ruler_needles.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {

namespace {

// Purposes of draws.
constexpr std::uint64_t kStatements = 1, kNeedlePlaces = 2;

enum class Hay { kNoise, kEssay, kNeedles };

// What keys and values are.
enum class NeedleKind { kNumbers, kWords, kUuids, kDates, kTimes, kCodes };

constexpr std::array<std::string_view, 6> kKindNames{"numbers", "words", "uuids", "dates", "times", "codes"};

struct NeedleRule {
  std::string_view task;
  Hay hay;
  NeedleKind keys, values;
  std::size_t n_keys = 1, n_values = 1, n_asked = 1;  // values of each key, keys that are asked for
};

using enum NeedleKind;

constexpr std::array<NeedleRule, 8> kNeedleRules{{
    {"niah_single_1", Hay::kNoise, kWords, kNumbers},
    {"niah_single_2", Hay::kEssay, kWords, kNumbers},
    {"niah_single_3", Hay::kEssay, kWords, kUuids},
    {"niah_multikey_1", Hay::kEssay, kWords, kNumbers, 4},
    {"niah_multikey_2", Hay::kNeedles, kWords, kNumbers},
    {"niah_multikey_3", Hay::kNeedles, kUuids, kUuids},
    {"niah_multivalue", Hay::kEssay, kWords, kNumbers, 1, 4},
    {"niah_multiquery", Hay::kEssay, kWords, kNumbers, 4, 1, 4},
}};

constexpr std::size_t kKindsTogether = 4;   // needles of a heterogeneous haystack, at least
constexpr std::int64_t kTokensPerLine = 8;  // of a line with a needle, at least
constexpr std::size_t kDepths = 40;         // equally far apart, at which needles stand in an essay

constexpr std::string_view kPublishedForm = "One of the special magic {kinds} for {key} is: {value}.";
constexpr auto kParaphrases = std::to_array<std::string_view>({
    "Under the name {key} you will find {value}, a {kind} with magic in it.",
    "{value} is a {kind} that was enchanted for {key}.",
    "Somebody once wrote down a secret {kind} for {key}: {value}.",
    "Whoever asks about {key} ought to be told {value}, a charmed {kind}.",
    "The {kind} {value} belongs to {key}, as if by magic.",
    "For {key}, remember {value}, a {kind} that is out of the ordinary.",
    "{key} goes with the magical {kind} {value}.",
    "Keep {value} in mind, since that {kind} was set aside for {key}.",
});

// clang-format off
constexpr auto kDescriptions = std::to_array<std::string_view>({
    "able", "amber", "ancient", "ashen", "autumn", "awkward", "azure", "bashful", "beige", "bitter", "blazing",
    "blunt", "bold", "brave", "brief", "bright", "brisk", "broad", "bronze", "calm", "candid", "careful", "chilly",
    "civil", "clever", "cloudy", "coarse", "cobalt", "copper", "coral", "cosy", "crimson", "crisp", "crooked",
    "curious", "dapper", "daring", "dazzling", "dense", "dusty", "eager", "early", "earnest", "elastic", "emerald",
    "faded", "faint", "famous", "fearless", "feathered", "fierce", "flat", "fluent", "foggy", "fond", "formal",
    "fragile", "frank", "frosty", "gallant", "gentle", "gilded", "glad", "gloomy", "golden", "graceful", "grand",
    "grateful", "hardy", "harmless", "hasty", "heavy", "hollow", "honest", "humble", "icy", "idle", "ivory", "jolly",
    "keen", "lavish", "lively", "lofty", "lonely", "loyal", "lucid", "lunar", "marble", "mellow", "merry", "mighty",
    "misty", "modest", "muffled", "narrow", "nimble", "noble", "odd", "olive", "pale", "patient", "placid", "plain",
    "polished", "prompt", "proud", "quaint", "quiet", "rapid", "rugged", "rustic", "scarlet", "serene", "shallow",
    "silent", "silver", "sleepy", "solemn", "steady", "stern", "sturdy", "subtle", "sunny", "tender", "timid", "tidy",
    "velvet", "vivid", "wary", "weary", "windy", "wise",
});
constexpr auto kObjects = std::to_array<std::string_view>({
    "acorn", "anchor", "anvil", "apron", "arrow", "attic", "badge", "balcony", "banner", "barley", "barrel", "basin",
    "beacon", "bell", "bench", "bishop", "blanket", "bonnet", "bottle", "bramble", "bridge", "brook", "bucket",
    "button", "cabin", "candle", "canyon", "carpet", "castle", "cellar", "chapel", "cherry", "chimney", "circus",
    "clarinet", "cottage", "cradle", "crystal", "curtain", "dagger", "daisy", "dolphin", "donkey", "drawer", "eagle",
    "engine", "falcon", "feather", "fiddle", "forest", "fountain", "galley", "garden", "garlic", "ginger", "goblet",
    "granite", "hammer", "harbour", "harvest", "hedge", "helmet", "heron", "hinge", "island", "jacket", "jasmine",
    "jigsaw", "kettle", "kitchen", "ladder", "lagoon", "lantern", "lemon", "lobster", "locket", "magnet", "mantle",
    "meadow", "medal", "mirror", "mitten", "mustard", "needle", "nettle", "oyster", "paddle", "parcel", "parlour",
    "parrot", "pebble", "pepper", "pigeon", "pillow", "pistol", "plateau", "pocket", "prairie", "pulley", "puzzle",
    "quarry", "rabbit", "raven", "ribbon", "riddle", "saddle", "sailor", "satchel", "scissors", "shovel", "signal",
    "sparrow", "spindle", "stable", "stocking", "summit", "tavern", "temple", "thistle", "thunder", "timber",
    "trumpet", "tunnel", "turnip", "valley", "violin", "wagon", "walnut", "whistle", "window",
});
// clang-format on

std::string drawn_uuid(Draws& draws) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";  // version 4 of RFC 9562
  for (char& c : text) {
    if (c == 'x') c = kHex[draws.below(16)];
    if (c == 'y') c = kHex[8 + draws.below(4)];
  }
  return text;
}

std::string drawn_of(NeedleKind kind, Draws& draws) {
  switch (kind) {
    case kNumbers:
      return fmt::format("{}", 1'000'000 + draws.below(9'000'000));
    case kWords: {
      const std::size_t description = draws.below(kDescriptions.size());
      return fmt::format("{}-{}", kDescriptions[description], kObjects[draws.below(kObjects.size())]);
    }
    case kUuids:
      return drawn_uuid(draws);
    case kDates: {
      const std::size_t year = 1500 + draws.below(500), month = 1 + draws.below(12);
      return fmt::format("{}-{:02}-{:02}", year, month, 1 + draws.below(28));
    }
    case kTimes: {
      const std::size_t hour = draws.below(24), minute = draws.below(60);
      return fmt::format("{:02}:{:02}:{:02}", hour, minute, draws.below(60));
    }
    case kCodes:
      break;
  }
  std::string code;
  for (int i = 0; i < 3; ++i) code += static_cast<char>('A' + static_cast<char>(draws.below(26)));
  return code + "-" + draws.digits(4);
}

struct Statement {
  NeedleKind kind;
  std::string key, value, text;
};

// The statements of one prompt, no two with the same key and none with a value that was there before.
class StatementMaker {
 public:
  StatementMaker(const NeedleRule& rule, const NeedleForms& forms, Draws draws)
      : rule_(rule), forms_(forms), draws_(draws), kinds_(shuffled(kKindNames.size(), draws_)) {}

  std::string new_key() { return drawn_anew(rule_.keys); }

  Statement about(const std::string& key) {
    const NeedleKind kind = next_kind();
    Statement made{kind, key, drawn_anew(kind), {}};
    const std::string_view form =
        forms_.paraphrased ? kParaphrases[draws_.below(kParaphrases.size())] : kPublishedForm;
    const std::string_view kinds = kKindNames[static_cast<std::size_t>(kind)];
    made.text = fmt::format(fmt::runtime(form), fmt::arg("key", key), fmt::arg("value", made.value),
                            fmt::arg("kinds", kinds), fmt::arg("kind", kinds.substr(0, kinds.size() - 1)));
    return made;
  }

  Draws& draws() { return draws_; }

 private:
  NeedleKind next_kind() {
    if (!forms_.heterogeneous) return rule_.values;
    return static_cast<NeedleKind>(kinds_[n_kinds_++ % kinds_.size()]);
  }

  // There are 17,000 words, and of anything else more: the longest haystacks of words repeat some.
  std::string drawn_anew(NeedleKind kind) {
    constexpr int kTries = 100;
    std::string drawn;
    for (int i = 0; i < kTries; ++i)
      if (drawn = drawn_of(kind, draws_); seen_.insert(drawn).second) break;
    return drawn;
  }

  const NeedleRule& rule_;
  NeedleForms forms_;
  Draws draws_;
  std::vector<std::size_t> kinds_;
  std::size_t n_kinds_ = 0;
  std::set<std::string> seen_;
};

// All of a prompt that does not depend on how long it is.
struct NeedlePlan {
  const NeedleRule& rule;
  std::uint64_t seed;
  std::vector<std::string> needles;  // in the order in which they stand
  std::vector<std::string> lines;    // of a haystack of needles
  RulerText question;                // `asked` is what follows the context
  std::string beginning;             // what stands before it
};

// "a", "a, and b", "a, b, and c".
std::string listed(const std::vector<std::string>& keys) {
  if (keys.size() == 1) return keys.front();
  return fmt::format("{}, and {}", fmt::join(keys.begin(), keys.end() - 1, ", "), keys.back());
}

void word_question(NeedlePlan& plan, const std::vector<std::string>& keys,
                   const std::vector<Statement>& asked) {
  const bool same = std::ranges::all_of(
      asked, [&](const Statement& statement) { return statement.kind == asked.front().kind; });
  std::string_view name = same ? kKindNames[static_cast<std::size_t>(asked.front().kind)] : "values";
  const bool one = asked.size() == 1;
  if (one) name.remove_suffix(1);
  const std::string query = listed(keys);
  plan.beginning = fmt::format(
      "{} special magic {} {} hidden within the following text. Make sure to memorize it. I will quiz you "
      "about the {} afterwards.\n",
      one ? "A" : "Some", name, one ? "is" : "are", name);
  plan.question.asked = fmt::format("\nWhat {} the special magic {} for {} mentioned in the provided text?",
                                    one ? "is" : "are all", name, query);
  plan.question.answer_prefix = fmt::format(" The special magic {} for {} mentioned in the provided text {}",
                                            name, query, one ? "is" : "are");
  for (const Statement& statement : asked) plan.question.outputs.push_back(statement.value);
}

NeedlePlan planned(const NeedleRule& rule, const RulerSample& sample, const NeedleForms& forms) {
  NeedlePlan plan{rule, sample.seed, {}, {}, {}, {}};
  StatementMaker maker(rule, forms, Draws(sample.seed, kStatements));
  std::size_t n_keys = rule.n_keys;
  if (forms.heterogeneous && rule.hay != Hay::kNeedles)
    n_keys = std::max(n_keys, kKindsTogether / rule.n_values);
  std::vector<std::string> keys;
  std::vector<Statement> all;
  for (std::size_t i = 0; i < n_keys; ++i) {
    keys.push_back(maker.new_key());
    for (std::size_t j = 0; j < rule.n_values; ++j) all.push_back(maker.about(keys.back()));
  }
  std::vector<std::string> asked_keys;
  std::vector<Statement> asked;
  for (const std::size_t key : maker.draws().different(rule.n_asked, n_keys)) {
    asked_keys.push_back(keys[key]);
    for (std::size_t j = 0; j < rule.n_values; ++j) asked.push_back(all[key * rule.n_values + j]);
  }
  word_question(plan, asked_keys, asked);
  for (const std::size_t i : shuffled(all.size(), maker.draws())) plan.needles.push_back(all[i].text);
  if (rule.hay == Hay::kNeedles)
    for (std::int64_t i = 0; i < sample.length / kTokensPerLine; ++i)
      plan.lines.push_back(maker.about(maker.new_key()).text);
  return plan;
}

// Needles among so many lines.
std::string among_lines(const NeedlePlan& plan, std::size_t n) {
  std::vector<std::string> lines =
      plan.rule.hay == Hay::kNoise
          ? std::vector<std::string>(n, std::string(kRulerNoise))
          : std::vector<std::string>(plan.lines.begin(), plan.lines.begin() + static_cast<std::ptrdiff_t>(n));
  Draws draws(plan.seed, kNeedlePlaces);
  std::vector<std::size_t> places = draws.different(plan.needles.size(), n);
  std::ranges::sort(places);
  for (std::size_t i = 0; i < places.size(); ++i)
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(places[i] + i), plan.needles[i]);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

// Needles behind sentences of the essay's first words, at depths that are drawn.
std::string in_essay(const NeedlePlan& plan, const Haystack& essay, std::size_t n_words) {
  const Haystack cut = essay.first_words(n_words);
  Draws draws(plan.seed, kNeedlePlaces);
  std::vector<std::size_t> depths = draws.different(plan.needles.size(), kDepths);
  std::ranges::sort(depths);
  std::string text;
  std::size_t at = 0;
  const auto add = [&](std::string_view part) {
    while (part.starts_with(' ')) part.remove_prefix(1);
    if (!part.empty()) text.append(text.empty() ? "" : " ").append(part);
  };
  for (std::size_t i = 0; i < plan.needles.size(); ++i) {
    const double percent =
        std::round(100 * static_cast<double>(depths[i]) / static_cast<double>(kDepths - 1));
    const auto sentence =
        static_cast<std::size_t>(static_cast<double>(cut.sentence_ends.size()) * percent / 100);
    const std::size_t end = sentence == 0 ? 0 : cut.sentence_ends[sentence - 1];
    add(std::string_view(cut.text).substr(at, end - at));
    add(plan.needles[i]);
    at = end;
  }
  add(std::string_view(cut.text).substr(at));
  return text;
}

const NeedleRule& rule_of(std::string_view niah_task) {
  const auto* const found = std::ranges::find(kNeedleRules, niah_task, &NeedleRule::task);
  if (found == kNeedleRules.end())
    throw InvalidInput(fmt::format("{}: no task of needles; expected niah_…", niah_task));
  return *found;
}

}  // namespace

bool is_in_essay(std::string_view niah_task) {
  const auto* const found = std::ranges::find(kNeedleRules, niah_task, &NeedleRule::task);
  return found != kNeedleRules.end() && found->hay == Hay::kEssay;
}

GrowingPrompt ruler_needles(std::string_view niah_task, const RulerSample& sample, const NeedleForms& forms,
                            const Haystack& essay) {
  const NeedleRule& rule = rule_of(niah_task);
  const auto plan = std::make_shared<const NeedlePlan>(planned(rule, sample, forms));
  const bool essays = rule.hay == Hay::kEssay;
  const auto made = [plan, essays, &essay](std::size_t n) {
    RulerText text = plan->question;
    text.asked.insert(0, plan->beginning + (essays ? in_essay(*plan, essay, n) : among_lines(*plan, n)));
    return text;
  };
  const std::size_t most = essays                      ? essay.word_ends.size()
                           : rule.hay == Hay::kNeedles ? plan->lines.size()
                                                       : static_cast<std::size_t>(sample.length);
  return {plan->needles.size(), most, made};
}

}  // namespace keyscope::evaluation

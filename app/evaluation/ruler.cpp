#include "app/evaluation/ruler.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unicode/uchar.h>

#include "analysis/splitmix.hpp"
#include "app/evaluation/ruler_lists.hpp"
#include "app/evaluation/ruler_questions.hpp"
#include "app/evaluation/ruler_rows.hpp"
#include "app/evaluation/text_scores.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::evaluation {

namespace {

constexpr std::string_view kMagic = " The special magic ";

constexpr std::array<RulerTask, 13> kRulerTasks{{
    {"niah_single_1", 128, false, kMagic, "single_1"},
    {"niah_single_2", 128, false, kMagic, "single_2"},
    {"niah_single_3", 128, false, kMagic, "single_3"},
    {"niah_multikey_1", 128, false, kMagic, "mkey_1"},
    {"niah_multikey_2", 128, false, kMagic, "mkey_2"},
    {"niah_multikey_3", 128, false, kMagic, "mkey_3"},
    {"niah_multivalue", 128, false, kMagic, "mvalue"},
    {"niah_multiquery", 128, false, kMagic, "mquery"},
    {"vt", 30, false, " Answer: According to the chain(s)", "vt"},
    {"cwe", 120, false, " Answer: The top 10 words", "cwe"},
    {"fwe", 50, false, " Answer: According to the coded text", "fwe"},
    {"qa_1", 32, true, " Answer:", "qa_1"},
    {"qa_2", 32, true, " Answer:", "qa_2"},
}};

constexpr std::int64_t kShortest = 4096, kLongest = 131'072;  // of the lengths that are usual
constexpr std::int64_t kDefaultSamples = 10;

// As RULER's evaluation has it before it looks for the outputs.
std::u32string looked_through(std::string_view prediction) {
  std::u32string text = lowered(prediction);
  for (char32_t& c : text)
    if (c < U' ') c = U'\n';
  const auto is_space = [](char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; };
  text.erase(text.begin(), std::ranges::find_if_not(text, is_space));
  while (!text.empty() && is_space(text.back())) text.pop_back();
  return text;
}

}  // namespace

std::span<const RulerTask> ruler_tasks() { return kRulerTasks; }

const RulerTask* find_ruler_task(std::string_view name) {
  const auto* const found = std::ranges::find(kRulerTasks, name, &RulerTask::name);
  return found == kRulerTasks.end() ? nullptr : found;
}

std::string ruler_task_names() {
  std::vector<std::string_view> names;
  for (const RulerTask& task : kRulerTasks) names.push_back(task.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

double ruler_score(const RulerTask& task, std::string_view prediction, std::span<const std::string> outputs) {
  const std::u32string text = looked_through(prediction);
  const auto n = std::ranges::count_if(
      outputs, [&](const std::string& output) { return text.find(lowered(output)) != std::u32string::npos; });
  if (task.any_output) return n > 0 ? 1 : 0;
  return static_cast<double>(n) / static_cast<double>(outputs.size());
}

std::optional<std::int64_t> parse_ruler_length(std::string_view text) {
  const bool thousands = text.ends_with('K') || text.ends_with('k');
  if (thousands) text.remove_suffix(1);
  std::int64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (error != std::errc() || end != text.data() + text.size() || length < 1 || length > kMost)
    return std::nullopt;
  return thousands ? length * 1024 : length;
}

void RulerOptions::check() const {
  for (const std::string& task : tasks) {
    if (find_ruler_task(task) == nullptr)
      throw UsageError(
          fmt::format("--task: there is no task {}; expected one of: {}", shown(task), ruler_task_names()));
    if (data.empty() && (task == "qa_1" ? squad.empty() : task == "qa_2" && hotpotqa.empty()))
      throw UsageError(fmt::format("--task {}: its questions come from a file; give {}", task,
                                   task == "qa_1"
                                       ? "--squad FILE, such as SQuAD's dev-v2.0.json"
                                       : "--hotpotqa FILE, such as hotpot_dev_distractor_v1.json"));
  }
  check_given_once(tasks, "--task");
  check_given_once(lengths, "--length");
  check_utf8(haystack_path, "--haystack");
  if (data.empty()) return;
  const char* const made = !needles.plain()         ? "--needles"
                           : !haystack_path.empty() ? "--haystack"
                           : !squad.empty()         ? "--squad"
                           : !hotpotqa.empty()      ? "--hotpotqa"
                                                    : nullptr;
  if (made != nullptr)
    throw UsageError(
        fmt::format("{}: is of prompts that are generated; rows of --data are asked as they are", made));
}

nlohmann::ordered_json ruler_settings(const RulerOptions& options) {
  nlohmann::ordered_json json{{"tasks", options.tasks},
                              {"lengths", options.lengths},
                              {"samples", json_number(options.samples)},
                              {"chat", chat_word(options.chat)},
                              {"prompts", options.data.empty() ? "generated" : "rows"}};
  if (!options.data.empty()) return json;
  json["samples"] = options.samples.value_or(kDefaultSamples);
  json["paraphrased"] = options.needles.paraphrased;
  json["heterogeneous"] = options.needles.heterogeneous;
  json["haystack"] = options.haystack_path.empty() ? "generated" : options.haystack_path;
  return json;
}

Example ruler_example(const RulerTask& task, std::int64_t length, std::int64_t sample,
                      std::vector<std::int32_t> ids, std::vector<std::string> outputs) {
  Example example;
  example.id = fmt::format("{}, length {}, sample {}", task.name, length, sample);
  example.group = example.id;
  example.prompt_ids = std::move(ids);
  example.answers = std::move(outputs);
  example.continuation.max_new_tokens = task.max_new_tokens;
  example.about = {{"task", task.name}, {"length", length}, {"sample", sample}};
  return example;
}

namespace {

// From where the templates of all tasks ask; nothing where they do not.
std::string_view asked_in(std::string_view text) {
  std::size_t at = std::string_view::npos;
  for (const std::string_view beginning :
       {"\nQuestion: ", "\nWhat is the special magic ", "\nWhat are all the special magic "})
    if (const std::size_t found = text.rfind(beginning);
        found != text.npos && (at == text.npos || found > at))
      at = found;
  if (at == text.npos) return {};
  const std::string_view question = text.substr(at + 1);
  return question.substr(0, question.find_first_of("?\n"));
}

}  // namespace

Evidence ruler_evidence(const RulerTask& task, const RulerText& text, std::span<const std::int32_t> ids,
                        const tokenizer::Tokenizer& tokenizer) {
  const EvidenceFinder finder(tokenizer, ids);
  if (task.name == "cwe" || task.name == "fwe")  // which stand on the whole list
    return finder.of_texts({}, {}, asked_in(text.asked));
  return finder.of_answers(text.outputs, task.any_output ? WantedAnswers::kAny : WantedAnswers::kAll,
                           asked_in(text.asked));
}

namespace {

// Makes the prompts of one model.
class RulerGenerator {
 public:
  RulerGenerator(const RulerOptions& options, const capture::Model& model)
      : options_(options),
        tokenizer_(model.folder_tokenizer().require("RULER is text")),
        encoder_(tokenizer_, model.folder(), options.chat),
        lengths_(lengths_for(options, model.config().context_length)) {
    if (!options.haystack_path.empty()) text_ = single_spaced(read_texts(options.haystack_path));
    if (!options.squad.empty()) questions_.emplace("qa_1", read_squad(options.squad));
    if (!options.hotpotqa.empty()) questions_.emplace("qa_2", read_hotpotqa(options.hotpotqa));
  }

  RulerSet made() {
    for (const RulerTask& task : kRulerTasks)
      if (is_asked(task))
        for (const std::int64_t length : lengths_) add(task, length);
    note_left_out();
    if (set_.examples.empty())
      throw UsageError(fmt::format("--length {}: none of the tasks fits; expected longer prompts",
                                   fmt::join(lengths_, ",")));
    std::int64_t most = 0;
    double sum = 0;
    for (const std::int64_t missing : missing_) {
      most = std::max(most, missing);
      sum += static_cast<double>(missing);
    }
    set_.notes.push_back(
        fmt::format("{} prompts, with their answers' tokens each at most {} short of its length, {:.1f} on "
                    "average.",
                    missing_.size(), most, sum / static_cast<double>(missing_.size())));
    return std::move(set_);
  }

 private:
  static std::vector<std::int64_t> lengths_for(const RulerOptions& options, std::int64_t context) {
    std::vector<std::int64_t> lengths = options.lengths;
    for (const std::int64_t length : lengths)
      if (length > context)
        throw UsageError(fmt::format("--length {}: the model's context is {}", length, context));
    if (lengths.empty())
      for (std::int64_t length = kShortest; length <= std::min(context, kLongest); length *= 2)
        lengths.push_back(length);
    if (lengths.empty()) lengths.push_back(context);
    std::ranges::sort(lengths);
    return lengths;
  }

  // As words are parted in RULER's essays.
  static std::string single_spaced(std::string_view text) {
    std::string spaced;
    for (const char c : text) {
      if (!is_white(c))
        spaced += c;
      else if (!spaced.empty() && spaced.back() != ' ')
        spaced += ' ';
    }
    return spaced;
  }

  bool is_asked(const RulerTask& task) {
    if (!options_.tasks.empty()) return std::ranges::find(options_.tasks, task.name) != options_.tasks.end();
    if (!task.any_output || questions_.contains(task.name)) return true;
    set_.notes.push_back(fmt::format("{} is left out: its questions come from a file, {}.", task.name,
                                     task.name == "qa_1" ? "--squad" : "--hotpotqa"));
    return false;
  }

  void add(const RulerTask& task, std::int64_t length) {
    const std::int64_t n_samples = options_.samples.value_or(kDefaultSamples);
    const std::vector<std::size_t> questions = asked_questions(task, n_samples);
    std::size_t near = 0;
    for (std::int64_t sample = 0; sample < n_samples; ++sample) {
      const RulerSample about{seed_of(task, length, sample), length, tokenizer_};
      const GrowingPrompt growing =
          growing_for(task, about, sample, questions.empty() ? 0 : questions[sample]);
      auto prompt = longest_prompt(
          growing, length - task.max_new_tokens,
          [&](const RulerText& text) { return encoder_.turn(text.asked, text.answer_prefix); }, near);
      if (!prompt) return leave_out(task, length, sample);
      near = prompt->n_units;
      missing_.push_back(length - task.max_new_tokens - std::ssize(prompt->ids));
      Evidence evidence = ruler_evidence(task, prompt->text, prompt->ids, tokenizer_);
      set_.examples.push_back(
          ruler_example(task, length, sample, std::move(prompt->ids), std::move(prompt->text.outputs)));
      set_.examples.back().evidence = std::move(evidence);
    }
  }

  std::uint64_t seed_of(const RulerTask& task, std::int64_t length, std::int64_t sample) const {
    const auto number = static_cast<std::uint64_t>(&task - kRulerTasks.data());
    return analysis::splitmix(
        analysis::splitmix(sample_seed_of(options_.seed, sample) + static_cast<std::uint64_t>(length)) +
        number);
  }

  GrowingPrompt growing_for(const RulerTask& task, const RulerSample& about, std::int64_t sample,
                            std::size_t question) {
    if (task.name == "vt") return ruler_chain(about);
    if (task.name == "cwe") return ruler_common_words(about);
    if (task.name == "fwe") return ruler_frequent_words(about);
    if (task.any_output) return ruler_question(about, questions_.at(task.name), question);
    return ruler_needles(task.name, about, options_.needles,
                         is_in_essay(task.name) ? essay_of(sample, about.length) : essay_);
  }

  // One sample's essay, which begins as that of any other length; until the next is asked for.
  const Haystack& essay_of(std::int64_t sample, std::int64_t length) {
    const std::int64_t n_tokens = length + length / 4;  // some are lost where space becomes single
    const Haystack essay = long_haystack(text_, n_tokens, sample_seed_of(options_.seed, sample), tokenizer_);
    essay_ = make_haystack(single_spaced(essay.text));
    return essay_;
  }

  // Which questions the samples ask; none for a task without.
  std::vector<std::size_t> asked_questions(const RulerTask& task, std::int64_t n_samples) const {
    const auto found = questions_.find(task.name);
    if (found == questions_.end()) return {};
    const std::size_t n = found->second.all.size();
    if (static_cast<std::size_t>(n_samples) > n)
      throw UsageError(fmt::format("--samples {}: there are {} questions for {}", n_samples, n, task.name));
    constexpr std::uint64_t kAskedQuestions = 9;  // purpose of draws
    Draws draws(options_.seed, kAskedQuestions);
    return draws.different(static_cast<std::size_t>(n_samples), n);
  }

  // Where one of a task's samples does not fit, none of them is asked.
  void leave_out(const RulerTask& task, std::int64_t length, std::int64_t sample) {
    if (!options_.tasks.empty())
      throw UsageError(
          fmt::format("--length {}: the shortest prompt of {} and the {} tokens of its answer "
                      "are longer than that",
                      length, task.name, task.max_new_tokens));
    set_.examples.resize(set_.examples.size() - static_cast<std::size_t>(sample));
    missing_.resize(missing_.size() - static_cast<std::size_t>(sample));
    left_out_[length].push_back(task.name);
  }

  void note_left_out() {
    for (const auto& [length, tasks] : left_out_)
      set_.notes.push_back(
          fmt::format("Left out at {} tokens, which even the shortest prompt does not fit "
                      "into: {}.",
                      length, shown_list(tasks)));
  }

  const RulerOptions& options_;
  const tokenizer::Tokenizer& tokenizer_;
  PromptEncoder encoder_;
  std::vector<std::int64_t> lengths_;
  std::string text_;  // of the essays
  Haystack essay_;
  std::map<std::string_view, Questions> questions_;
  std::map<std::int64_t, std::vector<std::string_view>> left_out_;
  std::vector<std::int64_t> missing_;  // tokens, of each example
  RulerSet set_;
};

}  // namespace

RulerSet ruler_examples(const RulerOptions& options, const capture::Model& model) {
  options.check();
  return options.data.empty() ? RulerGenerator(options, model).made() : read_ruler_rows(options, model);
}

Scorer ruler_scorer(const tokenizer::Tokenizer& tokenizer) {
  return [&tokenizer](const Example& example, const capture::Completion& completion) {
    const RulerTask& task = *find_ruler_task(example.about["task"].get<std::string>());
    return Scores{
        {"score", ruler_score(task, tokenizer.decode(completion.generated, true), example.answers)}};
  };
}

}  // namespace keyscope::evaluation

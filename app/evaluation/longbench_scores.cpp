#include "app/evaluation/longbench_scores.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "app/evaluation/text_scores.hpp"
#include "app/evaluation/rouge_l.hpp"

namespace keyscope::evaluation {
namespace {

std::string_view first_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text.substr(0, text.find('\n'));
}

double score(LongBenchMetric metric, std::string_view prediction, std::string_view answer,
             std::span<const std::string> classes) {
  switch (metric) {
    case LongBenchMetric::kTokenF1:
      return token_f1(prediction, answer);
    case LongBenchMetric::kRougeL:
      return rouge_l(prediction, answer);
    case LongBenchMetric::kClassShare:
      return class_share(prediction, answer, classes);
    case LongBenchMetric::kNumberShare:
      return number_share(prediction, answer);
    case LongBenchMetric::kParagraphShare:
      return paragraph_share(prediction, answer);
    case LongBenchMetric::kCodeSimilarity:
      break;
  }
  return code_similarity(prediction, answer);
}

}  // namespace

double longbench_score(const LongBenchTask& task, std::string_view prediction,
                       std::span<const std::string> answers, std::span<const std::string> classes) {
  if (task.first_line_only) prediction = first_line(prediction);
  double best = 0;
  for (const std::string& answer : answers)
    best = std::max(best, score(task.metric, prediction, answer, classes));
  return best;
}

double task_points(std::span<const double> scores) {
  return 100 * std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
}

// By way of decimals, which are made of the number's exact value: scaled to be rounded to an integer, it
// would be rounded twice.
double two_decimals(double points) { return std::strtod(fmt::format("{:.2f}", points).c_str(), nullptr); }

std::string_view length_bin(std::int64_t n_words) {
  if (n_words < 4000) return "0-4k";
  return n_words < 8000 ? "4-8k" : "8k+";
}

}  // namespace keyscope::evaluation

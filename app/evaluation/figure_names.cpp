#include "app/evaluation/figure_names.hpp"

namespace keyscope::evaluation {

std::vector<std::string_view> figure_names(std::string_view task, bool compared) {
  if (task == "niah" && compared) return {"niah-recall", "niah-difference"};
  if (task == "niah") return {"niah-recall"};
  if (task == "phonebook") return {"phonebook"};
  if (task == "perplexity") return {"perplexity"};
  return {};
}

}  // namespace keyscope::evaluation

#pragma once

#include <string_view>
#include <vector>

namespace keyscope::evaluation {

// What a task's figures are called, in the order in which they are made; none for a task that draws none.
//   compared: whether anything is compared with the full cache
std::vector<std::string_view> figure_names(std::string_view task, bool compared);

}  // namespace keyscope::evaluation

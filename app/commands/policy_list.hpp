#pragma once

#include <string>
#include <vector>

namespace keyscope::commands {

// Policies that are given in one word, such as "keydiff:recent=0.1,metric=dot,sink", one by one: a part that
// is KEY=VALUE belongs to the policy before it.
std::vector<std::string> split_policies(const std::vector<std::string>& words);

}  // namespace keyscope::commands

#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace keyscope {

// What docs/numbers.md says below a heading: its table's second column by the first.
std::map<std::string, std::string> numbers_page(const std::string& heading);

// How that page words who refuses an input and who takes it: "all rank", "all but sink refuse", "qr, lagkv
// refuse".
//   takes: what those do that do not refuse: "rank"
std::string who_refuses(const std::vector<std::string>& all, const std::vector<std::string>& refusing,
                        const std::string& takes);

// "" where `action` ends, else the sentence that it refused by.
//   throws whatever is neither InvalidInput nor FileError: nothing else may come of numbers
std::string refusal(const std::function<void()>& action);

}  // namespace keyscope

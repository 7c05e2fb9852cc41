#pragma once

#include "app/adoption/adoption.hpp"

namespace keyscope::adoption::test {

// A report of two policies at two budgets over two tasks, one a score and one a likelihood; keydiff at 50 %
// is fit, all else is not, or is undecided.
Adoption made_adoption();

}  // namespace keyscope::adoption::test

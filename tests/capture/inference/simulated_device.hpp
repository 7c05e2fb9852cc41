#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace keyscope::test {

// Two devices that LibTorch takes for accelerators (its PrivateUse1), made of the host's memory and of its
// kernels, so that what is asked of GPUs can be asked anywhere. They are as unkind as a GPU may be:
//   - a copy that need not be waited for is made as late as its stream allows, from what lies there by then;
//   - new memory holds NaN, and what is given back is filled with it;
//   - an operation whose tensors lie in different places fails;
//   - a stream that touches what another one has touched, without having been made to wait for it, is told
//   of.
// Operations themselves are done at once, in the order in which they are asked for.
//   for the whole process, from the first call on
const std::vector<at::Device>& simulated_devices();

// What they have done since the first call above.
struct SimulatedWork {
  std::int64_t late_copies = 0;  // made after they were asked for
  std::set<std::string> races;   // streams that did not wait for one another
};
SimulatedWork simulated_work();

}  // namespace keyscope::test

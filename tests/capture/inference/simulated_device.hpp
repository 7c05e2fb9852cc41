#pragma once

#include <vector>

#include <c10/core/Device.h>

namespace keyscope::test {

// Two devices that LibTorch takes for accelerators (its PrivateUse1), made of the host's memory and of its
// kernels, so that what is asked of GPUs can be asked anywhere. They do whatever a GPU may do:
//   - a copy that need not be waited for is made when somebody comes to need it, from what lies there by
//   then;
//   - new memory holds NaN, and so does what is given back;
//   - an operation whose tensors lie in different places fails;
//   - an operation that did not wait for another stream's which it depends on is listed in Streams::finish().
// Operations themselves are done at once, in the order in which they are asked for.
//   for the whole process, from the first call on
const std::vector<at::Device>& simulated_devices();

}  // namespace keyscope::test

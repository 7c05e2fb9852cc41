#pragma once

namespace keyscope::window {

struct PanelContext;

// While it lives, what is ticked or typed into is outlined, so that it stands out from the panel where it is
// empty.
class OutlinedFrame {
 public:
  explicit OutlinedFrame(const PanelContext& context);
  ~OutlinedFrame();
  OutlinedFrame(const OutlinedFrame&) = delete;
  OutlinedFrame& operator=(const OutlinedFrame&) = delete;
};

}  // namespace keyscope::window

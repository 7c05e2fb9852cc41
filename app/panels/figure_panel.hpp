#pragma once

#include <memory>

#include "app/panels/panel_context.hpp"
#include "app/display/gl_objects.hpp"

namespace keyscope::window {

// The figures of a figure file: a list, and the selected one as `keyscope figure` would draw it.
class FigurePanel {
 public:
  void draw(PanelContext& context, const Rect& rect);

 private:
  // What the picture was made for.
  struct Made {
    std::shared_ptr<const figures::FigureFile> file;
    std::size_t figure = 0;
    int width = 0, height = 0;
    bool light = false;
    bool operator==(const Made&) const = default;
  };

  void draw_list(PanelContext& context, const Rect& rect) const;
  void draw_picture(PanelContext& context, const Rect& rect);
  void make(const PanelContext& context, Made wanted);

  Made made_;
  GlTexture texture_;
  int width_ = 0, height_ = 0;  // of the picture
  std::string error_;
};

}  // namespace keyscope::window

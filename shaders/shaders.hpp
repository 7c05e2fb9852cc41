#pragma once

// The GLSL files of this folder as text, named after the files: points.vert is `points_vert`.
namespace keyscope::shaders {

extern const char* const heatmap_vert;
extern const char* const heatmap_frag;
extern const char* const points_vert;
extern const char* const points_frag;

}  // namespace keyscope::shaders

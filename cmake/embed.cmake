# Writes text files into one C++ source, so that the executable needs no files beside it: points.vert becomes the
# constant `points_vert`, which HEADER declares in NAMESPACE.
#   cmake -DOUTPUT=FILE.cpp -DSOURCES=a.vert;b.frag -DHEADER=shaders/shaders.hpp -DNAMESPACE=keyscope::shaders -P embed.cmake

set(text "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
foreach(source IN LISTS SOURCES)
  file(READ ${source} content)
  get_filename_component(name ${source} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  string(APPEND text "\nconst char* const ${name} = R\"text(${content})text\";\n")
endforeach()
string(APPEND text "\n}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${text}")

# Writes the GLSL files into one C++ source, so that the executable needs no files beside it.
#   cmake -DOUTPUT=FILE.cpp -DSOURCES=a.vert;b.frag -P embed.cmake

set(text "#include \"shaders/shaders.hpp\"\n\nnamespace keyscope::shaders {\n")
foreach(source IN LISTS SOURCES)
  file(READ ${source} glsl)
  get_filename_component(name ${source} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  string(APPEND text "\nconst char* const ${name} = R\"glsl(${glsl})glsl\";\n")
endforeach()
string(APPEND text "\n}  // namespace keyscope::shaders\n")
file(WRITE ${OUTPUT} "${text}")

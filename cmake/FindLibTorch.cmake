# LibTorch as imported targets, without its own CMake package: the PyPI wheel's demands a CUDA toolkit,
# which nobody who builds for the CPU should need. CUDA is looked for at run time only.
#
#   LIBTORCH_ROOT   a LibTorch folder (with include/ and lib/); by default the one that `./run setup` installs
#   LibTorch::LibTorch   the imported target

set(LIBTORCH_ROOT ${PROJECT_SOURCE_DIR}/.deps/libtorch/torch CACHE PATH "LibTorch folder with include/ and lib/")

find_path(LIBTORCH_INCLUDE_DIR ATen/core/Tensor.h PATHS ${LIBTORCH_ROOT}/include NO_DEFAULT_PATH)
find_library(LIBTORCH_C10 c10 PATHS ${LIBTORCH_ROOT}/lib NO_DEFAULT_PATH)
find_library(LIBTORCH_CPU torch_cpu PATHS ${LIBTORCH_ROOT}/lib NO_DEFAULT_PATH)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LIBTORCH_CPU LIBTORCH_C10 LIBTORCH_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run './run setup', or name another LibTorch folder with -DLIBTORCH_ROOT=DIR")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  get_filename_component(libtorch_lib_dir ${LIBTORCH_CPU} DIRECTORY)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  # After the system's folders: the wheel carries headers of other libraries (another version of fmt, say),
  # which must not hide those that are linked.
  target_compile_options(LibTorch::LibTorch INTERFACE
    "SHELL:-idirafter ${LIBTORCH_INCLUDE_DIR}"
    "SHELL:-idirafter ${LIBTORCH_INCLUDE_DIR}/torch/csrc/api/include")
  target_link_libraries(LibTorch::LibTorch INTERFACE ${LIBTORCH_CPU} ${LIBTORCH_C10})
  # at::parallel_for is serial in what is compiled without OpenMP. The runtime is the one that LibTorch brings,
  # if it brings one: a process has room for one. GNU's, which the wheel brings, is none that Clang can call.
  find_package(OpenMP COMPONENTS CXX)
  if(OpenMP_CXX_FOUND AND NOT (CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND EXISTS ${libtorch_lib_dir}/libgomp.so.1))
    target_compile_options(LibTorch::LibTorch INTERFACE ${OpenMP_CXX_FLAGS})
    if(EXISTS ${libtorch_lib_dir}/libgomp.so.1)
      target_link_libraries(LibTorch::LibTorch INTERFACE ${libtorch_lib_dir}/libgomp.so.1)
    else()
      target_link_libraries(LibTorch::LibTorch INTERFACE OpenMP::OpenMP_CXX)
    endif()
  endif()
  # The wheel's libraries name their CUDA companions by $ORIGIN paths that a CPU build does not follow.
  target_link_options(LibTorch::LibTorch INTERFACE
    LINKER:-rpath,${libtorch_lib_dir} LINKER:--disable-new-dtags LINKER:--allow-shlib-undefined)
endif()
mark_as_advanced(LIBTORCH_INCLUDE_DIR LIBTORCH_C10 LIBTORCH_CPU)

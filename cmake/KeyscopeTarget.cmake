# What every target of the project has in common: warnings as errors, sanitizers, includes from the top
# of the checkout (`#include "analysis/pca.hpp"`).

add_library(keyscope_options INTERFACE)
target_include_directories(keyscope_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(keyscope_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
# LibTorch brings the process's one OpenMP runtime; Eigen must not start another.
target_compile_definitions(keyscope_options INTERFACE EIGEN_DONT_PARALLELIZE)

if(KEYSCOPE_SANITIZE)
  target_compile_options(keyscope_options INTERFACE -fsanitize=${KEYSCOPE_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(keyscope_options INTERFACE -fsanitize=${KEYSCOPE_SANITIZE})
endif()

# keyscope_library(NAME SOURCES ... LINK ...): a static library of the project.
function(keyscope_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC keyscope_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE})
endfunction()

# keyscope_test(NAME [SHARDS N] SOURCES ... LINK ...): a GoogleTest executable, each of its cases known to CTest;
# with SHARDS only N equal parts of it are, a process each, for many short cases that load much before they begin.
function(keyscope_test name)
  cmake_parse_arguments(ARG "" "SHARDS" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE keyscope_options ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE KEYSCOPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT ARG_SHARDS)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 600)
    return()
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}_${shard} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name}_${shard} PROPERTIES TIMEOUT 600
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

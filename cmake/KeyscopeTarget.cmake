# What every target of the project has in common: warnings as errors, sanitizers, includes from the top
# of the checkout (`#include "analysis/pca.hpp"`), precompiled headers.

add_library(keyscope_options INTERFACE)
target_include_directories(keyscope_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(keyscope_options INTERFACE -pthread -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
# LibTorch brings the process's one OpenMP runtime; Eigen must not start another.
target_compile_definitions(keyscope_options INTERFACE EIGEN_DONT_PARALLELIZE)

if(KEYSCOPE_UNITY AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # names of one source are hidden by others' there
  target_compile_options(keyscope_options INTERFACE -Wno-shadow)
endif()

if(KEYSCOPE_SANITIZE)
  target_compile_options(keyscope_options INTERFACE -fsanitize=${KEYSCOPE_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(keyscope_options INTERFACE -fsanitize=${KEYSCOPE_SANITIZE})
  target_compile_definitions(keyscope_options INTERFACE _GLIBCXX_ASSERTIONS)  # indices, optional values, iterators
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # between the sanitizers' checks it no longer sees what is set
    target_compile_options(keyscope_options INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

if(KEYSCOPE_FUZZERS)
  add_custom_target(fuzzers)
  target_compile_options(keyscope_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Links in a fifth of the time that the default linker takes. Of Clang's sanitizers it says 150 times that it
# cannot export a symbol.
include(CheckLinkerFlag)
if(NOT KEYSCOPE_SANITIZE)
  check_linker_flag(CXX -fuse-ld=gold KEYSCOPE_GOLD)
  if(KEYSCOPE_GOLD)
    target_link_options(keyscope_options INTERFACE -fuse-ld=gold)
  endif()
endif()

# For what lies in the engine's library. Its functions are called by their names there, and never replaced.
function(keyscope_position_independent name)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${name} PRIVATE -fno-semantic-interposition)
endfunction()

# Headers that most sources read, parsed once for all targets that name the same set. `core` is for targets
# without LibTorch, whose OpenMP flag changes what headers mean; the other sets are for targets with it.
set(keyscope_core_headers
  <algorithm> <array> <chrono> <cmath> <filesystem> <fstream> <functional> <map> <memory> <optional> <span> <sstream>
  <string> <string_view> <system_error> <utility> <variant> <vector> <Eigen/Core> <fmt/format.h> <nlohmann/json.hpp>)
function(keyscope_precompile set)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINK" ${ARGN})
  add_library(keyscope_pch_${set} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
  target_link_libraries(keyscope_pch_${set} PRIVATE keyscope_options Eigen3::Eigen fmt::fmt
                        nlohmann_json::nlohmann_json ${ARG_LINK})
  target_precompile_headers(keyscope_pch_${set} PRIVATE ${keyscope_core_headers} ${ARG_HEADERS})
endfunction()
# Seconds that a test may take; sanitizers take several times as long.
set(keyscope_test_timeout 900)
if(KEYSCOPE_SANITIZE)
  set(keyscope_test_timeout 3600)
endif()
# More time goes into building tests than into running them.
set(keyscope_test_flags $<$<CONFIG:Release>:-O0>)
if(KEYSCOPE_PCH)
  keyscope_precompile(core)
  keyscope_precompile(torch HEADERS <ATen/core/Tensor.h> LINK LibTorch::LibTorch)
  keyscope_position_independent(keyscope_pch_torch)
  if(KEYSCOPE_TESTS)
    keyscope_precompile(test HEADERS <gtest/gtest.h> <gmock/gmock.h> LINK GTest::gtest GTest::gmock)
    keyscope_precompile(torch_test HEADERS <ATen/core/Tensor.h> <gtest/gtest.h> <gmock/gmock.h>
                        LINK LibTorch::LibTorch GTest::gtest GTest::gmock)
    target_compile_options(keyscope_pch_test PRIVATE ${keyscope_test_flags})
    target_compile_options(keyscope_pch_torch_test PRIVATE ${keyscope_test_flags})
  endif()
endif()

function(keyscope_use_precompiled name set)
  if(KEYSCOPE_PCH AND NOT set STREQUAL "none")
    target_precompile_headers(${name} REUSE_FROM keyscope_pch_${set})
  endif()
endfunction()

# With KEYSCOPE_UNITY, sources of a target are compiled a dozen at a time: headers and templates count once for all.
function(keyscope_join name)
  if(KEYSCOPE_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # a tenth of the time went into collecting garbage
      target_compile_options(${name} PRIVATE "SHELL:--param ggc-min-heapsize=524288")
    endif()
  endif()
endfunction()

# keyscope_library(NAME [PCH SET] SOURCES ... LINK ...): a static library of the project.
function(keyscope_library name)
  cmake_parse_arguments(ARG "" "PCH" "SOURCES;LINK;PRIVATE" ${ARGN})
  if(NOT ARG_PCH)
    set(ARG_PCH core)
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC keyscope_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE})
  keyscope_use_precompiled(${name} ${ARG_PCH})
  keyscope_join(${name})
endfunction()

# keyscope_test(NAME [SHARDS N] [PCH SET] SOURCES ... LINK ...): a GoogleTest executable. CTest starts it once, or,
# where it takes long, first and N times side by side, for a part of its cases each. No process for every case,
# because loading LibTorch takes longer than most cases do.
function(keyscope_test name)
  cmake_parse_arguments(ARG "" "SHARDS;PCH" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_PCH)
    set(ARG_PCH test)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE keyscope_options ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE KEYSCOPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(${name} PRIVATE ${keyscope_test_flags})
  keyscope_use_precompiled(${name} ${ARG_PCH})
  keyscope_join(${name})
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${name})
    set(cost 0)
    if(ARG_SHARDS GREATER 1)
      set(test ${name}_${shard})
      set(cost 100)
    endif()
    add_test(NAME ${test} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${test} PROPERTIES TIMEOUT ${keyscope_test_timeout} COST ${cost}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# keyscope_fuzzer(NAME [SOURCES ...] LINK ...): a libFuzzer target out of tests/FOLDER/NAME.cpp and what it takes beside
# it, where these are built; `fuzzers` are all of them. Elsewhere its function is a part of fuzz_cases_test.
function(keyscope_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(parts "")
  foreach(part ${ARG_SOURCES})
    get_filename_component(part tests/${folder}/${part} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
    list(APPEND parts ${part})
  endforeach()
  set(source ${PROJECT_SOURCE_DIR}/tests/${folder}/${name}.cpp)
  set_property(GLOBAL APPEND PROPERTY KEYSCOPE_FUZZERS ${source})
  set_property(GLOBAL APPEND PROPERTY KEYSCOPE_FUZZER_PARTS ${parts})
  set_property(GLOBAL APPEND PROPERTY KEYSCOPE_FUZZER_LINKS ${ARG_LINK})
  if(KEYSCOPE_FUZZERS)
    add_executable(${name} ${source} ${parts})
    target_link_libraries(${name} PRIVATE keyscope_options ${ARG_LINK} fmt::fmt nlohmann_json::nlohmann_json)
    target_compile_definitions(${name} PRIVATE KEYSCOPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${name})
  endif()
endfunction()

# keyscope_embed(OUTPUT HEADER NAMESPACE FILE ...): a C++ source that holds text files, by embed.cmake.
function(keyscope_embed output header namespace)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} "-DSOURCES=${ARGN}" -DHEADER=${header} -DNAMESPACE=${namespace}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  # A list of words is longer than what Clang says every compiler must take.
  set_source_files_properties(${output} PROPERTIES
    COMPILE_OPTIONS $<$<CXX_COMPILER_ID:Clang>:-Wno-overlength-strings>)
endfunction()

# Compiler settings that every target of ours shares, and the words the folders' CMakeLists use.

# Warnings are errors with the compilers that CI runs; a newer one's new warning must not stop a user.
set(weft_known_compiler OFF)
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15))
  set(weft_known_compiler ${PROJECT_IS_TOP_LEVEL})
endif()
option(WEFT_WERROR "Treat warnings as errors" ${weft_known_compiler})

option(WEFT_UNITY "Compile the sources of a layer several at a time: faster from nothing, slower after a change" OFF)
set(WEFT_LAYER_OPTIONS "" CACHE STRING "Options to compile layers with, but neither tests nor programs")
option(WEFT_SERIAL_TESTS "Build the tests that run in one thread; no race detector needs them" ON)
set(WEFT_TIMEOUT_FACTOR 1 CACHE STRING "How much longer than usual a test may take (sanitizers)")

if(NOT WEFT_TIMEOUT_FACTOR MATCHES "^[1-9][0-9]*$")
  message(FATAL_ERROR "WEFT_TIMEOUT_FACTOR is '${WEFT_TIMEOUT_FACTOR}'; it must be an integer, 1 or more.")
endif()
if(WEFT_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "WEFT_FUZZ is ON, but ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID}, which has no libFuzzer. "
                      "Use cmake --preset asan, or -DCMAKE_CXX_COMPILER=clang++ in an empty build folder.")
endif()
if(BUILD_SHARED_LIBS)
  message(STATUS "BUILD_SHARED_LIBS is ON, but weft's libraries are static all the same (libnccl.so.2 is shared always)")
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(WEFT_CCACHE ccache)
  if(WEFT_CCACHE)
    # What it asks for before it keeps what a precompiled header went into.
    set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${WEFT_CCACHE})
  endif()
endif()

add_library(weft_settings INTERFACE)
target_include_directories(weft_settings INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(weft_settings INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  $<$<BOOL:${WEFT_WERROR}>:-Werror>
  # What a program says of a failed check names the file as it is called here, not who built it where.
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  # Nobody replaces our functions in libnccl.so.2 by others of the same name, so they may be inlined.
  $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>
  # Results must not depend on the compiler's mood: no a*b+c contraction anywhere.
  -ffp-contract=off)

# weft_precompile(TARGET <folder/name.h>...): precompiles headers for a target that compiles nothing else.
function(weft_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  # g++ knows a file by its whole text. What ccache keeps must go by that, too ("depend mode"), not by
  # what the preprocessor leaves: with a header precompiled before a comment was edited, g++ takes the
  # header for another one, and its classes for defined twice.
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_DEPEND=1;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()

# A third of the time that a layer takes to compile goes into the standard library's headers: they are
# read once, but where a unity build does so anyhow. tests/tidy/standard_headers.py sees to it that
# files include what they use of them all the same.
set(weft_unity_layers ${WEFT_UNITY})
file(CONFIGURE OUTPUT standard_headers.cc CONTENT "")
add_library(weft_standard_headers OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/standard_headers.cc)
target_link_libraries(weft_standard_headers PRIVATE weft_settings Threads::Threads)
target_compile_options(weft_standard_headers PRIVATE ${WEFT_LAYER_OPTIONS})
weft_precompile(weft_standard_headers
  <algorithm> <array> <atomic> <chrono> <cstring> <functional> <map> <memory> <mutex> <optional>
  <set> <span> <string> <string_view> <thread> <vector>)

# Compiles the sources of `target` several at a time, in a build that does so at all.
function(weft_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${weft_unity_layers})
  # With several sources in one, g++ takes a source's own types for those of a header.
  target_compile_options(${target} PRIVATE
    $<$<AND:$<BOOL:${weft_unity_layers}>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>)
endfunction()

# weft_layer(NAME [COLD] SOURCES... DEPENDS...): the static library of one folder.
# COLD: takes longer to optimize as WEFT_LAYER_OPTIONS say than the tests and `make fuzz` spend in it.
function(weft_layer name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:weft_settings> ${ARG_DEPENDS})
  if(NOT ARG_COLD)
    target_compile_options(${name} PRIVATE ${WEFT_LAYER_OPTIONS})
  endif()
  if(WEFT_UNITY)
    weft_unity(${name})
  endif()
  if(NOT weft_unity_layers)
    target_precompile_headers(${name} REUSE_FROM weft_standard_headers)
  endif()
endfunction()

# For what takes longer to compile than it ever runs: folders add it to their options.
set(weft_not_hot $<$<CONFIG:Release>:-O1>)

# For what reads nothing from outside: libFuzzer's counters and calls at every comparison double its time.
set(weft_not_fuzzed $<$<BOOL:${WEFT_FUZZ}>:-fno-sanitize=fuzzer-no-link>)

# For programs that nobody installs, and there are hundreds: linked in a third of the time where lld is.
find_program(WEFT_LLD ld.lld)
mark_as_advanced(WEFT_LLD)
set(weft_fast_link $<$<BOOL:${WEFT_LLD}>:-fuse-ld=lld>)

# What all tests are compiled with.
function(weft_test_settings name)
  target_link_libraries(${name} PRIVATE weft_settings GTest::gtest_main)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-Og>)
endfunction()

# weft_test_parts(NAME [UNITY] SOURCES... DEPENDS...): what several tests have in common, cases included,
# compiled once. As objects, because a static library would drop cases that nobody calls.
function(weft_test_parts name)
  cmake_parse_arguments(ARG "UNITY" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
  weft_test_settings(${name})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE)  # for the same header as programs
  target_precompile_headers(${name} REUSE_FROM weft_test_headers)
  if(ARG_UNITY)
    weft_unity(${name})
  endif()
endfunction()

# weft_command_test(NAME COMMAND... [TIMEOUT s] [LABELS l...] [ENVIRONMENT e...] [LOAD waits|crowds]): a command
# under ctest. One that cannot run here exits with 77 and is listed as skipped. Label "slow": not part of
# `make test`, only of CI; "long": nor of that. What this machine's user keeps in his cache has no influence.
#
# PROCESSORS are quarters of a core: `ctest -j` of four times the cores keeps all of them busy. "waits": it
# computes for less than half of its time. "crowds": its ranks keep two cores busy and wait for each
# other; beside other tests that takes twice as long.
function(weft_command_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;LOAD" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  math(EXPR timeout "${ARG_TIMEOUT} * ${WEFT_TIMEOUT_FACTOR}")
  set(quarters 4)
  if(ARG_LOAD STREQUAL waits)
    set(quarters 1)
  elseif(ARG_LOAD STREQUAL crowds)
    set(quarters 8)
  elseif(ARG_LOAD)
    message(FATAL_ERROR "${name}: there is no LOAD ${ARG_LOAD}")
  endif()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} SKIP_RETURN_CODE 77 LABELS "${ARG_LABELS}"
    PROCESSORS ${quarters}
    ENVIRONMENT "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/none;WEFT_TUNING=off;${ARG_ENVIRONMENT}")
endfunction()

# weft_test(NAME SOURCES... DEPENDS... [SERIAL] [TIMEOUT s] [LABELS l...] [SHARDS n] [HEADERS target]
#           [LOAD waits|crowds] [UNITY]):
# one GoogleTest program under ctest, as n tests NAME_1 ... NAME_n that share its cases where it is long.
# SERIAL: all of it, also what it calls, runs in one thread. HEADERS: whose precompiled headers it takes.
# UNITY: no two of its sources give one name to two things.
function(weft_test name)
  cmake_parse_arguments(ARG "SERIAL;UNITY" "TIMEOUT;LOAD;SHARDS;HEADERS" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(ARG_SERIAL AND NOT WEFT_SERIAL_TESTS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  weft_test_settings(${name})
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS weft_test_headers)
  endif()
  target_precompile_headers(${name} REUSE_FROM ${ARG_HEADERS})
  if(ARG_UNITY)
    weft_unity(${name})
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    set(test ${name})
    if(ARG_SHARDS GREATER 1)
      set(test ${name}_${shard})
    endif()
    math(EXPR index "${shard} - 1")
    weft_command_test(${test} COMMAND ${name} TIMEOUT ${ARG_TIMEOUT} LOAD ${ARG_LOAD} LABELS ${ARG_LABELS}
      ENVIRONMENT GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${index})
  endforeach()
endfunction()

# Run by the test `package`; see CMakeLists.txt beside it for the variables.

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ECHO_OUTPUT_VARIABLE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "exit status ${status}: ${ARGV}")
  endif()
  string(STRIP "${output}" output)
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect_output program expected)
  run(${program})
  if(NOT output STREQUAL expected)
    message(FATAL_ERROR "${program} printed '${output}', not '${expected}'")
  endif()
endfunction()

# One program on the engine, and one that starts four ranks.
function(expect_both folder)
  expect_output(${folder}/consumer "ok")
  expect_output(${folder}/ranks "ranks: 4 sum: 6")
endfunction()

file(REMOVE_RECURSE ${work})
set(prefix ${work}/prefix)
run(${CMAKE_COMMAND} --install ${build} --prefix ${prefix})

run(${CMAKE_COMMAND} -S ${consumer} -B ${work}/cmake -G ${generator}
    -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${compiler})
run(${CMAKE_COMMAND} --build ${work}/cmake)
expect_both(${work}/cmake)

find_program(pkg_config pkg-config)
if(pkg_config)
  file(GLOB_RECURSE pc ${prefix}/*/weft.pc)
  get_filename_component(pc_dir "${pc}" DIRECTORY)
  run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc_dir} ${pkg_config} --modversion weft)
  if(NOT output STREQUAL version)
    message(FATAL_ERROR "weft.pc says version '${output}'; this is ${version}")
  endif()
  run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc_dir} ${pkg_config} --cflags --libs weft)
  separate_arguments(flags UNIX_COMMAND "${output}")
  file(MAKE_DIRECTORY ${work}/pkg_config)
  run(${compiler} ${consumer}/main.cc -o ${work}/pkg_config/consumer ${flags})
  run(${compiler} ${consumer}/ranks.cc -o ${work}/pkg_config/ranks ${flags})
  expect_both(${work}/pkg_config)
endif()

# The folder that stands for NCCL's, with a program in C.
find_program(cc NAMES cc gcc clang)
file(GLOB_RECURSE nccl_library ${prefix}/*/libnccl.so.2)
get_filename_component(nccl_lib "${nccl_library}" DIRECTORY)
get_filename_component(nccl_home "${nccl_lib}" DIRECTORY)
run(${cc} -std=gnu99 -pthread ${examples}/nccl/all_reduce.c -o ${work}/all_reduce -I${nccl_home}/include
    -L${nccl_home}/lib -lnccl)
run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${nccl_home}/lib ${work}/all_reduce)
string(REGEX MATCHALL "rank [0-3]: 6\n?" sums "${output}\n")
list(LENGTH sums count)
if(NOT count EQUAL 4)
  message(FATAL_ERROR "all_reduce printed '${output}'")
endif()

foreach(program weft-bench weft-schedule)
  if(NOT EXISTS ${prefix}/bin/${program})
    message(FATAL_ERROR "${program} was not installed")
  endif()
  run(${prefix}/bin/${program} --help)
endforeach()

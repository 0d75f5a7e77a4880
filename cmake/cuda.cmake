# Whether the CUDA kernels are built: WEFT_CUDA=AUTO where there is an nvcc that can, ON always (or says
# what is missing), OFF never. AUTO gives way to what the environment has for WEFT_CUDA. Sets WEFT_HAS_CUDA.

set(WEFT_CUDA AUTO CACHE STRING "Build the CUDA kernels: AUTO (where nvcc is), ON or OFF")
set_property(CACHE WEFT_CUDA PROPERTY STRINGS AUTO ON OFF)
set(WEFT_CUDA_ARCHITECTURES 90 CACHE STRING "Compute capabilities to build for, as 90;100")
set(WEFT_HAS_CUDA OFF)
string(TOUPPER "${WEFT_CUDA}" WEFT_CUDA)
if(WEFT_CUDA STREQUAL "AUTO" AND DEFINED ENV{WEFT_CUDA})
  string(TOUPPER "$ENV{WEFT_CUDA}" WEFT_CUDA)
endif()
if(WEFT_CUDA MATCHES "^(1|YES|TRUE)$")
  set(WEFT_CUDA ON)
elseif(WEFT_CUDA MATCHES "^(0|NO|FALSE)$")
  set(WEFT_CUDA OFF)
elseif(NOT WEFT_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "WEFT_CUDA is '${WEFT_CUDA}'; it must be AUTO, ON or OFF.")
endif()

# Why nvcc cannot build the kernels, in ${result}; empty where it can.
function(weft_try_nvcc nvcc result)
  set(folder ${CMAKE_BINARY_DIR}/CMakeFiles/weft_nvcc)
  file(WRITE ${folder}/probe.cu [[
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#if __CUDACC_VER_MAJOR__ < 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ < 4)
#error "CUDA 12.4 or newer is needed"
#endif
__global__ void probe(unsigned long long* to) {
  asm volatile("{ .reg .b128 t; mov.b128 t, {%1, %1}; st.relaxed.sys.global.b128 [%0], t; }"
               ::"l"(to), "l"(0ull) : "memory");
}
int main() { probe<<<1, 1>>>(nullptr); return cudaGetLastError() == cudaSuccess; }
]])
  execute_process(
    COMMAND ${nvcc} ${weft_nvcc_host} -std=c++20 -cudart static ${weft_nvcc_code} -o ${folder}/probe ${folder}/probe.cu
    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    string(STRIP "${said}" said)
    list(JOIN WEFT_CUDA_ARCHITECTURES " and sm_" architectures)
    set(${result} "${nvcc} cannot build a kernel for sm_${architectures}: ${said}" PARENT_SCOPE)
  else()
    set(${result} "" PARENT_SCOPE)
  endif()
endfunction()

if(NOT WEFT_CUDA STREQUAL "OFF")
  if("${WEFT_CUDA_ARCHITECTURES}" STREQUAL "")
    message(FATAL_ERROR "WEFT_CUDA_ARCHITECTURES is empty; name what to build for, as \"90;100\", or use WEFT_CUDA=OFF.")
  endif()
  set(weft_nvcc_code)
  foreach(architecture IN LISTS WEFT_CUDA_ARCHITECTURES)
    if(NOT architecture MATCHES "^([0-9]+)[af]?$")
      message(FATAL_ERROR "WEFT_CUDA_ARCHITECTURES has '${architecture}'; it must be a list of compute capabilities "
                          "without their points, with semicolons between them, as \"90;100\" or \"100a\".")
    elseif(CMAKE_MATCH_1 LESS 89)
      message(FATAL_ERROR "WEFT_CUDA_ARCHITECTURES has '${architecture}'; weft needs 89 or newer, for 8-bit floats.")
    endif()
    list(APPEND weft_nvcc_code -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()

  set(weft_cuda_missing)
  if("$ENV{CUDACXX}" STREQUAL "")
    find_program(WEFT_NVCC nvcc HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_HOME ENV CUDA_PATH
                 PATH_SUFFIXES bin PATHS /usr/local/cuda)
  else()
    if(NOT "$ENV{CUDACXX}" STREQUAL "${WEFT_CUDACXX}")
      unset(WEFT_NVCC CACHE)  # what was found before it was said
      set(WEFT_CUDACXX "$ENV{CUDACXX}" CACHE INTERNAL "CUDACXX, when WEFT_NVCC was looked for")
    endif()
    find_program(WEFT_NVCC "$ENV{CUDACXX}")
  endif()
  # Host code of both kinds by one compiler, where nvcc takes it.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(weft_nvcc_host -ccbin ${CMAKE_CXX_COMPILER})
    if(CMAKE_CXX_COMPILER_ARG1 MATCHES "^ *([^ -][^ ]*)")  # CXX="ccache g++"
      set(weft_nvcc_host -ccbin ${CMAKE_MATCH_1})
    endif()
  endif()
  set(weft_nvcc_key "${WEFT_NVCC} ${weft_nvcc_host} ${WEFT_CUDA_ARCHITECTURES}")
  if(NOT WEFT_NVCC AND NOT "$ENV{CUDACXX}" STREQUAL "")
    set(weft_cuda_missing "CUDACXX is '$ENV{CUDACXX}', and there is no such program (it is to be nvcc with its path)")
  elseif(NOT WEFT_NVCC)
    set(weft_cuda_missing "there is no nvcc in PATH, $CUDAToolkit_ROOT/bin, $CUDA_HOME/bin or in /usr/local/cuda/bin")
  elseif(NOT weft_nvcc_key STREQUAL WEFT_NVCC_WORKS)
    weft_try_nvcc(${WEFT_NVCC} weft_cuda_missing)
  endif()
  if(NOT weft_cuda_missing)
    set(WEFT_NVCC_WORKS "${weft_nvcc_key}" CACHE INTERNAL "An nvcc that built a kernel")
    set(WEFT_HAS_CUDA ON)
  elseif(WEFT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "WEFT_CUDA is ON, but ${weft_cuda_missing}. Install NVIDIA's CUDA toolkit 12.4 or newer (one "
                        "that knows WEFT_CUDA_ARCHITECTURES), set CUDA_HOME to it, or use WEFT_CUDA=OFF.")
  else()
    message(STATUS "CUDA kernels are not built: ${weft_cuda_missing}")
  endif()
endif()

if(WEFT_HAS_CUDA)
  get_filename_component(CUDAToolkit_ROOT ${WEFT_NVCC} DIRECTORY)
  get_filename_component(CUDAToolkit_ROOT ${CUDAToolkit_ROOT} DIRECTORY)
  find_package(CUDAToolkit QUIET REQUIRED)  # for CUDA::cudart_static: programs start without a driver

  # Results must be those of the CPU: no contraction, IEEE division, subnormals kept (the last two are
  # defaults). A kernel that keeps anything in local memory, spilled registers included, does not compile.
  set(weft_nvcc_command ${WEFT_NVCC} ${weft_nvcc_host} -std=c++20 -O3 --fmad=false ${weft_nvcc_code} -I${PROJECT_SOURCE_DIR}
    -Xcompiler=-fPIC -Xptxas --warn-on-spills,--warn-on-local-memory-usage,--warning-as-error)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    list(PREPEND weft_nvcc_command ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()

# The objects that nvcc makes of `sources`, in ${result}. CMake's own CUDA language would do, but what
# 3.25 knows of nvcc ends at CUDA 12.
function(weft_cuda_objects result)
  set(objects)
  foreach(source IN LISTS ARGN)
    get_filename_component(source ${source} ABSOLUTE)
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${source} ${WEFT_NVCC} DEPFILE ${object}.d VERBATIM
      COMMAND ${weft_nvcc_command} -MD -MF ${object}.d -c ${source} -o ${object}
      COMMENT "Building CUDA object ${name}.o")
    list(APPEND objects ${object})
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

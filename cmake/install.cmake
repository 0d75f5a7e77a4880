# Installs libweft.a, the headers people use, libnccl.so.2, the programs, and how CMake and pkg-config find them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What is installed may be moved, so its folders are relative to the prefix.
foreach(folder CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
  if(IS_ABSOLUTE "${${folder}}")
    cmake_path(IS_PREFIX CMAKE_INSTALL_PREFIX "${${folder}}" NORMALIZE below)
    if(NOT below)
      message(FATAL_ERROR "${folder} is '${${folder}}'; it must be relative to the prefix, or below CMAKE_INSTALL_PREFIX, "
                          "which is '${CMAKE_INSTALL_PREFIX}'.")
    endif()
    cmake_path(RELATIVE_PATH ${folder} BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
  endif()
endforeach()

# Inside include/weft the tree is as here: #include "engine/communicator.h".
set(weft_include_dir ${CMAKE_INSTALL_INCLUDEDIR}/weft)
set(weft_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)

install(TARGETS weft EXPORT weftTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${weft_include_dir})
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${weft_package_dir})

# In a folder like NCCL's own, which nothing finds by itself: who wants this library in the place of NCCL
# says so (README).
if(TARGET nccl)
  set(weft_nccl_home ${CMAKE_INSTALL_LIBDIR}/weft/nccl)
  install(TARGETS nccl LIBRARY DESTINATION ${weft_nccl_home}/lib)
  install(FILES nccl/nccl.h nccl/nccl_device.h DESTINATION ${weft_nccl_home}/include)
  file(READ nccl/nccl.h header)
  string(REGEX MATCH "NCCL_MAJOR ([0-9]+)\n#define NCCL_MINOR ([0-9]+)\n#define NCCL_PATCH ([0-9]+)" header "${header}")
  set(weft_nccl_version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3})
  configure_file(cmake/nccl.pc.in ${PROJECT_BINARY_DIR}/nccl.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/nccl.pc DESTINATION ${weft_nccl_home}/lib/pkgconfig)
endif()

foreach(program ${weft_programs})
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

configure_package_config_file(cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/weftConfig.cmake
  INSTALL_DESTINATION ${weft_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
  DESTINATION ${weft_package_dir})

# weft.pc finds its folders from where it lies: the prefix is told at install time (cmake --install --prefix),
# and may be moved.
set(weft_up /)
cmake_path(RELATIVE_PATH weft_up BASE_DIRECTORY /${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(weft_cuda_libs)
if(WEFT_HAS_CUDA)
  set(weft_cuda_libs "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
endif()
configure_file(cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

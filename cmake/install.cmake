# Installs libweft.a, the headers people use, libnccl.so.2, the programs, and how CMake and pkg-config find them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

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

set(weft_cuda_libs)
if(WEFT_HAS_CUDA)
  set(weft_cuda_libs "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
endif()

# weft.pc is written at install time, when the prefix is known (cmake --install --prefix).
install(CODE "
  set(weft_prefix \"\${CMAKE_INSTALL_PREFIX}\")
  set(weft_version ${PROJECT_VERSION})
  set(weft_description \"${PROJECT_DESCRIPTION}\")
  set(weft_libdir ${CMAKE_INSTALL_LIBDIR})
  set(weft_includedir ${weft_include_dir})
  set(weft_cuda_libs \"${weft_cuda_libs}\")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)")
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

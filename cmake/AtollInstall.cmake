# cmake --install: the programs side by side in bin/ (atoll starts the atoll-link beside it), the libraries with their headers,
# and what find_package(atoll) reads.  docs/install.md says how to use it.
#
# Two export sets, so that a project without libtorch can use the rest: `atoll`, and `atoll-torch` (inner and the drivers).
# A target atoll_base is atoll::base outside.  Not installed: the Gloo half of the link (only the program has Gloo), tests, benchmarks.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/atoll)

set(libraries atoll_options atoll_base atoll_data atoll_kernels atoll_outer atoll_comm atoll_engine atoll_app_core)
set(torch_libraries)
set(programs atoll-link atoll-tokenize)
if(ATOLL_TORCH)
  set(torch_libraries atoll_inner atoll_app)
  list(APPEND programs atoll)
endif()
foreach(target ${libraries} ${torch_libraries})
  string(REPLACE "atoll_" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()

install(TARGETS ${libraries} ${programs} EXPORT atoll INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/atoll)
install(EXPORT atoll NAMESPACE atoll:: FILE atoll-targets.cmake DESTINATION ${package_dir})
if(ATOLL_TORCH)
  install(TARGETS ${torch_libraries} EXPORT atoll-torch)
  install(EXPORT atoll-torch NAMESPACE atoll:: FILE atoll-torch-targets.cmake DESTINATION ${package_dir})
endif()

# Files are named by folder ("outer/schedule.h"), so include/atoll is the one include root.
install(DIRECTORY src/base src/data src/app kernels inner outer comm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/atoll
  FILES_MATCHING PATTERN "*.h" PATTERN "gloo_*" EXCLUDE PATTERN "*cuda*" EXCLUDE PATTERN "torch.h" EXCLUDE)

configure_package_config_file(cmake/atoll-config.cmake.in ${PROJECT_BINARY_DIR}/cmake/atoll-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/atoll-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/atoll-config.cmake ${PROJECT_BINARY_DIR}/cmake/atoll-config-version.cmake
  cmake/FindAtollTorch.cmake DESTINATION ${package_dir})

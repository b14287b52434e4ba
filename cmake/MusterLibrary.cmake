# What other programs get of muster, installed as the component `library`: find_package(muster) defines muster::base,
# muster::net, muster::store, and muster::muster for all of them. A public header includes the standard library and other
# public headers, nothing else.
set(modules base net store)
set(public_headers
  muster/base/clock.h
  muster/base/error.h
  muster/base/fd.h
  muster/base/result.h
  muster/base/version.h
  muster/store/client.h
)

add_library(muster_library INTERFACE)
add_library(muster::muster ALIAS muster_library)
set_target_properties(muster_library PROPERTIES EXPORT_NAME muster)
target_sources(muster_library INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${public_headers})
foreach(module IN LISTS modules)
  set_target_properties(muster_${module} PROPERTIES EXPORT_NAME ${module})
  target_link_libraries(muster_library INTERFACE muster_${module})
endforeach()

include(CMakePackageConfigHelpers)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/musterConfigVersion.cmake" COMPATIBILITY SameMinorVersion)

list(TRANSFORM modules PREPEND muster_ OUTPUT_VARIABLE targets)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/muster")
install(TARGETS muster_library ${targets} EXPORT muster
  ARCHIVE COMPONENT library
  FILE_SET HEADERS COMPONENT library
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT muster NAMESPACE muster:: FILE musterConfig.cmake DESTINATION "${package}" COMPONENT library)
install(FILES "${PROJECT_BINARY_DIR}/musterConfigVersion.cmake" DESTINATION "${package}" COMPONENT library)

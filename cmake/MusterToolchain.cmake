# Language level, warnings, sanitizers and third-party packages: everything that is the same for all modules.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG -ffunction-sections -fdata-sections")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE)
  # Paths relative to the source tree, so that every clone on a machine shares one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${MUSTER_CCACHE})
endif()

add_library(muster_flags INTERFACE)
if(MUSTER_WARNINGS)
  target_compile_options(muster_flags INTERFACE -Wall -Wextra -Werror -Wnon-virtual-dtor -Woverloaded-virtual)
endif()
target_compile_options(muster_flags INTERFACE -fno-omit-frame-pointer)
target_include_directories(muster_flags INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
if(MUSTER_SANITIZE)
  target_compile_options(muster_flags INTERFACE -fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(muster_flags INTERFACE -fsanitize=${MUSTER_SANITIZE})
  target_compile_definitions(muster_flags INTERFACE MUSTER_SANITIZED)  # for tests: g++ and clang++ have no name in common
  if(MUSTER_SANITIZE MATCHES "thread")
    target_compile_options(muster_flags INTERFACE -Wno-tsan)
  endif()
endif()
if(MUSTER_FUZZ)
  target_compile_options(muster_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_package(fmt REQUIRED)  # its headers only: see muster/base/fmt.cpp
find_package(nlohmann_json 3.9 REQUIRED)
# libsodium: the archive, not the shared library: a node needs nothing but glibc.
find_library(MUSTER_SODIUM_ARCHIVE libsodium.a REQUIRED)
find_path(MUSTER_SODIUM_INCLUDE sodium.h REQUIRED)
add_library(muster_sodium STATIC IMPORTED)
set_target_properties(muster_sodium PROPERTIES IMPORTED_LOCATION "${MUSTER_SODIUM_ARCHIVE}"
                                               INTERFACE_INCLUDE_DIRECTORIES "${MUSTER_SODIUM_INCLUDE}"
                                               INTERFACE_LINK_LIBRARIES "pthread")
# yaml-cpp: likewise.
find_library(MUSTER_YAML_ARCHIVE libyaml-cpp.a REQUIRED)
find_path(MUSTER_YAML_INCLUDE yaml-cpp/yaml.h REQUIRED)
add_library(muster_yaml STATIC IMPORTED)
set_target_properties(muster_yaml PROPERTIES IMPORTED_LOCATION "${MUSTER_YAML_ARCHIVE}"
                                             INTERFACE_INCLUDE_DIRECTORIES "${MUSTER_YAML_INCLUDE}")
if(MUSTER_TESTS)
  find_package(GTest REQUIRED)
endif()

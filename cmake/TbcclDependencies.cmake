# Dependencies come from the system's package manager; sh cmake/quickstart.sh installs them. What
# the library cannot be built without is an error here; the rest degrades with a message. What only
# tools, benchmarks or tests need is looked for in their folders.
find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)

# --- needed by the library: fmt, standalone Asio, nlohmann/json ---

find_package(fmt QUIET)
if(NOT fmt_FOUND)
  message(FATAL_ERROR "fmt was not found: apt-get install libfmt-dev, or brew install fmt")
endif()
# Header-only, so that who links the library need not have fmt. Builds with a sanitizer are for tests
# alone, and take two thirds less time to compile with fmt's own library.
add_library(tbccl_fmt INTERFACE)
if(TBCCL_SANITIZE)
  target_link_libraries(tbccl_fmt INTERFACE fmt::fmt)
else()
  target_link_libraries(tbccl_fmt INTERFACE fmt::fmt-header-only)
endif()
target_link_libraries(tbccl_settings INTERFACE tbccl_fmt Threads::Threads)

find_path(ASIO_INCLUDE_DIR asio.hpp)
if(NOT ASIO_INCLUDE_DIR)
  message(FATAL_ERROR "standalone Asio was not found: apt-get install libasio-dev, or brew install asio")
endif()
add_library(tbccl_asio INTERFACE)
target_include_directories(tbccl_asio SYSTEM INTERFACE "${ASIO_INCLUDE_DIR}")
target_compile_definitions(tbccl_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
target_link_libraries(tbccl_asio INTERFACE Threads::Threads)

find_path(TBCCL_JSON_INCLUDE_DIR nlohmann/json.hpp)
if(NOT TBCCL_JSON_INCLUDE_DIR)
  message(FATAL_ERROR "nlohmann/json was not found: apt-get install nlohmann-json3-dev, or brew install nlohmann-json")
endif()
add_library(tbccl_json INTERFACE)
target_include_directories(tbccl_json SYSTEM INTERFACE "${TBCCL_JSON_INCLUDE_DIR}")

# --- optional for the library ---
#
# tbccl_optional_library(NAME pkg-config-module DEFINITION what-is-lost how-to-install)
#
# Makes the INTERFACE target tbccl_NAME, empty when the library is not there, and otherwise with
# DEFINITION=1. A room that links it must compile both ways. TBCCL_OPTIONAL_LIBRARIES collects what
# users of the static library must link as well.
set(TBCCL_OPTIONAL_LIBRARIES "")
macro(tbccl_optional_library name module definition lost install)
  add_library(tbccl_${name} INTERFACE)
  if(PkgConfig_FOUND)
    pkg_check_modules(TBCCL_${name} QUIET IMPORTED_TARGET ${module})
  endif()
  if(TBCCL_${name}_FOUND)
    target_compile_definitions(tbccl_${name} INTERFACE ${definition}=1)
    target_link_libraries(tbccl_${name} INTERFACE PkgConfig::TBCCL_${name})
    list(APPEND TBCCL_OPTIONAL_LIBRARIES ${TBCCL_${name}_LIBRARIES})
  else()
    message(STATUS "${module} was not found by pkg-config: ${lost} (${install})")
  endif()
endmacro()

tbccl_optional_library(hwloc hwloc TBCCL_HAVE_HWLOC "threads are not placed near their device"
                       "apt-get install libhwloc-dev, or brew install hwloc")
tbccl_optional_library(sodium libsodium TBCCL_HAVE_SODIUM "TBCCL_SECRET will be refused"
                       "apt-get install libsodium-dev, or brew install libsodium")
list(REMOVE_DUPLICATES TBCCL_OPTIONAL_LIBRARIES)

# Highway's headers are all that is used of it, so that who links the library need not have it.
add_library(tbccl_highway INTERFACE)
find_path(TBCCL_HIGHWAY_INCLUDE_DIR hwy/highway.h)
if(TBCCL_HIGHWAY_INCLUDE_DIR)
  target_include_directories(tbccl_highway SYSTEM INTERFACE "${TBCCL_HIGHWAY_INCLUDE_DIR}")
  target_compile_definitions(tbccl_highway INTERFACE TBCCL_HAVE_HIGHWAY=1)
else()
  message(STATUS "hwy/highway.h was not found: reductions use no instructions beyond those that the compiler is told \
to use, and are slower (apt-get install libhwy-dev, or brew install highway)")
endif()

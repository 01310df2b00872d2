# Dependencies come from the system's package manager; sh cmake/quickstart.sh installs them.
find_package(Threads REQUIRED)
find_package(PkgConfig)

find_package(fmt QUIET)
if(NOT fmt_FOUND)
  message(FATAL_ERROR "fmt was not found: apt-get install libfmt-dev, or brew install fmt")
endif()
find_path(ASIO_INCLUDE_DIR asio.hpp)
if(NOT ASIO_INCLUDE_DIR)
  message(FATAL_ERROR "standalone Asio was not found: apt-get install libasio-dev, or brew install asio")
endif()
add_library(tbccl_asio INTERFACE)
target_include_directories(tbccl_asio SYSTEM INTERFACE "${ASIO_INCLUDE_DIR}")
target_compile_definitions(tbccl_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
target_link_libraries(tbccl_asio INTERFACE Threads::Threads)

target_link_libraries(tbccl_settings INTERFACE fmt::fmt-header-only Threads::Threads)

# libtbccl, shared and static, from the object files of all rooms; what is installed with it.
#
# In the tree: tbccl::tbccl (shared) and tbccl::static, the same names as after find_package(tbccl).
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY TBCCL_ROOMS)
set(objects "")
set(room_targets "")
foreach(room IN LISTS rooms)
  list(APPEND objects $<TARGET_OBJECTS:tbccl_${room}>)
  list(APPEND room_targets tbccl_${room})
endforeach()

# The placeholder gives the linker its language; all code is in the rooms.
file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/library.cpp" CONTENT "// See src/.\n")

add_library(tbccl SHARED "${CMAKE_CURRENT_BINARY_DIR}/library.cpp")
add_library(tbccl::tbccl ALIAS tbccl)
target_link_libraries(tbccl PRIVATE ${room_targets} ${CMAKE_DL_LIBS})
# Before 1.0 a minor version may break the binary interface, so it is part of the name.
set_target_properties(tbccl PROPERTIES VERSION ${PROJECT_VERSION}
                                       SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

# Hidden visibility hides what this project compiles; the list also hides what comes out of
# headers of others (fmt, Asio, the standard library), which would otherwise bind to, or replace,
# the copies in the user's program.
if(APPLE)
  set(exports "${PROJECT_SOURCE_DIR}/cmake/exports.macos")
  target_link_options(tbccl PRIVATE "LINKER:-exported_symbols_list,${exports}")
else()
  set(exports "${PROJECT_SOURCE_DIR}/cmake/exports.linux")
  target_link_options(tbccl PRIVATE "LINKER:--version-script=${exports}")
  if(NOT TBCCL_SANITIZE)
    target_link_options(tbccl PRIVATE "LINKER:--no-undefined")
  endif()
endif()
set_target_properties(tbccl PROPERTIES LINK_DEPENDS "${exports}")

add_library(tbccl_static STATIC "${CMAKE_CURRENT_BINARY_DIR}/library.cpp" ${objects})
add_library(tbccl::static ALIAS tbccl_static)
set_target_properties(tbccl_static PROPERTIES OUTPUT_NAME tbccl EXPORT_NAME static)
# Optional libraries are found again by the package file, where the user's machine has them.
target_link_libraries(tbccl_static PRIVATE Threads::Threads ${CMAKE_DL_LIBS}
                                           $<BUILD_INTERFACE:tbccl_fmt> $<BUILD_INTERFACE:tbccl_hwloc>
                                           $<BUILD_INTERFACE:tbccl_sodium>)

foreach(target tbccl tbccl_static)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

# --- install ---

install(TARGETS tbccl tbccl_static EXPORT tbcclTargets
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/tbccl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tbccl)
install(EXPORT tbcclTargets NAMESPACE tbccl:: DESTINATION ${package_dir})
configure_package_config_file(cmake/tbcclConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/tbcclConfig.cmake"
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/tbcclConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/tbcclConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/tbcclConfigVersion.cmake"
        DESTINATION ${package_dir})

# The pkg-config file finds its prefix from its own place, so that an installed tree can be moved.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH TBCCL_PC_UP "/root/${pc_dir}" "/root")
string(REGEX REPLACE "/$" "" TBCCL_PC_UP "${TBCCL_PC_UP}")
set(TBCCL_PC_PRIVATE "")
foreach(library IN LISTS TBCCL_OPTIONAL_LIBRARIES)
  string(APPEND TBCCL_PC_PRIVATE "-l${library} ")
endforeach()
if(APPLE)
  string(APPEND TBCCL_PC_PRIVATE "-lc++")
else()
  string(APPEND TBCCL_PC_PRIVATE "-lstdc++ -lm -lpthread -ldl")
endif()
configure_file(cmake/tbccl.pc.in "${CMAKE_CURRENT_BINARY_DIR}/tbccl.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/tbccl.pc" DESTINATION ${pc_dir})

# CAF's core module. Debian's and Ubuntu's libcaf-dev ship no CMake package, so it is found by header and library.
# Defines CAF::core. Only actors/ links it.
find_path(CAF_INCLUDE_DIR caf/all.hpp)
find_library(CAF_CORE_LIBRARY caf_core)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR
                                  REASON_FAILURE_MESSAGE "install libcaf-dev (0.17)")
if(CAF_FOUND AND NOT TARGET CAF::core)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES IMPORTED_LOCATION ${CAF_CORE_LIBRARY}
                                             INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR}
                                             INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
endif()
mark_as_advanced(CAF_INCLUDE_DIR CAF_CORE_LIBRARY)

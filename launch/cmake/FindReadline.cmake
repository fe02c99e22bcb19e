# GNU readline: lines of an interactive session. It ships no CMake package. Defines Readline::readline. Only launch/ links
# it.
find_path(READLINE_INCLUDE_DIR readline/readline.h)
find_library(READLINE_LIBRARY readline)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Readline REQUIRED_VARS READLINE_LIBRARY READLINE_INCLUDE_DIR
                                  REASON_FAILURE_MESSAGE "install libreadline-dev")
if(Readline_FOUND AND NOT TARGET Readline::readline)
  add_library(Readline::readline UNKNOWN IMPORTED)
  set_target_properties(Readline::readline PROPERTIES IMPORTED_LOCATION ${READLINE_LIBRARY}
                                                      INTERFACE_INCLUDE_DIRECTORIES ${READLINE_INCLUDE_DIR}
                                                      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${READLINE_INCLUDE_DIR})
endif()
mark_as_advanced(READLINE_INCLUDE_DIR READLINE_LIBRARY)

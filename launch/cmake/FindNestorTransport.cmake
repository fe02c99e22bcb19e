# What moves bytes between processes: UCX and ZeroMQ with its C++ header. Debian's and Ubuntu's libzmq3-dev ships no CMake
# package, so both are found by header and library. Defines Nestor::ucx and Nestor::zmq. Only comm/ links them.
find_path(UCX_INCLUDE_DIR ucp/api/ucp.h)
find_library(UCX_UCP_LIBRARY ucp)
find_library(UCX_UCS_LIBRARY ucs)
find_path(ZMQ_INCLUDE_DIR zmq.hpp)
find_library(ZMQ_LIBRARY zmq)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  NestorTransport REQUIRED_VARS UCX_UCP_LIBRARY UCX_UCS_LIBRARY UCX_INCLUDE_DIR ZMQ_LIBRARY ZMQ_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libucx-dev, libzmq3-dev and cppzmq-dev")
if(NestorTransport_FOUND AND NOT TARGET Nestor::ucx)
  add_library(Nestor::ucx INTERFACE IMPORTED)
  target_link_libraries(Nestor::ucx INTERFACE ${UCX_UCP_LIBRARY} ${UCX_UCS_LIBRARY})
  target_include_directories(Nestor::ucx SYSTEM INTERFACE ${UCX_INCLUDE_DIR})
  add_library(Nestor::zmq INTERFACE IMPORTED)
  target_link_libraries(Nestor::zmq INTERFACE ${ZMQ_LIBRARY})
  target_include_directories(Nestor::zmq SYSTEM INTERFACE ${ZMQ_INCLUDE_DIR})
endif()
mark_as_advanced(UCX_INCLUDE_DIR UCX_UCP_LIBRARY UCX_UCS_LIBRARY ZMQ_INCLUDE_DIR ZMQ_LIBRARY)

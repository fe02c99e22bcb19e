# nestor_library(NAME SOURCES ... LINK ...) and nestor_executable(NAME SOURCES ... LINK ...): every target of the
# project is made by one of the two, so that warnings, sanitizers and the include spelling are alike everywhere.
# TORCH among the arguments reuses the one precompiled torch/torch.h (a unit that includes it costs 13 s without).

function(nestor_target_settings name)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms: on "text" + std::to_string (GCC bug 105651), on std::optional (80635).
    target_compile_options(${name} PRIVATE -Wno-restrict -Wno-maybe-uninitialized)
  endif()
  if(NESTOR_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${NESTOR_SANITIZE} -fno-omit-frame-pointer -O1 -g1)
    target_link_options(${name} PUBLIC -fsanitize=${NESTOR_SANITIZE})
    if(NESTOR_SANITIZE MATCHES "undefined")
      target_compile_options(${name} PRIVATE -fno-sanitize-recover=undefined)
    endif()
  endif()
endfunction()

# Built with LibTorch's own definitions alone: a precompiled header may be used with more definitions, not with fewer.
function(nestor_reuse_torch_header name)
  if(NOT TARGET nestor_torch_header)
    if(NOT EXISTS ${PROJECT_BINARY_DIR}/torch_header.cc)  # written anew it would be compiled anew
      file(WRITE ${PROJECT_BINARY_DIR}/torch_header.cc "")
    endif()
    add_library(nestor_torch_header OBJECT ${PROJECT_BINARY_DIR}/torch_header.cc)
    target_link_libraries(nestor_torch_header PRIVATE Nestor::torch)
    nestor_target_settings(nestor_torch_header)
    target_precompile_headers(nestor_torch_header PRIVATE <torch/torch.h>)
  endif()
  target_precompile_headers(${name} REUSE_FROM nestor_torch_header)
  # Loading the precompiled header costs 5 s and 1 GB each time: a few sources share a unit.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${NESTOR_UNITY} UNITY_BUILD_BATCH_SIZE 6)
endfunction()

function(nestor_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;LINK;LINK_PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  string(REPLACE "nestor_" "" short ${name})
  add_library(Nestor::${short} ALIAS ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${short})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE ${ARG_LINK_PRIVATE})
  nestor_target_settings(${name})
  if(ARG_TORCH)
    nestor_reuse_torch_header(${name})
  endif()
endfunction()

function(nestor_executable name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  nestor_target_settings(${name})
  if(ARG_TORCH)
    nestor_reuse_torch_header(${name})
  endif()
endfunction()

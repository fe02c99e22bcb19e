# cmake --install and find_package(Nestor).
include(CMakePackageConfigHelpers)
set(_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Nestor)
install(TARGETS nestor_scheduler nestor_modules nestor_comm nestor_actors nestor_launch EXPORT NestorTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS nestor RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(_folder scheduler modules comm actors launch)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${_folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nestor
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT NestorTargets NAMESPACE Nestor:: DESTINATION ${_config_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/NestorConfig.cmake.in ${PROJECT_BINARY_DIR}/NestorConfig.cmake
                              INSTALL_DESTINATION ${_config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/NestorConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/NestorConfig.cmake ${PROJECT_BINARY_DIR}/NestorConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindCAF.cmake ${CMAKE_CURRENT_LIST_DIR}/FindNestorTorch.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindNestorTransport.cmake ${CMAKE_CURRENT_LIST_DIR}/FindReadline.cmake
        DESTINATION ${_config_dir})

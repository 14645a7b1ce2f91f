# SPDX-License-Identifier: Apache-2.0
# `make install`: the command, the library, its headers and a pkg-config file.
include_guard(GLOBAL)
include(GNUInstallDirs)

install(TARGETS shoal LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/shoal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET shoal_command)
  set_target_properties(shoal_command PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS shoal_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
file(RELATIVE_PATH SHOAL_PC_UP /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p) # works wherever it is put
configure_file(${CMAKE_SOURCE_DIR}/cmake/shoal.pc.in ${CMAKE_BINARY_DIR}/shoal.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/shoal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# SPDX-License-Identifier: Apache-2.0
# `make install`: the command with its manual pages, completion and unit, the libraries, their
# headers, what pkg-config and CMake find it by, the documentation.
include_guard(GLOBAL)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS shoal shoal_train shoal_archive shoal_train_archive
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/shoal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH SHOAL_PC_UP /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p) # works wherever it is put
foreach(name shoal shoal_train)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/${name}.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(SHOAL_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/shoal)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/shoalConfig.cmake.in
  ${CMAKE_BINARY_DIR}/shoalConfig.cmake INSTALL_DESTINATION ${SHOAL_CMAKE_FOLDER}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/shoalConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/shoalConfig.cmake ${CMAKE_BINARY_DIR}/shoalConfigVersion.cmake
  DESTINATION ${SHOAL_CMAKE_FOLDER})

if(TARGET shoal_command)
  install(FILES ${CMAKE_SOURCE_DIR}/cli/completion.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME shoal)
  install(FILES ${CMAKE_SOURCE_DIR}/cli/completion.zsh
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _shoal)
  install(FILES ${CMAKE_SOURCE_DIR}/cli/completion.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME shoal.fish)
  set_target_properties(shoal_command PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS shoal_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${CMAKE_SOURCE_DIR}/innet/shoal-aggregator.service
    DESTINATION lib/systemd/system)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/monitoring
    DESTINATION ${CMAKE_INSTALL_DATADIR}/shoal)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}
    FILES_MATCHING PATTERN "*.md")
endif()

# The pages are what the command says of itself, so it has to run here, or an emulator runs it.
find_program(PYTHON3 python3)
if(TARGET shoal_command AND PYTHON3 AND NOT SHOAL_SANITIZE
    AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
  set(generator ${CMAKE_SOURCE_DIR}/tools/make_man.py)
  add_custom_command(OUTPUT man/shoal.1
    COMMAND ${PYTHON3} ${generator} --command ${CMAKE_CROSSCOMPILING_EMULATOR}
      $<TARGET_FILE:shoal_command> --out man
    DEPENDS shoal_command ${generator} ${CMAKE_SOURCE_DIR}/debian/changelog
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)
  set(generator3 ${CMAKE_SOURCE_DIR}/tools/make_man3.py)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/shoal/*.h)
  add_custom_command(OUTPUT man3/shoal.h.3
    COMMAND ${PYTHON3} ${generator3} --out man3
    DEPENDS ${headers} ${generator} ${generator3} ${CMAKE_SOURCE_DIR}/debian/changelog
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)
  add_custom_target(man ALL DEPENDS man/shoal.1 man3/shoal.h.3)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/man3/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
endif()

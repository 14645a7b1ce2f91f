# SPDX-License-Identifier: Apache-2.0
# `make install`: the command with its manual pages and unit, the library, its headers and a
# pkg-config file, the documentation.
include_guard(GLOBAL)
include(GNUInstallDirs)

install(TARGETS shoal LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES $<TARGET_FILE:shoal_internal> DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libshoal.a)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/shoal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH SHOAL_PC_UP /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p) # works wherever it is put
configure_file(${CMAKE_SOURCE_DIR}/cmake/shoal.pc.in ${CMAKE_BINARY_DIR}/shoal.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/shoal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET shoal_command)
  set_target_properties(shoal_command PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS shoal_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${CMAKE_SOURCE_DIR}/innet/shoal-aggregator.service
    DESTINATION lib/systemd/system)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}
    FILES_MATCHING PATTERN "*.md")
endif()

# The pages are what the command says of itself, so it has to run here.
find_program(PYTHON3 python3)
if(TARGET shoal_command AND PYTHON3 AND NOT SHOAL_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  set(generator ${CMAKE_SOURCE_DIR}/tools/make_man.py)
  add_custom_command(OUTPUT man/shoal.1
    COMMAND ${PYTHON3} ${generator} --command $<TARGET_FILE:shoal_command> --out man
    DEPENDS shoal_command ${generator} ${CMAKE_SOURCE_DIR}/debian/changelog
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)
  add_custom_target(man ALL DEPENDS man/shoal.1)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

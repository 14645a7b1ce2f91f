# SPDX-License-Identifier: Apache-2.0
# This machine's compiler against glibc and libraries of Debian 11, in a folder that
# tools/manylinux.sh makes (preset manylinux): for a wheel that older systems take as well.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER gcc)
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
get_filename_component(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/debian11-root ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER) # compilers and generators are this machine's
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# pkg-config puts the folder in front of every path that it prints.
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
# The compiler looks beside itself, into this machine's libraries, before it looks into the folder.
set(library ${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu)
set(first "-B${library} -L${library} -L${CMAKE_SYSROOT}/lib/x86_64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${first}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${first}")

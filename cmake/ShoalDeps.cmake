# SPDX-License-Identifier: Apache-2.0
# Debian libraries (packages.txt) as imported targets; a room names what it uses in LIBS.
include_guard(GLOBAL)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
find_program(PROTOC_C protoc-c REQUIRED)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET libssl libcrypto)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd) # metrics of the command
pkg_check_modules(SMARTCOLS REQUIRED IMPORTED_TARGET smartcols) # tables of the command
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8) # words of tokenizers
pkg_check_modules(FREETYPE REQUIRED IMPORTED_TARGET freetype2)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
# oneDNN is linked with nothing: nn loads it by its name, libdnnl.so.2 or .3.6, when a net needs it.
find_path(SHOAL_ONEDNN_INCLUDE oneapi/dnnl/dnnl.h REQUIRED)
find_library(SHOAL_ONEDNN_LIBRARY dnnl REQUIRED)
execute_process(COMMAND ${CMAKE_READELF} -d ${SHOAL_ONEDNN_LIBRARY}
  OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
if(NOT dynamic MATCHES "SONAME[^[]*\\[([^]]+)")
  message(FATAL_ERROR "${SHOAL_ONEDNN_LIBRARY} does not say its name")
endif()
add_library(shoal_onednn INTERFACE)
target_include_directories(shoal_onednn SYSTEM INTERFACE ${SHOAL_ONEDNN_INCLUDE})
target_compile_definitions(shoal_onednn INTERFACE SHOALI_ONEDNN_LIBRARY="${CMAKE_MATCH_1}")
target_link_libraries(shoal_onednn INTERFACE ${CMAKE_DL_LIBS})
option(SHOAL_LIBFABRIC "the transport libfabric, where its headers are" ON)
if(SHOAL_LIBFABRIC)
  pkg_check_modules(LIBFABRIC libfabric>=1.14) # packages.txt; without it the row says so
endif()
if(SHOAL_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  pkg_check_modules(NLOPT REQUIRED IMPORTED_TARGET nlopt) # cross-checks
endif()

# SPDX-License-Identifier: Apache-2.0
# Flags for all of Shoal, and the ways to add code: shoal_room, shoal_library, shoal_test.
include_guard(GLOBAL)

add_library(shoal_flags INTERFACE)
target_include_directories(shoal_flags INTERFACE
  ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(shoal_flags INTERFACE _GNU_SOURCE)
# Texts may be cut at their capacity: -Wformat-truncation would ask to say so at each snprintf.
target_compile_options(shoal_flags INTERFACE
  -Wall -Wextra -Wpedantic $<$<BOOL:${SHOAL_WERROR}>:-Werror> -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla
  $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation> -ffp-contract=off -fno-math-errno
  -fno-semantic-interposition)
# gcc 12 for ARM ends with an internal error where a loop looks for the largest by fmax().
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND
    CMAKE_C_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(shoal_flags INTERFACE -fno-builtin-fmax -fno-builtin-fmaxf
    -fno-builtin-fmin -fno-builtin-fminf)
endif()
# No binary names the folder that it was built in: neither __FILE__, generated code's included, nor
# debug information, nor a library path. The same sources give the same bytes anywhere.
add_compile_options(-ffile-prefix-map=${CMAKE_BINARY_DIR}=build
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
if(SHOAL_SANITIZE)
  target_compile_options(shoal_flags INTERFACE -fsanitize=${SHOAL_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(shoal_flags INTERFACE -fsanitize=${SHOAL_SANITIZE})
  # Fences stand between processes (shm rings), which the thread sanitizer does not see anyway.
  target_compile_options(shoal_flags INTERFACE $<$<C_COMPILER_ID:GNU>:-Wno-tsan>)
endif()
if(SHOAL_FUZZ)
  target_compile_options(shoal_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(shoal_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(SHOAL_COVERAGE)
  target_compile_options(shoal_flags INTERFACE --coverage)
  target_link_options(shoal_flags INTERFACE --coverage)
endif()

# shoal_room(NAME SOURCES a.c b.c [TABLE kinds.def MACRO SHOAL_KIND] [AVX2 avx2/x.c ...]
#            [NEON neon/x.c ...] [LIBS ...])
# TABLE: one `MACRO(name)` per line; each adds name.c of this folder to the sources, and editing the
# table re-runs CMake. AVX2 sources are compiled with the AVX2, FMA and F16C instruction sets, NEON
# sources only for 64-bit ARM, which always has it.
function(shoal_room name)
  cmake_parse_arguments(R "" "TABLE;MACRO" "SOURCES;AVX2;NEON;LIBS" ${ARGN})
  set(sources ${R_SOURCES})
  if(R_TABLE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${R_TABLE})
    file(STRINGS ${R_TABLE} rows REGEX "^${R_MACRO}\\(")
    foreach(row IN LISTS rows)
      string(REGEX REPLACE "^${R_MACRO}\\(([a-z0-9_]+).*" "\\1" kind "${row}")
      list(APPEND sources ${kind}.c)
    endforeach()
  endif()
  if(R_AVX2 AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties(${R_AVX2} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    list(APPEND sources ${R_AVX2})
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(APPEND sources ${R_NEON})
  endif()
  add_library(room_${name} OBJECT ${sources})
  target_link_libraries(room_${name} PUBLIC shoal_flags ${R_LIBS})
  set_property(GLOBAL APPEND PROPERTY SHOAL_BUILT_ROOMS room_${name})
endfunction()

# shoal_library(NAME ROOMS room... [ON library...]): libNAME.so of these rooms, and libNAME.a. The
# public functions have a version of the ABI; those that another library of ours calls (shoali_*)
# stand in one of their own, which nobody else may use: both files come from one build.
function(shoal_library name)
  cmake_parse_arguments(L "" "" "ROOMS;ON" ${ARGN})
  set(objects "")
  set(libs "")
  foreach(room IN LISTS L_ROOMS)
    if(TARGET room_${room})
      list(APPEND objects $<TARGET_OBJECTS:room_${room}>)
      get_target_property(of_room room_${room} LINK_LIBRARIES)
      list(APPEND libs ${of_room})
    endif()
  endforeach()
  add_library(${name} SHARED ${objects})
  add_library(${name}_archive STATIC ${objects})
  target_link_libraries(${name} PUBLIC ${L_ON} PRIVATE ${libs} m pthread)
  set_target_properties(${name}_archive PROPERTIES OUTPUT_NAME ${name})
  set(map ${CMAKE_SOURCE_DIR}/cmake/shoal.map)
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH "$ORIGIN" LINK_DEPENDS ${map})
  target_link_options(${name} PRIVATE -Wl,--version-script=${map} -Wl,-Bsymbolic)
  if(SHOAL_SANITIZE) # a program brings its runtime, which has to come first
    target_link_options(${name} INTERFACE -fsanitize=${SHOAL_SANITIZE})
  else()
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

# shoal_internal, every room in one static library for tests and bench. With SHOAL_SHARED_TESTS it
# is shared: tools/mutants puts others into its place without linking a test again.
function(shoal_internal_library)
  get_property(rooms GLOBAL PROPERTY SHOAL_BUILT_ROOMS)
  set(kind STATIC)
  if(SHOAL_SHARED_TESTS)
    set(kind SHARED)
  endif()
  set(objects "")
  foreach(room IN LISTS rooms)
    list(APPEND objects $<TARGET_OBJECTS:${room}>)
  endforeach()
  add_library(shoal_internal ${kind} ${objects})
  foreach(room IN LISTS rooms)
    get_target_property(libs ${room} LINK_LIBRARIES)
    target_link_libraries(shoal_internal PUBLIC ${libs})
  endforeach()
  target_link_libraries(shoal_internal PUBLIC m pthread)
endfunction()

# shoal_test(FILE LABELS [TIMEOUT s]): one executable and one ctest entry per file, named after its
# path below tests/.
function(shoal_test file label)
  cmake_parse_arguments(T "" "TIMEOUT" "LIBS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 180) # it ends what hangs; a busy machine may need a minute for two seconds
  endif()
  if(SHOAL_SANITIZE)
    math(EXPR T_TIMEOUT "2 * ${T_TIMEOUT}")
  elseif(CMAKE_CROSSCOMPILING)
    math(EXPR T_TIMEOUT "5 * ${T_TIMEOUT}") # by an emulator
  endif()
  file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/tests ${file})
  string(REGEX REPLACE "\\.c$" "" path ${path})
  string(REPLACE "/" "." target ${path})
  add_executable(${target} ${file})
  target_link_libraries(${target} PRIVATE shoal_internal test_support ${T_LIBS})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${path} COMMAND ${target})
  set_tests_properties(${path} PROPERTIES
    LABELS "${label}" SKIP_RETURN_CODE 77 TIMEOUT ${T_TIMEOUT})
  if(CMAKE_CROSSCOMPILING)
    set_tests_properties(${path} PROPERTIES ENVIRONMENT SHOAL_TEST_EMULATED=1)
  endif()
  if("proc" IN_LIST label)
    set_tests_properties(${path} PROPERTIES PROCESSORS 2) # several ranks: no second one beside it
  endif()
endfunction()

# SPDX-License-Identifier: Apache-2.0
# cmake -DIN=a.h;b.c -DOUT=text.inc -P embed.cmake: the files' bytes, one behind the other, as a C
# initialiser. Lines that include our own headers are left out: what is embedded stands in one file.
set(all "")
foreach(file IN LISTS IN)
  file(READ ${file} bytes HEX)
  file(STRINGS ${file} includes REGEX "^#include \"")
  foreach(line IN LISTS includes)
    string(HEX "${line}" hex)
    string(REPLACE "${hex}0a" "" bytes "${bytes}")
  endforeach()
  string(APPEND all "${bytes}")
endforeach()
string(REGEX REPLACE "(................................)" "\\1\n" all "${all}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," all "${all}")
file(WRITE ${OUT} "${all}\n")

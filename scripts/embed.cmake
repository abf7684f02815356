# Makes OUT, a C file with the table TABLE: the bytes of FILES (separated by |), each under its path below ROOT.
string(REPLACE "|" ";" FILES "${FILES}")
set(arrays "")
set(entries "")
set(index 0)
foreach(path ${FILES})
  file(READ "${ROOT}/${path}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "static const unsigned char file_${index}[] = {\n${bytes}};\n")
  string(APPEND entries "    {\"${path}\", file_${index}, sizeof file_${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUT}" "/* Made by scripts/embed.cmake. */\n#include \"base/embedded.h\"\n\n${arrays}
extern const lap_embedded ${TABLE}[];
const lap_embedded ${TABLE}[] = {\n${entries}    {0}};\n")

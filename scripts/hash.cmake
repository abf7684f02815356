# Makes OUT, a header with the macro NAME: the first 16 digits of a SHA-256 over FILES (separated by |), each with its
# path below ROOT. It is left alone where nothing has changed, so that nothing is compiled again.
string(REPLACE "|" ";" FILES "${FILES}")
set(text "")
foreach(path ${FILES})
  file(SHA256 "${ROOT}/${path}" hash)
  string(APPEND text "${path} ${hash}\n")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING "${hash}" 0 16 hash)
file(CONFIGURE OUTPUT "${OUT}" CONTENT "/* Made by scripts/hash.cmake. */\n#define ${NAME} \"${hash}\"\n" @ONLY)

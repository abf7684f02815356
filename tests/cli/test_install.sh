#!/usr/bin/env bash
# The installed library, header and pkg-config file are enough to build the example with, and the
# installed program finds its model. (The program's build directory is what gets installed.)
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

prefix=$work/prefix

installs() {
  cmake --install "$build" --prefix "$prefix" || return 1
  pc=$(dirname "$(find "$prefix" -name lapidary.pc)")
  sed -i "s|^prefix=.*|prefix=$prefix|" "$pc/lapidary.pc"
}

builds_the_example() {
  local sanitize compiler
  sanitize=$(sed -n 's/^SANITIZE:STRING=\(.\+\)/-fsanitize=\1/p' "$build/CMakeCache.txt")
  compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
  # shellcheck disable=SC2046,SC2086
  "$compiler" $sanitize "$source/examples/complete.c" $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs lapidary) -o complete
}

says_the_same() {
  local by_library by_program
  by_library=$(bounded ./complete "$prefix/share/lapidary/pebble" 'One day') || return 1
  by_program=$(bounded "$prefix/bin/lapidary" run --greedy -n 100 'One day') || return 1
  [ -n "$by_library" ] && [ "$by_library" = "$by_program" ] || { echo "'$by_library' is not '$by_program'"; return 1; }
}

names_the_directory() {
  local refused
  refused=$(bounded ./complete /no/such 'One day' 2>&1)
  echo "$refused"
  [[ $refused == "complete: /no/such"* ]]
}

check 'it is installed' installs
check 'the example is built with what is installed' builds_the_example
check "the library says what the program says" says_the_same
check 'a directory that is not there is named' names_the_directory
check 'the man page is there' man -l --warnings "$prefix/share/man/man1/lapidary.1"
finish

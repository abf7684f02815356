#!/usr/bin/env bash
# The installed library, header and pkg-config file are enough to build the example with, and the
# installed program finds its model.
#   test_install.sh PROGRAM   (its build directory is what gets installed)
set -euo pipefail
build=$(cd "$(dirname "$1")" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build" --prefix "$prefix" >/dev/null
pc=$(dirname "$(find "$prefix" -name lapidary.pc)")
sed -i "s|^prefix=.*|prefix=$prefix|" "$pc/lapidary.pc"
sanitize=$(sed -n 's/^SANITIZE:STRING=\(.\+\)/-fsanitize=\1/p' "$build/CMakeCache.txt")
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
# shellcheck disable=SC2046
"$compiler" $sanitize "$source/examples/complete.c" $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs lapidary) -o "$prefix/complete"
cd /
by_library=$("$prefix/complete" "$prefix/share/lapidary/pebble" 'One day')
by_program=$("$prefix/bin/lapidary" run --greedy -n 100 'One day')
[ -n "$by_library" ] && [ "$by_library" = "$by_program" ] || { echo "not ok - '$by_library' is not '$by_program'"; exit 1; }
refused=$("$prefix/complete" /no/such 'One day' 2>&1 || true)
case $refused in "complete: /no/such"*) ;; *) echo "not ok - '$refused' does not name the directory"; exit 1 ;; esac
man -l --warnings "$prefix/share/man/man1/lapidary.1" >/dev/null
echo "ok - the installed library, program and man page work"

#!/usr/bin/env bash
# The installed library, header and pkg-config file are enough to build the examples with, from C and from C++, and the
# installed program finds its model. (The program's build directory is what gets installed.)
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

prefix=$work/prefix
model=$prefix/share/lapidary/pebble
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
sanitize=$(sed -n 's/^SANITIZE:STRING=\(.\+\)/-fsanitize=\1/p' "$build/CMakeCache.txt")

installs() {
  local pc
  cmake --install "$build" --prefix "$prefix" || return 1
  pc=$(dirname "$(find "$prefix" -name lapidary.pc)")
  sed -i "s|^prefix=.*|prefix=$prefix|" "$pc/lapidary.pc"
  read -ra flags < <(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs lapidary)
}

builds() { # EXAMPLE
  # shellcheck disable=SC2086
  "$compiler" $sanitize -std=c17 -Wall -Wextra -Wpedantic -Werror "$source/examples/$1.c" "${flags[@]}" -o "$1"
}

# Where there are sanitizers, the C++ compiler at hand may be of another make and have others.
works_from_cplusplus() {
  cat >plus.cc <<'EOF'
#include <lapidary.h>
int main(int, char **argv) {
  lap_model *model = nullptr;
  lap_error error;
  lap_status status = lap_model_open(argv[1], nullptr, &model, &error);
  lap_model_close(model);
  return status == LAP_OK ? 0 : 1;
}
EOF
  [ -z "$sanitize" ] || { c++ -fsyntax-only -Wall -Wextra -Wpedantic -Werror "-I$prefix/include" plus.cc; return; }
  c++ -Wall -Wextra -Wpedantic -Werror plus.cc "${flags[@]}" -o plus && bounded ./plus "$model"
}

# The functions are the statements of the header that define no type.
exports_what_is_declared() {
  "$compiler" -E -P "$prefix/include/lapidary.h" | tr '\n' ' ' | sed 's/[;{}]/&\n/g' | grep -v typedef |
    grep -oE '\blap_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >declared
  nm -g --defined-only "$(find "$prefix" -name liblapidary.a)" | awk 'NF == 3 {print $3}' | sort -u >exported
  [ -s declared ] && diff declared exported
}

installed() { bounded "$prefix/bin/lapidary" "$@"; }

same() { # WHAT THE LIBRARY SAYS, WHAT THE PROGRAM SAYS
  [ -n "$1" ] && [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }
}

says_the_same() {
  same "$(bounded ./complete "$model" 'One day')" "$(installed run --greedy -n 100 'One day')"
}

batch_says_the_same() {
  local texts=('One day' 'One day a boy' 'What is 30 + 12?')
  same "$(bounded ./batch "$model" "${texts[@]}")" \
    "$(for text in "${texts[@]}"; do installed run --greedy -n 100 "$text"; done)"
}

conversation_says_the_same() {
  local texts=('What is 74 - 8?' 'What is 30 + 12?')
  same "$(bounded ./conversation "$model" "${texts[@]}")" "$(printf '%s\n' "${texts[@]}" | installed chat --greedy)"
}

answer_is_valid() {
  local schema='{"type": "object", "properties": {"sum": {"type": "integer"}, "sure": {"type": "boolean"}},
    "required": ["sum", "sure"], "additionalProperties": false}'
  bounded ./structured "$model" "$schema" 'What is 30 + 12?' >answer || return 1
  cat answer
  /usr/bin/python3 -c 'import json, jsonschema, sys
jsonschema.validate(json.load(open("answer")), json.loads(sys.argv[1]))' "$schema"
}

refuses_with() { # BEGINNING COMMAND...
  local refused
  refused=$(bounded "${@:2}" 2>&1) && return 1
  echo "$refused"
  [[ $refused == "$1"* ]]
}

check 'it is installed' installs
for example in complete batch conversation structured; do
  check "the example $example is built with what is installed" builds "$example"
done
check 'a C++ program is, too' works_from_cplusplus
check 'what the header declares is exported, and nothing else' exports_what_is_declared
check 'the library says what the program says' says_the_same
check 'a batch says what the program says of each text' batch_says_the_same
check 'a conversation says what chat says' conversation_says_the_same
check "an answer is what its schema says" answer_is_valid
check 'a directory that is not there is named' refuses_with 'complete: /no/such' ./complete /no/such 'One day'
check 'a schema that is wrong is named' refuses_with 'structured: schema: type' ./structured "$model" '{"type": 7}' Hello
check 'the man page is there' man -l --warnings "$prefix/share/man/man1/lapidary.1"
finish

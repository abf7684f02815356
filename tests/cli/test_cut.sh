#!/usr/bin/env bash
# `lapidary cut` and `check` as a user meets them: the golden checkpoints and the five public sizes made small,
# what is stored and where, and everything that can go wrong.
# The compiler is the one that the program was built with. Sanitizer builds do a part.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

program_beside_models
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null)
compiler=${compiler:-cc}
export CC="$compiler -O1" XDG_CACHE_HOME=$work/cache
mkdir cache

golden=(e-tiny e2-tiny dense-tiny moe-tiny)
forged=(e2b e4b 12b 26b-a4b 31b)
if [ "$(basename "$build")" = build-asan ] || [ -n "${LAPIDARY_TEST_QUICK:-}" ]; then
  golden=(e-tiny)
  forged=(e2b)
fi
names=("${golden[@]}" "${forged[@]}" odd-heads)

# fails TEXT COMMAND...: exit code 1, nothing on stdout, one line on stderr with TEXT in it.
fails() {
  local text=$1
  shift
  exits 1 "$@" || return 1
  cat err
  [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$text" err
}

# nothing_in DIRECTORY: no file, no work directory.
nothing_in() {
  local left
  left=$(find "$1" ! -type d -o -name '.work*')
  [ -z "$left" ] || { echo "left: $left"; return 1; }
}

# script FILE: an executable of the lines on stdin, to stand for a compiler.
script() {
  { echo '#!/bin/bash'; cat; } >"$1"
  chmod +x "$1"
}

fingerprint() { lapidary inspect "$@" | sed -n 's/^ *fingerprint //p'; }

# ---- the checkpoints, two at a time, each with one thread ----

# The public sizes: widths, vocabulary, layers and window small, everything else as it is. (The gate goes past the
# window four times.) odd-heads is e-tiny with heads that are not whole blocks of 64.
make_checkpoints() {
  local name layers
  mkdir checkpoints
  for name in "${golden[@]}"; do
    ln -s "$source/tests/data/goldens/checkpoints/$name" "checkpoints/$name"
  done
  for name in "${forged[@]}"; do
    case $name in # so many that there are sharers
      e2b) layers=10 ;;
      e4b) layers=12 ;;
      *) layers=6 ;;
    esac
    sed -E 's/("sliding_window": *)[0-9]+/\164/' "$source/models/configs/$name.json" >"$name.json" || return 1
    lapidary forge "$name.json" "checkpoints/$name" --kv-config "$source/models/configs/$name.kv_config.json" \
      --layers $layers --vocab 128 --scale 64 || return 1
    lapidary inspect --json "checkpoints/$name" | tr -d " \n" | grep -q '"window":64' || return 1
  done
  sed -E 's/("head_dim": *)[0-9]+/\132/; s/("global_head_dim": *)[0-9]+/\196/' checkpoints/e-tiny/config.json \
    >odd-heads.json && lapidary forge odd-heads.json checkpoints/odd-heads || return 1
  lapidary inspect --steps checkpoints/odd-heads | grep -q ' heads of 96 over '
}

cut_one() {
  lapidary cut "checkpoints/$1" --threads 1 >"$1.out" 2>"$1.err" </dev/null
  echo $? >"$1.code"
  lapidary check "checkpoints/$1" --threads 1 >"$1.check" 2>&1 </dev/null
  echo $? >>"$1.check"
}

cut_all() {
  local name
  for name in "${names[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
    cut_one "$name" &
  done
  wait
}

was_cut() {
  local object
  cat "$1.out" "$1.err"
  [ "$(cat "$1.code")" -eq 0 ] && [ ! -s "$1.err" ] || return 1
  grep -Eq '^generated +[0-9.]+ kB of C$' "$1.out" && grep -Eq '^compiled ' "$1.out" &&
    grep -Eq '^proved +[1-9][0-9]+ logits equal to the bit' "$1.out" || return 1
  object=$(sed -n 's/^stored *//p' "$1.out")
  [ -f "$object" ] && [ "$(dirname "$object")" = "$work/cache/lapidary/$(fingerprint "checkpoints/$1")" ]
}

# shellcheck disable=SC2012 # names are known
only_good_files() {
  local directory
  for directory in cache/lapidary/*; do
    [ "$(ls -A "$directory" | wc -l)" -eq 2 ] && [ -f "$directory/cut.c" ] && ls "$directory"/cut_*.so || return 1
  done
}

is_equal() {
  cat "$1.check"
  [ "$(wc -l <"$1.check")" -eq 3 ] && grep -Eq '^equal +[1-9][0-9]+ logits to the bit' "$1.check" &&
    grep -q "^cut .*$work/cache/lapidary/.*\.so$" "$1.check" && [ "$(tail -n 1 "$1.check")" -eq 0 ]
}

serves() {
  local ids=2,7,100,9,11,25
  exits 0 lapidary logits "checkpoints/$1" --ids $ids --all --path cut --out cut.npy &&
    exits 0 lapidary logits "checkpoints/$1" --ids $ids --all --path monolith --out monolith.npy &&
    cmp cut.npy monolith.npy
}

says_where() {
  local object
  object=$(sed -n 's/^stored *//p' "$1.out")
  exits 0 lapidary logits "checkpoints/$1" --ids 2 --out x.npy --verbose && cat err &&
    grep -qF "path: cut $(fingerprint "checkpoints/$1"), $object" err || return 1
  exits 0 lapidary logits "checkpoints/$1" --ids 2 --out x.npy --verbose --path monolith && cat err &&
    grep -q 'path: monolith, as asked' err || return 1
  exits 0 lapidary logits "checkpoints/$1" --ids 2 --out x.npy --verbose --kv 8 && cat err &&
    grep -q 'path: monolith: there is no cut' err || return 1
  exits 0 lapidary inspect "checkpoints/$1" && grep -qE "^ *forward +cut, $object$" out || return 1
  exits 0 lapidary inspect --json "checkpoints/$1" && tr -d ' \n' <out |
    grep -qF "\"available\":true,\"home\":\"$object\"" || return 1
  exits 0 lapidary inspect --kv 8 "checkpoints/$1" && grep -q 'forward *monolith: there is no cut' out
}

bundled() {
  exits 0 lapidary check && cat out && grep -q '^equal ' out && grep -q '^cut .*built in$' out &&
    exits 0 lapidary inspect && grep -qE '^ *forward +cut, built in$' out
}

check 'the checkpoints are there' make_checkpoints
cut_all
for name in "${names[@]}"; do
  check "$name: generated, compiled, proved, stored" was_cut "$name"
done
check 'nothing but objects and their sources is stored' only_good_files
for name in "${names[@]}"; do
  check "$name: check says equal" is_equal "$name"
  check "$name: --path cut gives the monolith's logits" serves "$name"
done
check '--verbose and inspect say where the cut is, or why there is none' says_where e-tiny
check 'the bundled model has its cut built in' bundled

# ---- the source alone ----

emits() {
  local stored
  stored=$(dirname "$(sed -n 's/^stored *//p' e-tiny.out)")/cut.c
  exits 0 lapidary cut checkpoints/e-tiny --emit one.c && [ ! -s out ] && [ ! -s err ] || return 1
  exits 0 lapidary cut checkpoints/e-tiny --emit - && cmp out one.c && [ ! -s err ] && cmp one.c "$stored" ||
    return 1
  exits 0 lapidary cut checkpoints/e-tiny --emit - --kv plain && ! cmp -s out one.c || return 1
  exits 0 lapidary cut e4b --emit two.c && cmp two.c "$source/src/generated/e4b.c" || return 1
  exits 0 lapidary cut "$source/models/configs/e4b.json" --emit - && cmp -s out two.c && return 1
  [ -s out ]
}

emits_nowhere() {
  fails '/nowhere/x.c: cannot be written' lapidary cut checkpoints/e-tiny --emit /nowhere/x.c &&
    fails '/dev/full: cannot be written' lapidary cut checkpoints/e-tiny --emit /dev/full &&
    fails '/nowhere' lapidary cut /nowhere --emit - || return 1
  lapidary cut checkpoints/e-tiny --emit - >/dev/full 2>err
  [ $? -eq 1 ] && grep -q 'standard output' err
}

names_need_emit() {
  local name
  for name in e4b "$source/models/configs/31b.json"; do
    exits 2 lapidary cut "$name" && [ ! -s out ] && cat err &&
      head -n 1 err | grep -qF 'only --emit FILE is possible' || return 1
  done
}

check '--emit writes the source that is stored' emits
check '--emit to where nothing can be written' emits_nowhere
check 'a configuration without weights needs --emit' names_need_emit

# ---- two at once; a second time ----

at_once() {
  local first second directory
  ln -s "$source/tests/data/goldens/checkpoints/dense-tiny" dense
  directory=cache/lapidary/$(fingerprint dense --kv 8)
  "$program" cut dense --kv 8 >first 2>&1 &
  first=$!
  "$program" cut dense --kv 8 >second 2>&1 &
  second=$!
  ended $first || { cat first; return 1; }
  ended $second || { cat second; return 1; }
  [ "$(sed -n 's/^stored//p' first)" = "$(sed -n 's/^stored//p' second)" ] && only_good_files || return 1
  exits 0 lapidary check dense --kv 8 && grep -qF "$directory" out
}

check 'two who cut at once leave one good object' at_once

# ---- the compiler ----

in_fresh() { # COMMAND...: with a cache of its own, in which nothing may be left
  local XDG_CACHE_HOME=$work/fresh
  rm -rf fresh
  mkdir fresh
  "$@" && nothing_in fresh
}

no_compiler() {
  CC=no-such-compiler in_fresh fails "there is no C compiler: 'no-such-compiler' was not found" \
    lapidary cut checkpoints/e-tiny &&
    CC=/etc/passwd in_fresh fails '/etc/passwd' lapidary cut checkpoints/e-tiny
}

bad_compilers() {
  CC=false in_fresh fails 'the compiler (false) failed' lapidary cut checkpoints/e-tiny &&
    CC="$compiler -fno-such-option" in_fresh fails 'no-such-option' lapidary cut checkpoints/e-tiny &&
    CC=true in_fresh fails 'cut.so' lapidary cut checkpoints/e-tiny || return 1
  script liar <<'END'
while [ "$1" != -o ]; do shift; done
echo 'no object' >"$2"
END
  CC=./liar in_fresh fails 'cannot be loaded' lapidary cut checkpoints/e-tiny
}

words_of_cc() {
  script spy <<END
echo "\$A \$*" >$work/words
exit 1
END
  CC="env A=b ./spy -O1 -g" in_fresh fails 'failed' lapidary cut checkpoints/e-tiny || return 1
  cat words
  grep -Eq '^b -(D|m).* -O3 .* -O1 -g$' words
}

check 'no compiler is said clearly' no_compiler
check 'compilers that fail or lie leave nothing' bad_compilers
check 'options in CC come last, and its first words first' words_of_cc

# ---- code that computes something else ----

# Compiles after leaving out a layer's scalar; keeps the object.
wrong_code() {
  script wrong <<END
for word; do
  case \$word in *cut.c) sed -i 's/^  lap_row_scale(/  if (s->layer != 3) &/' "\$word" ;; esac
done
$compiler -O1 "\$@" || exit
while [ "\$1" != -o ]; do shift; done
cp "\$2" $work/wrong.so
END
  local text='the cut differs from the monolith: a short prompt, then token by token, first in layer 3 (layer)'
  CC=./wrong in_fresh fails "$text" lapidary cut checkpoints/e-tiny || return 1
  # With a good one there, that stays.
  script wrong_again <<END
while [ "\$1" != -o ]; do shift; done
cp $work/wrong.so "\$2"
END
  local good
  good=$(sed -n 's/^stored *//p' e-tiny.out)
  cp "$good" good.so
  CC=./wrong_again fails "$text" lapidary cut checkpoints/e-tiny && cmp good.so "$good" && only_good_files
}

# hex TEXT: the bytes. little BYTES NUMBER: little-endian.
# shellcheck disable=SC2001 # each two characters
hex() { printf '%b' "$(sed 's/../\\x&/g' <<<"$1")"; }
little() {
  local i
  for ((i = 0; i < $1; i++)); do hex "$(printf %02x $(($2 >> 8 * i & 255)))"; done
}

# The wrong object, sealed as if it had been proved.
wrong_object() {
  local good
  good=$(sed -n 's/^stored *//p' e-tiny.out)
  {
    printf 'lapcut\r\n'
    printf %s "$(fingerprint checkpoints/e-tiny)"
    little 8 "$(stat -c %s wrong.so)"
  } >seal
  { cat wrong.so seal; hex "$(cat wrong.so seal | sha256sum | cut -d' ' -f1)"; } >sealed.so
  [ "$(stat -c %s sealed.so)" -eq $(($(stat -c %s wrong.so) + 64)) ] || return 1
  chmod 644 sealed.so
  mv sealed.so "$good"
  fails 'first in layer 3 (layer)' lapidary check checkpoints/e-tiny || return 1
  cp good.so "$good"
  exits 0 lapidary check checkpoints/e-tiny
}

# A damaged one is not run; the monolith is, and says why.
damaged_object() {
  local good
  good=$(sed -n 's/^stored *//p' e-tiny.out)
  head -c 1000 good.so >"$good"
  fails "$good: is damaged" lapidary check checkpoints/e-tiny &&
    fails "$good: is damaged" lapidary logits checkpoints/e-tiny --ids 2 --out x.npy --path cut &&
    exits 0 lapidary logits checkpoints/e-tiny --ids 2,7,100,9,11,25 --all --out x.npy --verbose && cat err &&
    grep -qF "path: monolith: $good: is damaged" err || return 1
  exits 0 lapidary logits checkpoints/e-tiny --ids 2,7,100,9,11,25 --all --out y.npy --path monolith &&
    cmp x.npy y.npy || return 1
  cp good.so "$good"
}

check 'code that computes something else is not stored, and the layer is named' wrong_code
check 'check names the first layer that differs, and exits 1' wrong_object
check 'a damaged object is not used' damaged_object
check 'no cut, nothing to check' fails 'there is no cut' lapidary check checkpoints/e-tiny --kv 4

# ---- places ----

no_place() {
  fails 'neither XDG_CACHE_HOME nor HOME is set' bounded env -u HOME -u XDG_CACHE_HOME "$program" cut checkpoints/e-tiny
}

unwritable_place() {
  mkdir -p closed && chmod a-w closed
  local place=$work/closed
  [ ! -w closed ] || place=/proc # root may write everywhere
  fails "$place/lapidary" bounded env XDG_CACHE_HOME="$place" "$program" cut checkpoints/e-tiny && nothing_in closed &&
    touch file && fails "$work/file/lapidary" bounded env XDG_CACHE_HOME="$work/file" "$program" cut checkpoints/e-tiny
}

# Says so before compiling.
open_place() {
  mkdir -p open/lapidary && chmod 777 open/lapidary
  CC=false XDG_CACHE_HOME=$work/open fails "$work/open/lapidary: belongs to somebody else, or others may write" \
    lapidary cut checkpoints/e-tiny && nothing_in open
}

home_place() {
  mkdir home
  CC=false fails 'failed' bounded env XDG_CACHE_HOME=relative HOME="$work/home" "$program" cut checkpoints/e-tiny &&
    [ -d home/.cache/lapidary ] && [ ! -e relative ] && [ "$(stat -c %a home/.cache/lapidary)" = 700 ]
}

check 'neither HOME nor XDG_CACHE_HOME' no_place
check 'a cache that cannot be written' unwritable_place
check 'a cache that others may write to' open_place
check 'without an absolute XDG_CACHE_HOME, ~/.cache' home_place

# ---- Ctrl-C ----

# A process that nobody has waited for yet does not count.
is_running() { [ -e "/proc/$1" ] && ! grep -q '^State:.*Z' "/proc/$1/status"; }

interrupted() {
  local code began
  rm -rf fresh child
  mkdir fresh
  script slow <<END
sleep 60 &
echo \$! >$work/child
wait
END
  XDG_CACHE_HOME=$work/fresh CC=$1 start "$program" cut checkpoints/e-tiny >out 2>err </dev/null
  soon compgen -G 'fresh/lapidary/*/.work-*/log' || return 1
  [ "$1" != ./slow ] || soon test -s child || return 1
  began=$SECONDS
  kill -INT "$started"
  ended "$started"
  code=$?
  [ $code -eq 130 ] && [ $((SECONDS - began)) -le 3 ] && [ ! -s out ] && [ ! -s err ] && nothing_in fresh || return 1
  [ "$1" != ./slow ] || { sleep 0.1; ! is_running "$(cat child)"; }
}

check 'Ctrl-C while compiling leaves nothing' interrupted "$compiler"
check 'Ctrl-C ends what the compiler has started' interrupted ./slow

finish

#!/usr/bin/env bash
# `lapidary bench` as a user meets it: what its outputs consist of, messages, exit codes, nothing left behind.
# No rate is judged: the machine may be busy.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

export LAPIDARY_MODEL=$pebble
program_beside_models
verb=bench
mkdir temporary
export TMPDIR=$work/temporary
short=(--prompt 24 --decode 3 --repeat 1)

# bench ARGUMENT...: must succeed and leave no temporary file; output in the files out and err.
bench() {
  lapidary bench "$@" >out 2>err </dev/null || { echo "exit code $?: $*"; cat err; return 1; }
  [ -z "$(ls temporary)" ] || { echo 'left in TMPDIR:'; ls temporary; return 1; }
}

# How often the text stands in out.
count() { grep -cF -- "$1" out; }

# expect COUNT TEXT
expect() {
  [ "$(count "$2")" -eq "$1" ] || { echo "$2: $(count "$2") times instead of $1"; return 1; }
}

# Values of a key in out, one a line.
values() { sed -n "s/^ *\"$1\": \([^,]*\),\?$/\1/p" out; }

# Every value of the key is a number with low < value < high.
between() {
  values "$1" >found
  awk -v low="$2" -v high="$3" '$1 !~ /^[0-9.e+-]+$/ || $1 <= low || $1 >= high { print; bad = 1 }
    END { exit bad || NR == 0 }' found || { echo "$1 not in $2..$3"; return 1; }
}

# The program's own parser judges: out stands where a configuration should, which is then refused for what
# it says and not for its syntax.
is_json() {
  mkdir -p parsed && ln -sf "$LAPIDARY_MODEL/model.safetensors" parsed/ && cp out parsed/config.json || return 1
  lapidary inspect parsed 2>message
  grep -q 'model_type' message || { cat message; return 1; }
  command -v json_verify >/dev/null || return 0
  json_verify <out
}

# ---- JSON ----

json_fields() {
  local key
  bench "${short[@]}" --repeat 2 --depth 0,40 --threads 1,2 --kv config,4 --json && is_json || return 1
  [ ! -s err ] || { cat err; return 1; }
  for key in machine model rows; do expect 1 "  \"$key\": " || return 1; done
  expect 8 '"kind": "prompt"' && expect 8 '"kind": "decode"' || return 1
  for key in kv tokens_per_second percent_of_ceiling spread weights_touched_bytes kv_bytes scratch_bytes \
    operations_per_second bytes_per_second; do
    expect 16 "\"$key\": " || return 1
  done
  expect 8 '"kv": "config"' && expect 8 '"kv": "4"' && expect 8 '"first_token_seconds"' || return 1
  [ "$(values depth | sort | uniq -c | xargs)" = '8 0 8 40' ] || { values depth; return 1; }
  # Ceilings have threads too: one of each.
  [ "$(values threads | sort | uniq -c | xargs)" = '9 1 9 2' ] || { values threads; return 1; }
  ! grep -Eq '"path|ratio"|nan|inf' out
}

json_ranges() {
  between percent_of_ceiling 0 1000 && between tokens_per_second 0 1e9 && between rounds 1.5 2.5 &&
    between scratch_bytes 1000 1e9 && between kv_bytes 1000 1e8 && between weights_touched_bytes 1e6 1e8
}

# A spread encloses its median, and stands behind it: key, "spread": [, smallest, largest.
spreads() {
  tr -d ',' <out | awk '/_per_second|percent_of_ceiling|"ratio"|"seconds"/ { median = $2 }
    /spread"/ { getline low; getline high; seen++; if (!(low + 0 <= median && median <= high + 0)) bad = 1 }
    END { exit bad || seen < '"$1"' }' || { echo 'a median outside its spread'; return 1; }
}

# What a token reads: the weights, and at depth 0 hardly more.
decode_bytes() {
  bench "${short[@]}" --depth 0 --prompt 0 --json || return 1
  expect 0 '"kind": "prompt"' && expect 1 '"kind": "decode"' || return 1
  tr -d ',' <out | awk '/"decode_bytes"/ { weights = $2 } /"tokens_per_second"/ { rate = $2 }
    /"bytes_per_second"/ { read = $2 / rate }
    END { print weights, read; exit !(read > weights && read < 1.02 * weights) }'
}

check 'JSON: parses, has the fields, and a row for each setting' json_fields
check 'JSON: percentages and sizes are possible ones' json_ranges
check 'JSON: every median has its spread' spreads 38 # 16 rows with two, 2 ceilings with three
check 'decode reads the weights once for each token' decode_bytes

# ---- comparison ----

comparison() {
  bench "${short[@]}" --repeat 2 --depth 0,40 --threads 1 --compare monolith,auto --json && is_json || return 1
  expect 4 '"kind": "ratio"' && expect 2 '"of": "prompt"' && expect 2 '"of": "decode"' || return 1
  expect 5 '"path": "monolith"' && expect 5 '"path": "auto"' && expect 4 '"path": "auto/monolith"' || return 1
  expect 1 '"startup": ' && expect 2 '"seconds": ' && between seconds 0 60 && spreads 26 || return 1
  bench "${short[@]}" --prompt 0 --depth 0 --compare auto,monolith && expect 1 'Ratio of rates, monolith to auto' &&
    expect 1 'From the start of a process'
}

# The first is what the others are compared with. Each has caches of its own: their sizes are in the order of bits.
kv_comparison() {
  bench "${short[@]}" --repeat 2 --depth 0,40 --threads 1 --compare plain,4,8 --json && is_json || return 1
  expect 8 '"kind": "ratio"' && expect 4 '"of": "prompt"' && expect 4 '"of": "decode"' || return 1
  for kind in plain 4 8 4/plain 8/plain; do expect 4 "\"kv\": \"$kind\"" || return 1; done
  ! grep -Eq '"path|startup' out && between ratio 0 1000 && spreads 35 || return 1
  values kv_bytes | head -n 3 | awk '{ bytes[NR] = $1 } END { exit !(bytes[2] < bytes[3] && bytes[3] < bytes[1]) }' || return 1
  # Three models are open, but each has touched the file once.
  between weights_touched_bytes 1e6 1e7 || return 1
  bench "${short[@]}" --depth 0 --compare 8,config --svg kinds.svg || return 1
  grep -q 'KV 8, ' kinds.svg && grep -q 'KV config, ' kinds.svg && expect 1 'Ratio of rates to that of KV 8' || return 1
  [ "$(sed -n '/^Ratio/,/^$/p' out | grep -Ec '^  (prompt|decode)  config .*\(.* to .*\)$')" -eq 2 ] || { cat out; return 1; }
  ! grep -q 'start of a process' out
}

check '--compare: both paths, ratios, and the start of a process' comparison
check '--compare: KV caches, and the ratio of each to the first' kv_comparison

# ---- for people ----

tables() {
  bench "${short[@]}" --depth 0 --threads 1,2 && [ ! -s err ] || return 1
  [ "$(grep -Ec '^  (prompt|decode) .*\(.* to .*\).*\(.* to .*\)$' out)" -eq 4 ] || { cat out; return 1; }
  [ "$(grep -Ec '^ +[12]  .*\(.* to .*\).*\(.* to .*\).*\(.* to .*\)$' out)" -eq 2 ] || { cat out; return 1; }
  awk 'length > 110 { print; bad = 1 } END { exit bad }' out
}

# Lines with bars form tables: a head, a rule, rows with as many bars.
markdown() {
  bench "${short[@]}" --depth 0,40 --threads 1 --markdown && expect 2 '| prompt |' && expect 2 '| decode |' || return 1
  awk '/^\|/ { bars = gsub(/\|/, "|"); line++
      if (line == 1) { wanted = bars; tables++ }
      if (bars != wanted || !/\|$/ || (line == 2) != /^[|:-]+$/) { print; bad = 1 }
      next }
    { if (line && line < 3) bad = 1; line = 0 }
    END { exit bad || tables < 3 }' out
}

# Every tag that opens closes, in order; attributes are quoted; no bare ampersand. xmllint, where it is.
is_xml() {
  ! command -v xmllint >/dev/null || xmllint --noout "$1" || return 1
  tr '\n' ' ' <"$1" | sed 's/>/>\n/g' | awk '
    { text = $0; sub(/<[^<]*$/, "", text); tag = substr($0, length(text) + 1)
      gsub(/&(amp|lt|gt);/, "", text); if (text ~ /&/) bad = 1 }
    tag == "" { next }
    tag ~ /^<\// { name = substr(tag, 3, length(tag) - 3); if (depth < 1 || open[depth--] != name) bad = 1; next }
    tag !~ /^<[a-z]+( [a-zA-Z0-9-]+="[^"<]*")*\/?>$/ { print tag; bad = 1 }
    tag !~ /\/>$/ { name = tag; gsub(/^<|[ >].*$/, "", name); open[++depth] = name; roots += depth == 1 }
    END { exit bad || depth != 0 || roots != 1 }'
}

picture() {
  ln -sfn "$LAPIDARY_MODEL" 'a<b&c'
  echo old >picture.svg
  bench -m 'a<b&c' "${short[@]}" --depth 0,40 --threads 1,2 --svg picture.svg && is_xml picture.svg || return 1
  head -c 5 picture.svg | grep -q '<svg ' && grep -q 'a&lt;b&amp;c' picture.svg || return 1
  [ "$(grep -c '<polyline' picture.svg)" -eq 2 ] && [ "$(grep -c '<circle' picture.svg)" -eq 8 ] || return 1
  ! grep -Eiq '\bnan\b|\binf\b' picture.svg
}

help_text() {
  lapidary bench --help >out && awk 'length > 80 { print; bad = 1 } END { exit bad }' out || return 1
  lapidary --help | grep -q '^  bench  ' && lapidary help --man | grep -q 'lapidary bench'
}

check 'tables: every rate with its spread' tables
check '--markdown: tables' markdown
check '--svg: well-formed, a curve for each series' picture
check 'help and man page' help_text

# ---- what is refused ----

bad_lines() {
  refuses 2 '--depth: ' --depth 0,x && refuses 2 '--depth: ' --depth 0,,1 && refuses 2 '--depth: ' --depth '' &&
    refuses 2 '--depth: ' --depth 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16 &&
    refuses 2 '--threads: ' --threads 0 && refuses 2 '--threads: ' --threads 1,300 &&
    refuses 2 '--kv: ' --kv config,5 && refuses 2 '--repeat: ' --repeat 0 && refuses 2 '--prompt: ' --prompt -1 &&
    refuses 2 '--compare: ' --compare monolith && refuses 2 '--compare: ' --compare auto,auto &&
    refuses 2 '--compare: ' --compare auto,monolith,cut && refuses 2 '--compare: ' --compare auto,knife &&
    refuses 2 '--compare: ' --compare knife && refuses 2 '--compare: ' --compare plain &&
    refuses 2 '--compare: ' --compare 8,8 && refuses 2 '--compare: ' --compare plain,5 &&
    refuses 2 '--compare: ' --compare plain,cut && refuses 2 '--compare: ' --compare cut,plain &&
    refuses 2 '--compare: ' --compare plain, && refuses 2 '--compare: ' --compare 4,8 --kv 4 &&
    refuses 2 '--json: ' --json --markdown && refuses 2 '--prompt 0' --prompt 0 --decode 0 &&
    refuses 2 'one argument too many' DIR && refuses 2 '--fast' --fast
}

# One line each, before anything is measured.
bad_surroundings() {
  echo old >kept.svg
  refuses 1 'none/x.svg' --svg none/x.svg && [ "$(wc -l <err)" -eq 1 ] || return 1
  refuses 1 '/none' -m "$work/none" --svg kept.svg && [ "$(wc -l <err)" -eq 1 ] && [ "$(cat kept.svg)" = old ] ||
    return 1
  refuses 1 '/none' -m "$work/none" --svg new.svg && [ ! -e new.svg ] || return 1
  TMPDIR=$work/none refuses 1 "$work/none/lapidary-bench" "${short[@]}" --depth 0 && [ "$(wc -l <err)" -eq 1 ]
}

skipped_depths() {
  bench "${short[@]}" --depth 0,8180,9000 --json && [ "$(grep -c 'depth .*: skipped' err)" -eq 2 ] || return 1
  [ "$(wc -l <err)" -eq 2 ] && expect 2 '"depth": 0' && sed -n '/skipped_depths/,/]/p' out | grep -q 9000 || return 1
  lapidary bench "${short[@]}" --depth 9000 >out 2>err
  [ $? -eq 1 ] && [ ! -s out ] && tail -n 1 err | grep -q 'no depth fits'
}

# A prompt longer than the ring has room for: back by the snapshot, not by trimming.
wrapped_ring() {
  bench --prompt 800 --decode 2 --repeat 1 --depth 0,200 --threads 2 --json && expect 4 '"kind": ' &&
    between percent_of_ceiling 0 1000 && between kv_bytes 100000 1e8
}

# A shape, forged small: there is a configuration of the same kind for it, as `forge` writes one.
shape() {
  lapidary forge e4b tiny --layers 6 --vocab 128 --scale 64 >forged || return 1
  cp tiny/config.json tiny-e4b.json && mkdir -p elsewhere || return 1
  bench "${short[@]}" --depth 0 --threads 1 --shape tiny-e4b.json --json && expect 1 '"layers": 6' &&
    grep -q '"directory": ".*/tiny-e4b"' out && grep -q "\"directory\": \"$TMPDIR/" out || return 1
  bench "${short[@]}" --depth 0 --threads 1 --shape tiny-e4b.json --dir elsewhere --compare monolith,auto --json &&
    grep -q '"directory": "elsewhere/' out && [ -z "$(ls elsewhere)" ]
}

bad_shapes() {
  refuses 2 '--shape: contradicts --model' --shape e4b -m tiny && refuses 2 '--dir: goes with --shape' --dir . || return 1
  refuses 1 'e5b: there is no such file' --shape e5b && [ "$(wc -l <err)" -eq 1 ] || return 1
  refuses 1 'nowhere: ' --shape tiny-e4b.json --dir nowhere && [ "$(wc -l <err)" -eq 1 ] || return 1
  echo '{"model_type": "gemma4_text", "hidden_size": "wide"}' >broken.json
  refuses 1 'broken.json: hidden_size' --shape broken.json && [ "$(wc -l <err)" -eq 1 ] || return 1
  # A file system without room.
  refuses 1 '/proc: ' --shape tiny-e4b.json --dir /proc && grep -q 'needed for the checkpoint, 0 B are free' err || return 1
  # Refused when the checkpoint is there, and a full disk: it is gone again.
  refuses 1 'depth 16000000: skipped' "${short[@]}" --depth 16000000 --shape tiny-e4b.json && [ -z "$(ls temporary)" ] || return 1
  (ulimit -f 100 && refuses 1 'cannot be written: File too large' --shape tiny-e4b.json) && [ -z "$(ls temporary)" ]
}

ctrl_c() {
  start "$program" bench --repeat 50 --json --svg stopped.svg "$@" >out 2>err </dev/null
  soon eval '[ -n "$(ls temporary)" ]'
  kill -INT "$started"
  ended "$started"
  [ $? -eq 130 ] && [ ! -s out ] && [ ! -s err ] && [ -z "$(ls temporary)" ] && [ ! -e stopped.svg ]
}

check 'a wrong command line is refused' bad_lines
check 'what cannot be read or written is refused, a picture kept' bad_surroundings
check 'depths beyond the context are skipped' skipped_depths
check 'a prompt that wraps the ring' wrapped_ring
check 'Ctrl-C ends it, nothing is left' ctrl_c
check '--shape: forged, measured, removed' shape
check '--shape: what cannot be forged is refused, nothing is left' bad_shapes
check '--shape: Ctrl-C leaves nothing' ctrl_c --shape tiny-e4b.json

finish

#!/usr/bin/env bash
# The program as a user meets it: exit codes, messages, reproducibility, files.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

export LAPIDARY_MODEL=$pebble

same() { cmp "$1" "$2"; }

# ---- help ----

help_of_verbs() {
  local verb
  for verb in run chat tokenize inspect logits forge help; do
    exits 0 lapidary "$verb" --help || return 1
    grep -q "^Usage: lapidary $verb" out && [ ! -s err ] || return 1
    cp out long
    exits 0 lapidary help "$verb" && same out long || return 1
    exits 0 lapidary "$verb" -h && same out long || return 1
    awk 'length > 80 { print; bad = 1 } END { exit bad }' out || return 1
  done
  exits 0 lapidary --help && grep -q LAPIDARY_ISA out
}

version() { exits 0 lapidary --version && grep -Eq '^lapidary [0-9]+\.[0-9]+\.[0-9]+$' out; }

man_page() {
  exits 0 lapidary help --man || return 1
  local section
  for section in NAME SYNOPSIS DESCRIPTION VERBS OPTIONS 'EXIT STATUS' ENVIRONMENT FILES EXAMPLES; do
    grep -qx "\.SH $section" out || { echo "no $section"; return 1; }
  done
  grep -q 'repeat' out && grep -q 'kv\\-start' out || return 1
  command -v groff >/dev/null || return 0
  groff -man -ww -Tutf8 out >page 2>warnings
  cat warnings
  [ ! -s warnings ]
}

completion() {
  exits 0 lapidary help --bash-completion || return 1
  bash -n out || return 1
  # shellcheck disable=SC2016 # the inner shell expands
  bash -c 'source ./out
    complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _lapidary; echo "${COMPREPLY[*]}"; }
    [ "$(complete_line lapidary lo)" = logits ] &&
    [ "$(complete_line lapidary run --top)" = "--top-k --top-p" ] &&
    [ "$(complete_line lapidary run --kv p)" = plain ] &&
    [ "$(complete_line lapidary logits --path "")" = "auto monolith cut" ] &&
    mkdir -p "some dir" && [ "$(complete_line lapidary inspect "some")" = "some dir" ]'
}

check 'every verb has its help, in 80 columns' help_of_verbs
check 'version' version
check 'the man page is complete and without warnings' man_page
check 'the bash completion is valid and completes' completion

# ---- wrong use ----

wrong_use() {
  refuses 2 'verb' &&
    refuses 2 "'walk' is no verb" walk &&
    refuses 2 "'--nothing' is no option" --nothing &&
    refuses 2 'lapidary run: --nothing: unknown option' run --nothing x &&
    refuses 2 'lapidary run: -q: unknown option' run -q x &&
    refuses 2 'lapidary run: --temperature: needs T' run x --temp &&
    refuses 2 'lapidary run: --max-tokens: needs N' run x -n &&
    refuses 2 'lapidary run: --greedy: takes no argument' run --greedy=yes x &&
    refuses 2 "'y' is one argument too many" run x y &&
    refuses 2 "'walk' is no verb" help walk
}

bad_values() {
  refuses 2 "lapidary run: --top-p: '1.5' is not in 0..1" run --top-p 1.5 x &&
    refuses 2 "--top-p: '' is not" run --top-p '' x &&
    refuses 2 "--top-p: '0.5x' is not" run --top-p 0.5x x &&
    refuses 2 "--top-p: 'nan' is not" run --top-p nan x &&
    refuses 2 "--min-p: '-0.1' is not" run --min-p -0.1 x &&
    refuses 2 "--temperature: 'inf' is not" run --temp inf x &&
    refuses 2 "--temperature: '0x1' is not" run --temp 0x1 x &&
    refuses 2 "--top-k: '-1' is not" run --top-k -1 x &&
    refuses 2 "--top-k: '99999999999999999999' is not" run --top-k 99999999999999999999 x &&
    refuses 2 "--max-tokens: ' 5' is not" run -n ' 5' x &&
    refuses 2 "--repeat-penalty: '0' is not" run --repeat-penalty 0 x &&
    refuses 2 "--seed: '18446744073709551616' is not" run --seed 18446744073709551616 x &&
    refuses 2 "--threads: '0' is not" run --threads 0 x &&
    refuses 2 "--chunk: '1e2' is not" run --chunk 1e2 x &&
    refuses 2 "--kv: '16' is none of config, plain, 8, 4" run --kv 16 x &&
    refuses 2 "--kv-start: 'end' is none of" run --kv-start end x &&
    refuses 2 '--stop: the text is empty' run --stop '' x &&
    refuses 2 '--greedy: contradicts --temperature' run --greedy --temp 1 x &&
    refuses 2 "--context: '0' is not" inspect --context 0 &&
    refuses 2 '--bos: does not go with --decode' tokenize --decode --bos 1 &&
    refuses 2 '--out: is needed' logits --ids 2 &&
    refuses 2 'exactly one of --ids and --ids-file' logits --out x &&
    refuses 2 'exactly one of --ids and --ids-file' logits --ids 2 --ids-file f --out x &&
    refuses 2 '--all: contradicts --last' logits --ids 2 --all --last 1 --out x
}

bad_variables() {
  LAPIDARY_ISA=best refuses 1 "lapidary: LAPIDARY_ISA: 'best' is not one of portable" run -n 1 x &&
    LAPIDARY_ISA=best refuses 1 "lapidary: LAPIDARY_ISA: 'best'" fit &&
    LAPIDARY_ATTENTION=flash refuses 1 "lapidary: LAPIDARY_ATTENTION: 'flash' is not one of tiled, plain" run -n 1 x &&
    LAPIDARY_ISA='' exits 0 lapidary run -n 1 x
}

missing_files() {
  refuses 1 'lapidary: /nowhere' run -m /nowhere x &&
    refuses 1 'lapidary: /nowhere' inspect /nowhere &&
    refuses 1 'lapidary: /nowhere' tokenize -m /nowhere x &&
    refuses 1 'lapidary: /nowhere' logits /nowhere --ids 2 --out x.npy &&
    refuses 1 'nothing.ids' logits --ids-file nothing.ids --out x.npy &&
    refuses 1 '/nowhere/x.npy' logits --ids 2 --out /nowhere/x.npy &&
    refuses 1 'nothing.snapshot' run --restore nothing.snapshot x || return 1
  [ -z "$(find . -name '*.npy*')" ]
}

no_bundled_model() {
  cp "$program" ./alone || return 1
  exits 1 bounded env -u LAPIDARY_MODEL ./alone run x && grep -q 'LAPIDARY_MODEL' err || return 1
  mkdir -p tree/bin tree/share/lapidary && cp alone tree/bin/lapidary &&
    ln -s "$LAPIDARY_MODEL" tree/share/lapidary/pebble || return 1
  exits 0 bounded env -u LAPIDARY_MODEL tree/bin/lapidary run -n 1 x
}

check 'wrong use exits 2 with a hint' wrong_use
check 'bad values name their option' bad_values
check 'missing files exit 1 and leave nothing' missing_files
check 'a variable that says what there is not is named' bad_variables
check 'the bundled model is found beside the program, or asked for' no_bundled_model

# ---- run ----

reproducible() {
  local options
  for options in '--threads 1' '--threads 2 --chunk 3' '--chunk 1'; do
    # shellcheck disable=SC2086 # options are several words
    exits 0 lapidary run -n 40 --seed 7 $options 'Once there was' || return 1
    [ -e first ] || cp out first
    same out first || return 1
  done
  LAPIDARY_ISA=portable exits 0 lapidary run -n 40 --seed 7 'Once there was' && same out first || return 1
  exits 0 lapidary run -n 40 --seed 8 'Once there was' && ! same out first
}

greedy_answer() {
  local chat=$'<|turn>user\nWhat is 74 - 8?<turn|>\n<|turn>model\n'
  exits 0 lapidary run --greedy "$chat" && [ "$(cat out)" = 66 ] && [ ! -s err ] || return 1
  exits 0 lapidary run --temp 0 "<bos>$chat" && [ "$(cat out)" = 66 ] || return 1
  exits 0 lapidary run --greedy --ignore-eos -n 3 --special "$chat" && [ "$(cat out)" = '66<turn|>' ]
}

stop_string() {
  exits 0 lapidary run --greedy -n 60 'Once there was' && cp out full || return 1
  exits 0 lapidary run --greedy -n 60 --stop 'never' --stop ' drum more' 'Once there was' || return 1
  sed 's/ drum more.*//' full >expected && ! same full expected && same out expected
}

prompt_from_stdin() {
  exits 0 lapidary run --greedy -n 10 'Once there was' && [ -s out ] && cp out expected || return 1
  printf 'Once there was' | lapidary run --greedy -n 10 >out && same out expected || return 1
  printf 'Once there was' | lapidary run --greedy -n 10 - >out && same out expected
}

statistics() {
  exits 0 lapidary run --greedy -n 5 --stats x || return 1
  cat err
  grep -Eq '^prompt +2 tokens in .* tokens/s$' err && grep -Eq '^decode +4 tokens in .* tokens/s$' err &&
    grep -q '^peak rss' err && grep -q '^kv' err && grep -Eq '^isa +(avx512|avx2|portable)' err
}

control_tokens_in_prompts() { # "<turn|>" is one token after BOS, or seven bytes of text
  local controlled
  exits 0 lapidary run -n 0 --stats '<turn|>' && grep -Eq '^prompt +2 tokens' err || return 1
  controlled=$(sed -n 's/^prompt *\([0-9]*\) tokens.*/\1/p' err)
  exits 0 lapidary run -n 0 --stats --plain '<turn|>' && cat err || return 1
  [ "$(sed -n 's/^prompt *\([0-9]*\) tokens.*/\1/p' err)" -gt $((controlled + 1)) ]
}

snapshots() {
  local prompt='Once there was' kv
  for kv in plain config; do
    exits 0 lapidary run --kv $kv --greedy -n 300 --ignore-eos "$prompt" && head -c -1 out >full || return 1
    exits 0 lapidary run --kv $kv --greedy -n 200 --ignore-eos --save saved "$prompt" && head -c -1 out >joined ||
      return 1
    exits 0 lapidary run --kv $kv --greedy -n 100 --ignore-eos --restore saved && head -c -1 out >>joined ||
      return 1
    same full joined || return 1
  done
  refuses 1 'saved' run --kv plain --restore saved || return 1
  # A prompt in two parts that tokens do not cross.
  exits 0 lapidary run -n 0 --save part $'<|turn>user\n' && [ ! -s out ] || return 1
  exits 0 lapidary run --greedy --restore part $'What is 74 - 8?<turn|>\n<|turn>model\n' && [ "$(cat out)" = 66 ]
}

damaged_snapshot() {
  exits 0 lapidary run -n 3 --save good x || return 1
  head -c 1000 good >short && refuses 1 'short' run --restore short x
}

endless() { exec "$program" run --ignore-eos -n 8000 'Once there was' > >(cat >out) 2>err </dev/null; }
from_fifo() { exec "$program" run <fifo >out 2>err; }

ctrl_c_while_generating() {
  rm -f out
  start endless
  soon test -s out
  kill -INT "$started"
  ended "$started"
  [ $? -eq 130 ] && [ ! -s err ] || return 1
  sleep 0.2 # for cat
  [ "$(tail -c 1 out | od -An -c | tr -d ' ')" = '\n' ]
}

ctrl_c_while_reading() {
  rm -f fifo
  mkfifo fifo
  exec 9<>fifo # a writer that says nothing
  start from_fifo
  sleep 0.5
  kill -INT "$started"
  ended "$started"
  local code=$?
  exec 9>&-
  [ $code -eq 130 ] && [ ! -s err ] && [ ! -s out ]
}

closed_pipe() {
  local codes
  lapidary run --ignore-eos -n 3000 'Once there was' 2>err | head -c 10 >/dev/null
  codes=("${PIPESTATUS[@]}")
  cat err
  [ "${codes[0]}" -eq 1 ] && [ ! -s err ] || return 1
  lapidary run -n 3 x >/dev/full 2>err
  [ $? -eq 1 ] && grep -q 'standard output' err
}

check 'same seed, same text: threads, chunks, instruction sets' reproducible
check 'a greedy answer' greedy_answer
check '--stop ends before the text' stop_string
check 'the prompt comes from stdin' prompt_from_stdin
check '--stats' statistics
check 'control tokens in a prompt count, with --plain they stay text' control_tokens_in_prompts
check 'a restored session goes on identically' snapshots
check 'a damaged snapshot is refused' damaged_snapshot
check 'Ctrl-C ends cleanly while generating' ctrl_c_while_generating
check 'Ctrl-C ends cleanly while reading the prompt' ctrl_c_while_reading
check 'a closed pipe and a full disk exit 1' closed_pipe

# ---- tokenize ----

tokenize_both_ways() {
  printf 'Once  there\nwas <bos> caf\xc3\xa9 \xf0\x9f\x98\x80 \xc3\xa9' >text
  lapidary tokenize <text >ids && lapidary tokenize --decode <ids >back && same text back || return 1
  grep -Eq '^[0-9]+( [0-9]+)*$' ids || return 1
  # shellcheck disable=SC2046 # ids are several words
  lapidary tokenize --decode $(cat ids) >back && same text back
}

tokenize_options() {
  exits 0 lapidary tokenize --bos '<bos>Hi' && cp out once || return 1
  exits 0 lapidary tokenize --bos Hi && same out once || return 1
  exits 0 lapidary tokenize '<bos>Hi' && same out once && grep -q '^2 ' once || return 1
  exits 0 lapidary tokenize --plain '<bos>Hi' && ! grep -q '^2 ' out || return 1
  exits 0 lapidary tokenize --show $'<bos>a\n' && printf '2\t<bos>\n' >expected && head -n 1 out >line &&
    same line expected && grep -qF '\n' out || return 1
  refuses 1 'ids: ' tokenize --decode 1,x && refuses 1 'ids: ' tokenize --decode 1,,2 &&
    refuses 1 'ids: ' tokenize --decode 99999999999 && refuses 1 '1999999' tokenize --decode 1999999
}

check 'tokenize and --decode are inverse' tokenize_both_ways
check 'tokenize: --bos, --plain, --show, bad ids' tokenize_options

# ---- inspect ----

inspecting() {
  exits 0 lapidary inspect && [ -s out ] && [ ! -s err ] && cp out bundled || return 1
  exits 0 lapidary inspect "$LAPIDARY_MODEL" && same out bundled || return 1
  exits 0 lapidary inspect --json --kv 4 --context 100 && [ -s out ] || return 1
  command -v json_verify >/dev/null || return 0
  json_verify <out
}

check 'inspect, as text and JSON' inspecting

# The figures are those of docs/cut.md.
inspecting_steps() {
  exits 0 lapidary inspect e4b --steps && [ ! -s err ] && [ -z "$(awk 'length > 100' out)" ] &&
    grep -q '^  donor_sliding_g64b4_v_pli_scalar: 20 steps, 11 parallel runs, 11 barriers needed$' out &&
    grep -qE '^  output +27712 +10240   in the room of normed$' out &&
    grep -qE '^  \| +1    key +product +normed_forms -> key; self_attn.k_proj 512x2560 4g64$' out &&
    grep -qE '^ +6  \+ queries_sliding +rotate ' out &&
    grep -qE '^ +41  sharer_full_g64b4_pli_scalar +23$' out &&
    grep -q '^A pass: 791 steps, 464 parallel runs, 463 barriers needed$' out || return 1
  exits 0 lapidary inspect --steps && cp out bundled && exits 0 lapidary inspect --steps --kv plain &&
    ! cmp -s out bundled && grep -q '_plain_' out && exits 0 lapidary inspect --steps "$LAPIDARY_MODEL" &&
    same out bundled || return 1
  refuses 2 '--json and --steps' inspect --json --steps && refuses 1 'e5b' inspect --steps e5b
}

check 'inspect --steps: the program of a checkpoint, and of a name' inspecting_steps

# ---- logits ----

ids=2,315,439,348,527,275,315,300,301,302,303,304,305,306,307,308

npy_file() {
  exits 0 lapidary logits --ids $ids --last 3 --out x.npy && [ ! -s out ] || return 1
  head -c 128 x.npy | tail -c +11 | tr -d ' \n' >header
  printf "{'descr':'<f4','fortran_order':False,'shape':(3,2048),}" >expected
  same header expected || return 1
  [ "$(head -c 10 x.npy | od -An -tx1 | tr -d ' \n')" = 934e554d505901007600 ] || return 1
  [ "$(head -c 128 x.npy | tail -c 1 | od -An -tx1 | tr -d ' ')" = 0a ] || return 1
  [ "$(stat -c %s x.npy)" -eq $((128 + 3 * 2048 * 4)) ] || return 1
  # Logits are finite and not all alike.
  tail -c +129 x.npy | od -An -v -tf4 -w4 >values
  awk '{ if ($1 < low) low = $1; if ($1 > high) high = $1; if ($1 !~ /^-?[0-9.e+-]+$/) bad = 1 }
    END { exit bad || high - low < 5 || high > 30 || low < -30 }' values || return 1
  [ "$(find . -name 'x.npy*' | wc -l)" -eq 1 ]
}

same_logits_every_way() {
  local options kv
  for kv in plain config 8 4; do
    exits 0 lapidary logits --ids $ids --all --kv $kv --out all.npy || return 1
    for options in '--chunk 1' '--chunk 5 --threads 1' '--decode-from 0' '--decode-from 7 --chunk 3' \
      '--decode-from 16' '--path monolith' '--path auto --threads 2'; do
      # shellcheck disable=SC2086 # options are several words
      exits 0 lapidary logits "$LAPIDARY_MODEL" --ids $ids --all --kv $kv $options --out one.npy || return 1
      same one.npy all.npy || { echo "--kv $kv $options"; return 1; }
    done
    exits 0 lapidary logits --ids $ids --kv $kv --decode-from 9 --out last.npy || return 1
    tail -c 8192 last.npy >a && tail -c 8192 all.npy >b && same a b || return 1
    tr ',' '\n' <<<$ids >ids.txt
    exits 0 lapidary logits --ids-file ids.txt --kv $kv --all --out one.npy && same one.npy all.npy || return 1
    lapidary logits --ids-file - --kv $kv --all --out - <ids.txt >one.npy && same one.npy all.npy || return 1
  done
}

kv_start() {
  exits 0 lapidary logits --ids $ids --kv plain --decode-from 8 --all --out plain.npy &&
    exits 0 lapidary logits --ids $ids --kv 4 --kv-start prompt --decode-from 8 --all --out prompt.npy &&
    exits 0 lapidary logits --ids $ids --kv 4 --decode-from 8 --all --out begin.npy || return 1
  local prompt_bytes=$((128 + 8 * 8192))
  cmp -n $prompt_bytes plain.npy prompt.npy && ! cmp -s plain.npy prompt.npy && ! cmp -s begin.npy prompt.npy
}

bad_logits() {
  XDG_CACHE_HOME=$PWD refuses 1 'there is no cut of this checkpoint' logits --ids 2 --kv 8 --path cut --out y.npy &&
    refuses 1 '--ids: ' logits --ids 2,-3 --out y.npy &&
    refuses 1 '--ids: ' logits --ids '' --out y.npy &&
    refuses 1 '--ids: ' logits --ids 2, --out y.npy &&
    refuses 1 '2048' logits --ids 2,2048 --out y.npy &&
    refuses 1 '--last' logits --ids 2 --last 2 --out y.npy &&
    refuses 1 '--decode-from' logits --ids 2 --decode-from 2 --out y.npy || return 1
  [ -z "$(find . -name 'y.npy*')" ] || return 1
  echo kept >y.npy && refuses 1 '2048' logits --ids 2,2048 --out y.npy && [ "$(cat y.npy)" = kept ] || return 1
  exits 0 lapidary logits --ids 2 --out /dev/null && [ -c /dev/null ]
}

check 'logits writes a NumPy file' npy_file
check 'logits are the same by every way' same_logits_every_way
check '--kv-start prompt: the prompt as with plain caches, the rest not' kv_start
check 'logits: bad ids leave no file' bad_logits

finish

#!/usr/bin/env bash
# `lapidary fit` as a user meets it: the answer, its figures against a run's, messages, exit codes.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

verb=fit

# fit ARGUMENT...: must succeed and say nothing on stderr; output in the file out.
fit() {
  lapidary fit "$@" >out 2>err </dev/null || { echo "exit code $?: $*"; cat err; return 1; }
  [ ! -s err ] || { cat err; return 1; }
}

# The value of a key in out, the first one.
value() { sed -n "s/^ *\"$1\": \([^,]*\),\?$/\1/p" out | head -n 1; }

# A failure is one line.
fails() { refuses 1 "$@" && [ "$(wc -l <err)" -eq 1 ]; }

# near A B: within 3 %.
near() {
  awk -v a="$1" -v b="$2" 'BEGIN { print a, b; exit !(a > 0 && b > 0 && a / b > 0.97 && a / b < 1.03) }'
}

sums_up() {
  fit "$pebble" --ctx 4096 --bandwidth 20 --memory 1 --json || return 1
  [ "$(value context)" = 4096 ] && [ "$(value fits)" = true ] && [ "$(value longest_context)" = 8192 ] || return 1
  [ "$(value available)" = 1000000000 ] || return 1
  [ "$(value together)" = $(($(value weights_resident) + $(value kv_caches_peak) + $(value arena) + $(value program))) ] &&
    [ "$(value weights_mapped)" -gt "$(value weights_resident)" ] && [ "$(value kv_caches_peak)" -gt "$(value kv_caches)" ]
}

# A rate is the bandwidth over the bytes; at depth it is lower, by the bytes of KV.
rates() {
  fit "$pebble" --ctx 4096 --bandwidth 20 --json || return 1
  [ "$(value bandwidth_measured)" = false ] || return 1
  tr -d ',' <out | awk '/"depth"/ { depth[n++] = $2 } /"bytes_per_token"/ { bytes = $2 }
    /"tokens_per_second"/ { rate[n] = $2; x = $2 * bytes / 20e9; if (x < 0.999 || x > 1.001) bad = 1 }
    END { exit bad || n != 2 || depth[0] != 0 || depth[1] != 4095 || !(rate[2] < rate[1]) }'
}

limits() {
  fit "$pebble" --ctx 4096 --bandwidth 20 --memory 0.03 --json || return 1
  local longest
  longest=$(value longest_context)
  [ "$(value fits)" = false ] && [ "$longest" -gt 1 ] && [ "$longest" -lt 4096 ] || return 1
  fit "$pebble" --ctx "$longest" --bandwidth 20 --memory 0.03 --json && [ "$(value fits)" = true ] || return 1
  fit "$pebble" --ctx $((longest + 1)) --bandwidth 20 --memory 0.03 --json && [ "$(value fits)" = false ] || return 1
  fit "$pebble" --bandwidth 20 --memory 0.03 && grep -q "^Does not fit: .*Longest context that fits: $longest tokens" out ||
    return 1
  fit "$pebble" --bandwidth 20 --memory 0.001 && grep -q '^Does not fit: .*No context fits' out
}

measured() {
  fit "$pebble" --ctx 100 --threads 1 --json && [ "$(value bandwidth_measured)" = true ] || return 1
  awk -v rate="$(value bandwidth_bytes_per_second)" -v has="$(value available)" \
    'BEGIN { exit !(rate > 1e8 && rate < 1e13 && has > 1e6) }' || return 1
  fit "$pebble" --ctx 100 && grep -q ' to .*measured)' out && grep -q '^Fits, with ' out
}

# What a run holds, by its own account.
as_bench_finds() {
  local kv bytes scratch
  for kv in config plain 8 4; do
    lapidary bench -m "$pebble" --kv $kv --depth 0 --prompt 500 --decode 0 --repeat 1 --threads 2 --json >out ||
      return 1
    bytes=$(value kv_bytes) scratch=$(value scratch_bytes)
    fit "$pebble" --ctx 500 --kv $kv --threads 2 --bandwidth 1 --json && near "$(value kv_caches)" "$bytes" &&
      near "$(value arena)" "$scratch" || return 1
  done
}

# Headers and a hole: nothing else is read.
no_weights() {
  mkdir -p hole && cp "$pebble"/*.json hole/ || return 1
  local bytes header
  bytes=$(stat -c %s "$pebble/model.safetensors")
  header=$(od -A n -t u8 -N 8 "$pebble/model.safetensors")
  head -c $((header + 8)) "$pebble/model.safetensors" >hole/model.safetensors && truncate -s "$bytes" hole/model.safetensors
  fit "$pebble" --bandwidth 3 --memory 2 --json && grep -v '"directory"' out >expected || return 1
  fit hole --bandwidth 3 --memory 2 --json && grep -v '"directory"' out | cmp - expected
}

wrong_lines() {
  refuses 2 "--ctx: '0' is not in" --ctx 0 && refuses 2 "--kv: '5' is none of" --kv 5 &&
    refuses 2 "--memory: '-1' is not in" --memory -1 && refuses 2 "--bandwidth: 'x' is not in" --bandwidth x &&
    refuses 2 "--threads: '0' is not in" --threads 0 && refuses 2 'one argument too many' "$pebble" more
}

wrong_input() {
  fails "--ctx: 8193 tokens are more than the model's context of 8192" "$pebble" --ctx 8193 || return 1
  fails 'nowhere/model.safetensors: cannot be opened' nowhere || return 1
  mkdir -p broken && cp "$pebble"/* broken/ && echo '[{"layer_idx": 99, "bits": 4}]' >broken/kv_config.json
  fails 'broken/kv_config.json' broken && fails 'broken/kv_config.json' broken --kv config --json || return 1
  head -c 1000 "$pebble/model.safetensors" >broken/model.safetensors
  fails 'broken/model.safetensors' broken
}

known_everywhere() {
  lapidary --help | grep -q '^  fit  ' && lapidary help --man | grep -q '^.SS "lapidary fit ' &&
    lapidary help --bash-completion | grep -q "'fit --kv'"
}

check 'the parts add up' sums_up
check 'rates are the bandwidth over the bytes of a token' rates
check 'what does not fit is said, with the longest context that does' limits
check 'memory and bandwidth are found out' measured
check 'KV and arena are what bench finds' as_bench_finds
check 'weights are not read' no_weights
check 'wrong command lines are refused' wrong_lines
check 'wrong checkpoints and contexts are refused in one line' wrong_input
check 'help, man page and completion know it' known_everywhere
finish

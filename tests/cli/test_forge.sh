#!/usr/bin/env bash
# `lapidary forge` as a user meets it: names, messages, exit codes, nothing half left.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

program_beside_models
verb=forge
small=(--layers 6 --vocab 128 --scale 64)

every_name() {
  local name
  for name in e2b e4b 12b 26b-a4b 31b; do
    lapidary forge "$name" "$name" "${small[@]}" || return 1
    [ "$(ls "$name" | xargs)" = "config.json kv_config.json model.safetensors" ] || return 1
    lapidary inspect "$name" >/dev/null || return 1
    lapidary logits "$name" --ids 2,7,100 --out "$name.npy" || return 1
  done
}

by_file() {
  lapidary forge "$source/models/configs/e4b.json" by-file "${small[@]}" &&
    [ ! -e by-file/kv_config.json ] && cmp by-file/config.json e4b/config.json &&
    cmp by-file/model.safetensors e4b/model.safetensors
}

threads_and_seeds() {
  lapidary forge e4b one "${small[@]}" --threads 1 && cmp one/model.safetensors e4b/model.safetensors &&
    lapidary forge e4b other "${small[@]}" --seed 1 && ! cmp -s other/model.safetensors e4b/model.safetensors
}

companions() {
  lapidary forge e4b plain "${small[@]}" --kv-config none \
    --tokenizer "$source/models/pebble/tokenizer.json" &&
    [ ! -e plain/kv_config.json ] && cmp plain/tokenizer.json "$source/models/pebble/tokenizer.json"
}

no_replacement() { refuses 1 'e4b: is not empty; --force' e4b e4b "${small[@]}"; }

replacement() {
  touch plain/model.safetensors.index.json
  lapidary forge 12b plain "${small[@]}" --force && lapidary inspect plain | grep -q gemma4_unified &&
    [ "$(ls plain | xargs)" = "config.json kv_config.json model.safetensors" ]
}

interrupted() {
  start "$program" forge e4b big >out 2>err
  soon test -e big/model.safetensors.part
  kill -INT "$started"
  ended "$started"
  [ $? -eq 130 ] && [ ! -e big ] && [ ! -s out ]
}

# Stands for a full disk: a write fails on the way.
file_too_large() {
  (ulimit -f 1000 && refuses 1 'limited/model.safetensors.part: cannot be written: File too large' \
    e4b limited "${small[@]}") && [ ! -e limited ]
}

unwritable() {
  mkdir -p closed && chmod a-w closed
  if [ -w closed ]; then # root may write everywhere
    refuses 1 '/proc/forged: cannot be created' e4b /proc/forged "${small[@]}"
  else
    refuses 1 'closed/new: cannot be created: Permission denied' e4b closed/new "${small[@]}"
  fi
}

broken_config() {
  echo '{"model_type": "gemma4_text", "hidden_size": "wide"}' >broken.json
  refuses 1 'broken.json: hidden_size' broken.json new
}

wrong_directory() { refuses 1 'broken.json: cannot be opened as a directory' e4b broken.json "${small[@]}"; }

check "the five sizes are forged by name, inspected and computed" every_name
check "a path gives the same weights and no kv_config.json" by_file
check "the same seed gives the same bytes with any number of threads" threads_and_seeds
check "--kv-config none and --tokenizer" companions
check "a directory that is not empty is left alone" no_replacement
check "--force replaces a checkpoint and what would contradict it" replacement
check "Ctrl-C leaves nothing" interrupted
check "a failed write leaves nothing" file_too_large
check "a directory that cannot be made is named" unwritable
check "a broken configuration is named with its field" broken_config
check "a file in place of the directory is named" wrong_directory
check "a missing configuration" refuses 1 'no-such/config.json: there is no such file' no-such/config.json new
check "an unknown name lists the known ones" refuses 1 'e2b, e4b, 12b, 26b-a4b, 31b' e5b new
check "no operands" refuses 2 'a directory are needed'
check "one operand" refuses 2 'a directory are needed' e4b
check "three operands" refuses 2 "'c' is one argument too many" e4b b c
check "--layers 0" refuses 2 "--layers: '0' is not in 1..1024" e4b new --layers 0
check "--layers beyond" refuses 1 '--layers: 43 is more than the 42' e4b new --layers 43
check "--bits 7" refuses 2 "--bits: '7' is none of 2, 3, 4, 5, 6, 8, 16" e4b new --bits 7
check "--group 48" refuses 2 "--group: '48' is none of 32, 64, 128" e4b new --group 48
check "--vocab too small" refuses 1 '--vocab: 100 leaves out token 106' e4b new --vocab 100
check "--kv-config missing" refuses 1 'no.json: cannot be opened' e4b new --kv-config no.json "${small[@]}"
check "refusals make no directory" test ! -e new

finish

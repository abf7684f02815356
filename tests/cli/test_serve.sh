#!/usr/bin/env bash
# `lapidary serve` as a process: its first line, signals, exit codes, the environment. What it answers is tested in
# tests/unit/test_server.c and tests/clients.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

export LAPIDARY_MODEL=$pebble
verb=serve

# serve ARGUMENT...: a server in the background; its process in `server`, what it says in said and warned.
serve() {
  rm -f said warned
  "$program" serve --port 0 "$@" >said 2>warned </dev/null &
  server=$!
  soon eval '[ -s said ] || has_ended "$server"'
}

# begin ARGUMENT...: a server that listens; its port in `port`.
begin() {
  serve "$@"
  head -n 1 said | grep -Eq '^listening on http://127\.0\.0\.1:[0-9]+$' || { cat said warned; return 1; }
  port=$(sed 's/.*://' said)
}

# stop SIGNAL: the server must end with success, having said no more.
stop() {
  kill -s "$1" "$server"
  ended "$server"
  local code=$?
  cat warned
  [ $code -eq 0 ] && [ "$(wc -l <said)" -eq 1 ] && [ ! -s warned ]
}

# ask METHOD PATH HEADER BODY: the reply on stdout.
ask() {
  exec 9<>"/dev/tcp/127.0.0.1/$port" || return 1
  printf '%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s' \
    "$1" "$2" "${3:+$3$'\r\n'}" "${#4}" "$4" >&9
  bounded cat <&9
  exec 9>&-
}

answers() {
  begin || return 1
  ask GET /health '' '' | grep -q '"status":"ok"' || return 1
  ask POST /v1/chat/completions '' '{"temperature":0,"messages":[{"role":"user","content":"What is 74 - 8?"}]}' |
    grep -q '"content":"66"' || return 1
  stop TERM
}

options_count() {
  LAPIDARY_API_KEY=quiet begin --alias stone --kv 8 --ctx 100 --threads 1 --parallel 2 --cache-bytes 0 || return 1
  ask GET /v1/models '' '' | grep -q '401 Unauthorized' || return 1
  ask GET /v1/models 'Authorization: Bearer quiet' '' | grep -q '"id":"stone"' || return 1
  ask GET /health '' '' >health || return 1
  grep -q '"kv":"8"' health && grep -q '"context":100' health && grep -q '"threads":1' health || return 1
  ask POST /v1/completions 'x-api-key: quiet' "{\"prompt\":\"$(printf 'a%.0s ' {1..200})\"}" |
    grep -q context_length_exceeded || return 1
  stop INT
}

# Behind a running answer, the first signal waits for its end and the second one does not.
second_signal() {
  begin || return 1
  ask POST /v1/chat/completions '' \
    '{"stream":true,"seed":1,"ignore_eos":true,"logit_bias":{"14":-100},"messages":[{"role":"user","content":"x"}]}' >reply &
  local client=$!
  soon test -s reply
  kill -TERM "$server"
  sleep 0.5
  kill -0 "$server" || return 1
  kill -TERM "$server"
  ended "$server"
  local code=$?
  ended "$client"
  [ $code -eq 143 ]
}

# A prompt long enough to be worth reading back.
cache_survives() {
  local body='{"max_tokens":3,"seed":1,"messages":[{"role":"user","content":"Write a story about a lamp and a drum in a red barn near the hill."}]}'
  begin --cache-dir kept || return 1
  ask POST /v1/chat/completions '' "$body" >first && stop TERM || return 1
  begin --cache-dir kept || return 1
  ask POST /v1/chat/completions '' "$body" >second && stop TERM || return 1
  grep -q '"cached_tokens":0' first && ! grep -q '"cached_tokens":0' second || return 1
  [ "$(grep -o '"content":"[^"]*"' first)" = "$(grep -o '"content":"[^"]*"' second)" ]
}

# An address that others reach asks for a key, or for attention.
open_address() {
  local key
  for key in '' quiet; do
    LAPIDARY_API_KEY=$key serve --host 0.0.0.0
    kill "$server"
    ended "$server"
    [ -z "$key" ] || { [ ! -s warned ]; return; }
    [ "$(wc -l <warned)" -eq 1 ] && grep -q -- '^lapidary: --host 0.0.0.0 without --api-key: ' warned || { cat warned; return 1; }
  done
}

wrong_use() {
  refuses 2 "--port: '65536' is not in" --port 65536 &&
    refuses 2 "--parallel: '0' is not in" --parallel 0 &&
    refuses 2 "'x' is one argument too many" x &&
    refuses 1 'context: 9000 is not in' --port 0 --ctx 9000 &&
    refuses 1 'host nowhere.invalid: ' --host nowhere.invalid &&
    refuses 1 'lapidary: /nowhere' -m /nowhere || return 1
  begin || return 1
  refuses 1 "127.0.0.1 port $port: " --port "$port" && stop TERM
}

check 'serve answers, and ends on SIGTERM' answers
check 'options and the environment count; SIGINT ends too' options_count
check 'a second signal ends at once' second_signal
check 'the cache directory survives a restart' cache_survives
check 'an open address without a key is pointed out' open_address
check 'wrong use and a port that is taken' wrong_use
finish

#!/usr/bin/env bash
# `lapidary serve` as a process: its first line, signals, exit codes, the environment. What it answers is tested in
# tests/unit/test_server.c and tests/clients.
# Usage: test_serve.sh LAPIDARY_BINARY. Prints "ok - NAME" or "not ok - NAME"; exits 1 if anything failed.
set -u

lapidary=$(realpath "$1")
LAPIDARY_MODEL=$(realpath "$(dirname "$0")/../../models/pebble")
export LAPIDARY_MODEL
unset LAPIDARY_API_KEY
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

check() {
  local name=$1
  shift
  if "$@" >check.log 2>&1; then
    echo "ok - $name"
  else
    echo "not ok - $name"
    sed 's/^/# /' check.log
    failures=$((failures + 1))
  fi
}

# start ARGUMENT...: a server in the background; its port in `port`, its process in `server`.
start() {
  local tries=0
  rm -f out err
  "$lapidary" serve --port 0 "$@" >out 2>err </dev/null &
  server=$!
  while ! [ -s out ] && kill -0 "$server" 2>/dev/null && [ $tries -lt 600 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  head -n 1 out | grep -Eq '^listening on http://127\.0\.0\.1:[0-9]+$' || { cat out err; return 1; }
  port=$(sed 's/.*://' out)
}

# stop SIGNAL: the server must end with success, having said no more.
stop() {
  kill -s "$1" "$server"
  wait "$server"
  local code=$?
  server=
  cat err
  [ $code -eq 0 ] && [ "$(wc -l <out)" -eq 1 ] && [ ! -s err ]
}

# ask METHOD PATH HEADER BODY: the reply on stdout.
ask() {
  exec 9<>"/dev/tcp/127.0.0.1/$port" || return 1
  printf '%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s' \
    "$1" "$2" "${3:+$3$'\r\n'}" "${#4}" "$4" >&9
  cat <&9
  exec 9>&-
}

answers() {
  start || return 1
  ask GET /health '' '' | grep -q '"status":"ok"' || return 1
  ask POST /v1/chat/completions '' '{"temperature":0,"messages":[{"role":"user","content":"What is 74 - 8?"}]}' |
    grep -q '"content":"66"' || return 1
  stop TERM
}

options_count() {
  LAPIDARY_API_KEY=quiet start --alias stone --kv 8 --ctx 100 --threads 1 --parallel 2 --cache-bytes 0 || return 1
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
  start || return 1
  ask POST /v1/chat/completions '' \
    '{"stream":true,"seed":1,"ignore_eos":true,"logit_bias":{"14":-100},"messages":[{"role":"user","content":"x"}]}' >reply &
  local client=$! tries=0
  until [ -s reply ] || [ $tries -gt 200 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  kill -TERM "$server"
  sleep 0.5
  kill -0 "$server" || return 1
  kill -TERM "$server"
  wait "$server"
  local code=$?
  server=
  wait "$client"
  [ $code -eq 143 ]
}

# A prompt long enough to be worth reading back.
cache_survives() {
  local body='{"max_tokens":3,"seed":1,"messages":[{"role":"user","content":"Write a story about a lamp and a drum in a red barn near the hill."}]}'
  start --cache-dir kept || return 1
  ask POST /v1/chat/completions '' "$body" >first && stop TERM || return 1
  start --cache-dir kept || return 1
  ask POST /v1/chat/completions '' "$body" >second && stop TERM || return 1
  grep -q '"cached_tokens":0' first && ! grep -q '"cached_tokens":0' second || return 1
  [ "$(grep -o '"content":"[^"]*"' first)" = "$(grep -o '"content":"[^"]*"' second)" ]
}

refuses() { # CODE TEXT ARGUMENT...
  local code=$1 text=$2
  shift 2
  "$lapidary" serve "$@" >refused.out 2>refused.err </dev/null
  [ $? -eq "$code" ] && [ ! -s refused.out ] && head -n 1 refused.err | grep -qF -- "$text" && return
  cat refused.out refused.err
  return 1
}

# An address that others reach asks for a key, or for attention.
open_address() {
  local key tries
  for key in '' quiet; do
    tries=0
    rm -f out err
    LAPIDARY_API_KEY=$key "$lapidary" serve --host 0.0.0.0 --port 0 >out 2>err </dev/null &
    server=$!
    until [ -s out ] || [ $tries -gt 600 ]; do
      sleep 0.05
      tries=$((tries + 1))
    done
    kill "$server"
    wait "$server"
    server=
    [ -z "$key" ] || { [ ! -s err ]; return; }
    [ "$(wc -l <err)" -eq 1 ] && grep -q -- '^lapidary: --host 0.0.0.0 without --api-key: ' err || { cat err; return 1; }
  done
}

wrong_use() {
  refuses 2 "--port: '65536' is not in" --port 65536 &&
    refuses 2 "--parallel: '0' is not in" --parallel 0 &&
    refuses 2 "'x' is one argument too many" x &&
    refuses 1 'context: 9000 is not in' --port 0 --ctx 9000 &&
    refuses 1 'host nowhere.invalid: ' --host nowhere.invalid &&
    refuses 1 'lapidary: /nowhere' -m /nowhere || return 1
  start || return 1
  refuses 1 "127.0.0.1 port $port: " --port "$port" && stop TERM
}

check 'serve answers, and ends on SIGTERM' answers
check 'options and the environment count; SIGINT ends too' options_count
check 'a second signal ends at once' second_signal
check 'the cache directory survives a restart' cache_survives
check 'an open address without a key is pointed out' open_address
check 'wrong use and a port that is taken' wrong_use
exit $((failures > 0))

# What the command line's tests share: each of them begins with `source "$(dirname "$0")/common.sh"`, is called with the
# program to test, and ends with `finish`.
#
# A test works in an empty directory of its own, which goes when it ends, and with it what it has started. Nothing waits
# without a limit; PATIENCE, a whole number, multiplies the limits.
# shellcheck shell=bash
# shellcheck disable=SC2034 # some are for the tests alone
set -u

# Ctrl-C has to end what is started here even where it is ignored, as under nohup: bash itself cannot undo that.
[ -z "$(trap -p INT QUIT)" ] || exec env --default-signal=INT,QUIT bash "$0" "$@"

PATIENCE=${PATIENCE:-1}
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..") # the repository
program=$(realpath "$1")                                  # what is tested
build=$(dirname "$program")                               # where it was built
pebble=$source/models/pebble                              # the bundled model
verb=                                                     # what `refuses` calls, if always the same
failures=()
checking=                                                 # the check that runs
unset LAPIDARY_MODEL LAPIDARY_ATTENTION LAPIDARY_API_KEY

work=$(mktemp -d)
clean_up() {
  local running
  # An unset variable ends the shell in the middle of a check, whose output goes to a file.
  [ -z "$checking" ] || { echo "not ok - $checking: the test ended here" && sed 's/^/# /' check.log; } >&3
  running=$(jobs -p)
  # shellcheck disable=SC2086 # several words
  [ -z "$running" ] || kill -KILL $running 2>/dev/null
  chmod -R u+w "$work"
  rm -rf "$work"
}
exec 3>&1 # inside a check too
trap clean_up EXIT
cd "$work" || exit 1

# check NAME COMMAND...: the command must succeed.
check() {
  local name=$1
  shift
  checking=$name
  if "$@" >check.log 2>&1; then
    echo "ok - $name"
  else
    echo "not ok - $name"
    sed 's/^/# /' check.log
    failures+=("$name")
  fi
  checking=
}

# The last line of a test.
finish() {
  local name
  for name in ${failures[@]+"${failures[@]}"}; do echo "failed: $name"; done
  exit $((${#failures[@]} > 0))
}

# ---- programs ----

bounded() { timeout --foreground --kill-after=5 $((300 * PATIENCE)) "$@"; }

# The program. In the background it is "$program" itself, so that signals reach it.
lapidary() { bounded "$program" "$@"; }

# exits CODE COMMAND...: output in the files out and err.
exits() {
  local wanted=$1 code
  shift
  "$@" >out 2>err </dev/null
  code=$?
  [ "$code" -eq "$wanted" ] && return
  echo "exit code $code instead of $wanted: $*"
  cat err
  return 1
}

# refuses CODE TEXT ARGUMENT...: that exit code, nothing on stdout, TEXT in the first line of stderr.
refuses() {
  local code=$1 text=$2
  shift 2
  exits "$code" lapidary ${verb:+"$verb"} "$@" || return 1
  cat err
  [ ! -s out ] && head -n 1 err | grep -qF -- "$text"
}

# Names of sizes mean configurations that are found from the program's directory: a copy of it beside ours.
program_beside_models() {
  mkdir bin && cp "$program" bin/lapidary && ln -s "$source/models" models && program=$work/bin/lapidary
}

# ---- processes in the background ----

# start COMMAND...: its process id in `started`. With job control, because the shell has background jobs ignore Ctrl-C
# otherwise.
start() {
  set -m
  "$@" &
  started=$!
  set +m
}

# soon COMMAND...: waits until it succeeds, half a minute at most.
soon() {
  local tries=0
  until "$@"; do
    [ $((tries += 1)) -le $((600 * PATIENCE)) ] || { echo "did not come true: $*"; return 1; }
    sleep 0.05
  done
}

has_ended() { ! kill -0 "$1" 2>/dev/null; }

# ended PROCESS: waits for its end, and where that does not come, kills it. The exit code.
ended() {
  soon has_ended "$1" || kill -KILL "$1"
  wait "$1"
}

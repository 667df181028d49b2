# shellcheck shell=bash
# What `up`, `down` and the builds share: where things lie, how to say what
# happens, how to install tools, and how to tell our own processes from others.
#
# Sourced, never run. Everything for a person goes to standard error, since the
# last line on standard output of `up` is its result.

CACHE_ROOT=${WAVEGATE_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or WAVEGATE_CACHE}/.cache}/wavegate}
# shellcheck disable=SC2034 # used by `up` and `down`
DEFAULT_STATE=${WAVEGATE_CLUSTER_DIR:-$CACHE_ROOT/run}
# shellcheck disable=SC2034
OLDEST_STATE=${WAVEGATE_CLUSTER_DIR:-$CACHE_ROOT/run-oldest}
# In every state folder that `up` made, so that `down` never removes another.
# shellcheck disable=SC2034
MARKER=.wavegate-test-cluster

say() { printf 'cluster: %s\n' "$*" >&2; }

die() {
  printf 'error: cluster: %s\n' "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# The start time of process $1 in clock ticks since boot, or nothing when it is
# gone or a zombie. A PID is reused, a PID with its start time is not.
start_time() {
  local stat fields
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  # The name of the program, in parentheses, may hold spaces: cut it off first.
  read -ra fields <<<"${stat##*) }"
  [[ ${fields[0]} == Z ]] || printf '%s' "${fields[19]}"
}

# Whether the process that file $1 names ("PID START") still runs.
runs() {
  local pid started
  [[ -r $1 ]] && read -r pid started <"$1" && [[ -n $started && $(start_time "$pid") == "$started" ]]
}

# Takes the lock of state folder $1, which must exist, on descriptor 8, until
# this script ends. Fails when the folder was removed while waiting.
# The folder itself is locked, so that no lock file stays behind.
lock_state() {
  exec 8<"$1"
  flock -n 8 || { say "another run works on $1; waiting for it" && flock 8; }
  [[ $1 -ef /dev/fd/8 ]]
}

# Ends every process of state folder $1 and waits until all are gone.
# They are killed outright: nothing of their state is kept, and an API server
# that is asked politely first waits for its watches to end.
stop_processes() {
  local file pid deadline=$((SECONDS + 10))
  for file in "$1"/*.pid; do
    runs "$file" || continue
    read -r pid _ <"$file"
    kill -KILL "$pid" 2>/dev/null || true
  done
  for file in "$1"/*.pid; do
    while runs "$file"; do
      ((SECONDS < deadline)) || die "$file: the process does not end within 10 s of being killed"
      sleep 0.05
    done
  done
}

# Runs as root: directly, or by sudo where that is there.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif have sudo; then
    sudo "$@"
  else
    die "not root and no sudo: ask an administrator to run: $*"
  fi
}

# Installs what provides the given commands, as `command=package`, when missing.
require() {
  local pair missing=()
  for pair in "$@"; do
    have "${pair%%=*}" || missing+=("${pair#*=}")
  done
  ((${#missing[@]})) || return 0
  have apt-get || die "missing: ${missing[*]}; install them, or point WAVEGATE_TEST_KUBECONFIG at a cluster of your own"
  say "installing ${missing[*]}"
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}")
  # A machine whose lists are missing or old is brought up to date once.
  as_root "${install[@]}" >&2 || {
    as_root apt-get update -q >&2
    as_root "${install[@]}" >&2
  }
}

# Ends with the tail of log $1 and the error $2.
step_failed() {
  tail -n 30 "$1" >&2
  die "$2; the end of its log stands above"
}

# shellcheck shell=bash
# What `up`, `down` and `build.sh` share: where things lie, how to say what
# happens, and how to tell our own processes from others.
#
# Sourced, never run. Everything for a person goes to standard error, since the
# last line on standard output of `up` is its result.

# The one release that Debian's source package holds; see build.sh.
KUBERNETES_VERSION=1.20.2

CACHE_ROOT=${WAVEGATE_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or WAVEGATE_CACHE}/.cache}/wavegate}
# shellcheck disable=SC2034 # used by `up` and build.sh
BINARIES=$CACHE_ROOT/kubernetes-$KUBERNETES_VERSION
# shellcheck disable=SC2034 # used by `up` and `down`
DEFAULT_STATE=${WAVEGATE_CLUSTER_DIR:-$CACHE_ROOT/run}
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

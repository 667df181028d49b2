# shellcheck shell=bash
# Kubernetes 1.20, the oldest release that is supported: builds kube-apiserver and
# kube-controller-manager from Debian's source package, and fetches etcd, once, into the
# cache.
#
# Sourced by `up --oldest`. Packages that are only read here (Go, etcd, one Go library)
# are unpacked into a temporary folder instead of installed: that needs no root,
# starts no service, and cannot meet another version. Only small tools of the
# build that are missing are installed. The machine's own package lists stay as
# they are.

# The one release that Debian's source package holds.
KUBERNETES_VERSION=1.20.2

# Controllers that are off: those that would judge nodes, call a cloud, or wait for a
# volume provisioner.
CONTROLLERS='*,-nodelifecycle,-nodeipam,-cloud-node-lifecycle,-route,-service,-persistentvolume-binder,-attachdetach,-ttl'
CONTROLLER_MANAGER_FLAGS=(--port=0)
API_SERVER_FLAGS=(--enable-priority-and-fairness=false)

# Prints sources for the Debian release of this machine with source packages
# switched on, taken from whatever mirror the machine is configured with.
# Entries of third parties, which have no source packages, are left out.
debian_sources() {
  local release=$1 file
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -r $file ]] || continue
    awk -v release="$release" '
      function flush() {
        if (binary && main && ours && !off) printf "%sTypes: deb deb-src\n\n", stanza
        stanza = name = ""; binary = main = ours = off = 0
      }
      /^[ \t]*$/ { flush(); next }
      /^#/ { next }
      # A line that starts with a blank continues the field before it.
      /^[^ \t]/ { name = tolower($0); sub(/[ \t]*:.*/, "", name) }
      {
        for (i = 1; i <= NF; i++) {
          if (name == "types" && $i ~ /(^|:)deb$/) binary = 1
          if (name == "components" && $i ~ /(^|:)main$/) main = 1
          if (name == "suites" && $i ~ "(^|:)" release "(-|$)") ours = 1
          if (name == "enabled" && $i ~ /(^|:)(no|false|off|0)$/) off = 1
        }
        if (name != "types") stanza = stanza $0 "\n"
      }
      END { flush() }' "$file"
  done >"$2/debian.sources"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -r $file ]] || continue
    awk -v release="$release" '
      $1 == "deb" {
        at = 2
        if ($2 ~ /^\[/) while (at < NF && $(at++) !~ /\]$/) {}
        main = 0
        for (i = at + 2; i <= NF; i++) if ($i == "main") main = 1
        if (main && index($(at + 1), release) == 1) { print; sub(/deb/, "deb-src"); print }
      }' "$file"
  done >"$2/debian.list"
  [[ -s $2/debian.sources || -s $2/debian.list ]]
}

# apt-get with the package lists of work folder $1, which needs no root.
apt_in() {
  local work=$1
  shift
  apt-get -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/sources" \
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" \
    -o "APT::Sandbox::User=$(id -un)" "$@"
}

# Fills $BINARIES: etcd, kube-apiserver, kube-controller-manager. The folder
# appears whole or not at all. The caller holds the lock of the cache.
build_binaries() {
  local release work go started=$SECONDS
  release=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  have apt-get || release=
  [[ -n $release ]] ||
    die "building the API server needs Debian 12; elsewhere point WAVEGATE_TEST_KUBECONFIG at a cluster of your own"
  require make=make rsync=rsync jq=jq dpkg-source=dpkg-dev patch=patch xz=xz-utils perl=perl

  # With the lock held, what lies there is left from a build that was killed.
  rm -rf "$CACHE_ROOT"/build.??????
  work=$(mktemp -d "$CACHE_ROOT/build.XXXXXX")
  # shellcheck disable=SC2064 # the folder of now is meant
  trap "rm -rf '$work'" EXIT
  mkdir -p "$work"/{sources,lists/partial,cache/archives/partial,root,home,tmp,out}

  say "fetching packages of Debian $release"
  debian_sources "$release" "$work/sources" || die "/etc/apt: no entry for Debian $release with component main"
  apt_in "$work" update >"$work/apt.log" 2>&1 || step_failed "$work/apt.log" "cannot update the package lists"
  (
    cd "$work"
    apt_in "$work" source --download-only kubernetes
    apt_in "$work" download etcd-server golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev
  ) >>"$work/apt.log" 2>&1 || step_failed "$work/apt.log" "cannot download packages (Debian 12 has all of them)"

  say "unpacking"
  (
    cd "$work"
    local package
    for package in *.deb; do dpkg-deb -x "$package" root; done
    # apt has checked the signed hashes; the uploader's own key is not needed.
    dpkg-source --no-check -x kubernetes_*.dsc kubernetes
  ) >"$work/unpack.log" 2>&1 || step_failed "$work/unpack.log" "cannot unpack the packages"
  case $(cd "$work" && echo kubernetes_*.dsc) in
  *"$KUBERNETES_VERSION"-*) ;;
  *) die "Debian $release has $(cd "$work" && echo kubernetes_*.dsc), and not $KUBERNETES_VERSION that this script knows" ;;
  esac

  # The vendored version reads the internals of older Go maps, and crashes on
  # custom resources with this one. Files that the newer lacks must go too.
  local old=$work/kubernetes/vendor/github.com/modern-go/reflect2
  local new=$work/root/usr/share/gocode/src/github.com/modern-go/reflect2
  rm -f "$old"/*.go "$old"/*.s
  cp "$new"/*.go "$new"/*.s "$old/"

  # Without a Git tree the build does not know what it builds.
  cat >"$work/version" <<VERSION
KUBE_GIT_COMMIT='debian'
KUBE_GIT_TREE_STATE='archive'
KUBE_GIT_VERSION='v$KUBERNETES_VERSION'
KUBE_GIT_MAJOR='1'
KUBE_GIT_MINOR='20'
VERSION

  say "building kube-apiserver and kube-controller-manager $KUBERNETES_VERSION, about four minutes on two cores"
  go=$work/root/usr/lib/go-1.19
  # A bare environment: another Go, with its own settings, may be at hand.
  (
    cd "$work/kubernetes"
    nice env -i PATH="$go/bin:/usr/bin:/bin" GOROOT="$go" HOME="$work/home" TMPDIR="$work/tmp" LC_ALL=C \
      CGO_ENABLED=0 GOPROXY=off KUBE_GIT_VERSION_FILE="$work/version" \
      make WHAT="cmd/kube-apiserver cmd/kube-controller-manager"
  ) >"$work/make.log" 2>&1 || step_failed "$work/make.log" "cannot build Kubernetes"

  cp -L "$work"/kubernetes/_output/bin/kube-{apiserver,controller-manager} "$work/root/usr/bin/etcd" "$work/out/"
  "$work/out/etcd" --version >/dev/null || die "the etcd of Debian $release does not run here"
  mv -T "$work/out" "$BINARIES"
  rm -rf "$work"
  trap - EXIT
  say "built in $((SECONDS - started)) s, kept in $BINARIES"
}

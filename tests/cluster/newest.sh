# shellcheck shell=bash
# Kubernetes of today: builds kube-apiserver, kube-controller-manager and etcd from their
# Go modules, once, into the cache. The versions are those of newest/*/go.mod.
#
# Sourced by `up`. Requires Go of the version in newest/etcd/go.mod, or one that fetches
# it (Go 1.21 or newer with GOTOOLCHAIN=auto, the default of most installations).

modules=$here/newest
# The version of module $1 in the go.mod of folder $2.
version_of() {
  awk -v module="$1" '$1 == module && $2 ~ /^v/ { print substr($2, 2); exit }
    $1 == "require" && $2 == module { print substr($3, 2); exit }' "$modules/$2/go.mod"
}
KUBERNETES_VERSION=$(version_of k8s.io/kubernetes kubernetes)
ETCD_VERSION=$(version_of go.etcd.io/etcd/server/v3 etcd)

# Off: as for the oldest release; the controllers have other names.
# shellcheck disable=SC2034 # used by `up`
CONTROLLERS='*,-node-lifecycle-controller,-node-ipam-controller,-cloud-node-lifecycle-controller,-node-route-controller,-service-lb-controller,-persistentvolume-binder-controller,-persistentvolume-attach-detach-controller,-ttl-controller'
# shellcheck disable=SC2034
CONTROLLER_MANAGER_FLAGS=()
# shellcheck disable=SC2034
API_SERVER_FLAGS=()

# Whether there is a Go that can build the modules.
can_build() {
  have go && go -C "$modules/etcd" list -m >/dev/null 2>&1 && go -C "$modules/kubernetes" list -m >/dev/null 2>&1
}

# Fills $BINARIES: etcd, kube-apiserver, kube-controller-manager. The folder appears whole
# or not at all. The caller holds the lock of the cache.
build_binaries() {
  local work started=$SECONDS
  can_build || die "building Kubernetes $KUBERNETES_VERSION needs $(awk '$1 == "go" { print "Go " $2; exit }' "$modules/kubernetes/go.mod") or newer; elsewhere use --oldest (Debian 12), or point WAVEGATE_TEST_KUBECONFIG at a cluster of your own"
  # With the lock held, what lies there is left from a build that was killed.
  rm -rf "$CACHE_ROOT"/build.??????
  work=$(mktemp -d "$CACHE_ROOT/build.XXXXXX")
  # shellcheck disable=SC2064 # the folder of now is meant
  trap "rm -rf '$work'" EXIT
  mkdir -p "$work/out"

  say "building etcd $ETCD_VERSION"
  build_module "$work" etcd -ldflags '-s -w' .
  say "building kube-apiserver and kube-controller-manager $KUBERNETES_VERSION, about four minutes on two cores"
  local version=k8s.io/component-base/version minor=${KUBERNETES_VERSION#*.}
  # Without these the server says that it is v0.0.0.
  build_module "$work" kubernetes \
    -ldflags "-s -w -X $version.gitVersion=v$KUBERNETES_VERSION -X $version.gitMajor=${KUBERNETES_VERSION%%.*} -X $version.gitMinor=${minor%%.*}" \
    ./kube-apiserver ./kube-controller-manager

  "$work/out/etcd" --version >/dev/null || die "the etcd that was built does not run here"
  mv -T "$work/out" "$BINARIES"
  rm -rf "$work"
  trap - EXIT
  say "built in $((SECONDS - started)) s, kept in $BINARIES"
}

# Builds packages of the module in folder $2 into $1/out; the rest are arguments of
# `go build`. Its build cache goes with the work folder: nothing is built a second time.
build_module() {
  local work=$1 module=$2
  shift 2
  nice env CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOCACHE="$work/go-build" GOWORK=off \
    go -C "$modules/$module" build -mod=readonly -trimpath -o "$work/out/" "$@" >"$work/$module.log" 2>&1 ||
    step_failed "$work/$module.log" "cannot build $module"
}

# shellcheck shell=bash
# What the scripts of a release share: names, versions, and archives that are the same bytes each
# time. Sourced by them. The folder is that of the repository, also for the paths of arguments.
set -euo pipefail
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# What is sorted, and what programs print, depends on no language of the machine.
export LC_ALL=C TZ=UTC
umask 022

die() {
	echo "deploy/release/$(basename "$0"): $1" >&2
	exit 2
}
# The comment at the head of the script.
usage() {
	awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$script" >&2
	exit 2
}

version=$(awk '/^\[workspace.package\]/ { inside = 1 } inside && $1 == "version" { gsub(/"/, "", $3); print $3; exit }' Cargo.toml)

# The time of all that is packed: that of the commit.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
	# A clone may belong to another user than that of a container.
	SOURCE_DATE_EPOCH=$(git -c safe.directory="$(pwd -P)" log -1 --format=%ct 2>/dev/null) ||
		die "this is no clone; set SOURCE_DATE_EPOCH, in seconds"
fi
export SOURCE_DATE_EPOCH

# ARCH: the name of the processor, as images and archives have it, of a target of Rust.
arch_of() {
	case $1 in
	x86_64-*-linux-*) echo amd64 ;;
	aarch64-*-linux-*) echo arm64 ;;
	*) die "no releases are made for $1" ;;
	esac
}
# The target of this machine, or of WAVEGATE_TARGET.
target() {
	[ -n "${WAVEGATE_TARGET:-}" ] || WAVEGATE_TARGET=$(rustc -vV | sed -n 's/^host: //p')
	echo "$WAVEGATE_TARGET"
}

# FILE FOLDER NAME: FOLDER/NAME as an archive that depends on names, modes and contents alone.
pack() {
	tar --create --directory="$2" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" \
		--owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w "$3" |
		gzip --no-name --best >"$1.new"
	mv "$1.new" "$1"
}

# FILE: the digest in it.
digest() {
	grep -xE 'sha256:[0-9a-f]{64}' "$1" || die "$1 has no digest"
}

# Runs a command that needs a network, a container engine or rights; with WAVEGATE_PRINT=1 it is printed
# instead, to standard error, and nothing is done.
run() {
	if [ -n "${WAVEGATE_PRINT:-}" ]; then
		printf '%q ' "$@" >&2
		echo >&2
	else
		"$@"
	fi
}
# What a command answers; with WAVEGATE_PRINT=1 the command is printed, and the answer is $1.
ask() {
	local instead=$1
	shift
	if [ -n "${WAVEGATE_PRINT:-}" ]; then
		run "$@"
		echo "$instead"
	else
		"$@"
	fi
}
# A digest that nothing has, for WAVEGATE_PRINT.
no_digest=sha256:$(printf '0%.0s' {1..64})

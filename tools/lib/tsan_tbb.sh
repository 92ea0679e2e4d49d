#!/usr/bin/env bash
# Builds oneTBB with ThreadSanitizer into .cache/tsan-tbb, once, and prints that folder.
#
# ThreadSanitizer must see the synchronisation inside libtbb: with the distribution's library every parallel_for is reported as a
# race, and suppressions that silence those hide real races as well. The source is that of the distribution's own package.
# Exit code 3: it cannot be built on this machine; the reason is the last line on stderr.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/lib/common.sh
. "$here/common.sh"
# shellcheck source=tools/lib/packages.sh
. "$here/packages.sh"

prefix=$root/.cache/tsan-tbb
work=$root/.cache/tsan-tbb-build

unavailable() {
  say "$*"
  exit 3
}

# The machine's own package sources, as `deb-src`, in folders of our own: nothing in /etc changes and root is not needed.
write_source_lists() {
  local file
  mkdir -p "$work"/{parts,state/lists/partial,cache/archives/partial}
  for file in /etc/apt/sources.list.d/*.sources; do
    if [[ -f $file ]]; then sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/${file##*/}"; fi
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    if [[ -f $file ]]; then sed -n 's/^deb\(-src\)\? /deb-src /p' "$file" >"$work/parts/from-${file##*/}.list"; fi
  done
}

private_apt() {
  apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/parts" -o Dir::State="$work/state" \
    -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)" "$@"
}

fetch_source() {
  write_source_lists
  # A source that does not answer must not matter when another has the package.
  private_apt update || true
  (cd "$work" && private_apt source --download-only onetbb)
  mkdir -p "$work/source"
  tar -xf "$work"/onetbb_*.orig.tar.* -C "$work/source" --strip-components=1
}

build_and_install() {
  cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_INSTALL_PREFIX="$work/prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DTBB_SANITIZE=thread -DTBB_TEST=OFF -DTBB_STRICT=OFF -DTBBMALLOC_BUILD=OFF &&
    ninja -C "$work/build" -j "$(jobs_for_this_machine)" install &&
    sed -i "s|^prefix=.*|prefix=$prefix|" "$work/prefix/lib/pkgconfig/tbb.pc"
}

if [[ ! -f $prefix/lib/pkgconfig/tbb.pc ]]; then
  command -v apt-get >/dev/null || unavailable "no apt-get to fetch the source of oneTBB with"
  ensure tool:cmake=cmake || unavailable "no cmake to build oneTBB with"
  rm -rf "$work" "$prefix"
  fetch_source >&2 || unavailable "the source package onetbb could not be fetched (no network, or no deb-src there)"
  build_and_install >&2 || die "oneTBB did not build with ThreadSanitizer"
  # Moved into place last: a build that was interrupted must not look like a finished one.
  mv "$work/prefix" "$prefix"
  rm -rf "$work"
fi
echo "$prefix"

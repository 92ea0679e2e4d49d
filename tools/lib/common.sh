# shellcheck shell=bash
# Shared by tools/demo, tools/test and the scripts beside this file. Sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# Messages go to stderr, so that what `tandem` prints can be piped.
say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# Prints how many compilers may run side by side: one a processor, but no more than memory allows at 1 GiB each.
jobs_for_this_machine() {
  local processors memory_kib limit
  processors=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  # In a container the machine's memory is not ours; its own limit says "max" when there is none.
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [[ $limit =~ ^[0-9]{1,18}$ ]] && ((limit / 1024 < memory_kib)); then memory_kib=$((limit / 1024)); fi
  local by_memory=$((memory_kib / 1048576))
  if ((by_memory < 1)); then by_memory=1; fi
  echo $((processors < by_memory ? processors : by_memory))
}

# configure FOLDER OPTION...: sets up a build folder, or changes the options of one.
configure() {
  local folder=$1 again=()
  shift
  if [[ -f $folder/meson-private/coredata.dat ]] &&
    grep -qsF "\"source\": \"$root\"" "$folder/meson-info/meson-info.json"; then
    again=(--reconfigure)
  else
    # Meson refuses a folder that it made for sources in another place, or did not finish.
    rm -rf "$folder/meson-private" "$folder/meson-info"
  fi
  meson setup "${again[@]}" "$folder" "$root" "$@"
}

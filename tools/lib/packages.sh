# shellcheck shell=bash
# What the build needs, how to see that it is there, and the Debian package that brings it. Sourced, not run.
#
# An entry is `tool:COMMAND=PACKAGE`, `lib:PKG_CONFIG_NAME=PACKAGE` or `py:MODULE_OF_PYTHON=PACKAGE`. Looking for the thing and not for the package lets other
# systems, and tools that were installed by hand, pass.

# shellcheck disable=SC2034  # read by the scripts that source this file
program_needs=(
  tool:meson=meson tool:ninja=ninja-build tool:pkg-config=pkg-config "tool:${CXX:-c++}=g++"
  lib:tbb=libtbb-dev lib:eigen3=libeigen3-dev lib:CLI11=libcli11-dev lib:nlohmann_json=nlohmann-json3-dev
  lib:fmt=libfmt-dev lib:libpcre2-8=libpcre2-dev lib:libxxhash=libxxhash-dev
)
# shellcheck disable=SC2034
test_needs=(lib:gtest=libgtest-dev lib:gmock=libgmock-dev lib:benchmark=libbenchmark-dev)
# Without these the tests run all the same: slower, or with a house check skipped.
# shellcheck disable=SC2034
test_likes=(tool:ccache=ccache tool:clang-format-14=clang-format-14 tool:shellcheck=shellcheck
  py:ensurepip=python3-venv)
# From PyPI: what the tests of GGUF files write them with, and what token ids are compared with. Without these such tests are
# skipped, or compare with digests alone.
python_likes=(gguf==0.19.0 numpy tokenizers==0.23.3)

is_there() {
  local kind=${1%%:*} name=${1#*:}
  name=${name%=*}
  case $kind in
    tool) command -v "${name%% *}" >/dev/null ;;  # CXX may be "ccache g++"
    lib) pkg-config --exists "$name" 2>/dev/null ;;
    py) python3 -c "import $name" 2>/dev/null ;;
  esac
}

# Prints the packages of those entries that are not there.
missing_packages() {
  local entry
  for entry in "$@"; do is_there "$entry" || printf '%s\n' "${entry##*=}"; done
}

# Runs a command as root. With nobody at the keyboard a password prompt would wait for ever.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif [[ -t 0 ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

# Installs packages; apt is heard only when it fails.
apt_install() {
  local quiet=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0) output
  say "installing with apt: $*"
  # A fresh machine or container has no package lists; a mirror that is down does not matter if the lists are there.
  as_root "${quiet[@]}" update >/dev/null 2>&1 || say "apt-get update failed; going on with the lists that are here"
  output=$(as_root "${quiet[@]}" install --yes --no-install-recommends --no-upgrade "$@" 2>&1) && return 0
  say "$output"
  return 1
}

# ensure ENTRY...: installs what is missing. Fails, having said what to install, when something is still missing after that.
ensure() {
  local -a missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then return 0; fi
  if [[ ! -f /etc/debian_version ]] || ! command -v apt-get >/dev/null; then
    say "packages are installed only on Debian and Ubuntu with apt"
  elif ((EUID != 0)) && ! command -v sudo >/dev/null; then
    say "packages cannot be installed: not root, and there is no sudo"
  else
    apt_install "${missing[@]}" || say "apt could not install them"
  fi
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then return 0; fi
  say "still missing, by the names of Debian's packages: ${missing[*]}"
  return 1
}

# Makes an environment of Python with `python_likes` in .cache/python, which meson looks for, unless there is one. Fails, leaving
# nothing, when that cannot be done: without a network, say.
ensure_python() {
  local folder=${root:?}/.cache/python
  if "$folder/bin/python3" -c 'import gguf, numpy, tokenizers' 2>/dev/null; then return 0; fi
  say "installing with pip: ${python_likes[*]}"
  rm -rf "$folder"
  if python3 -m venv "$folder" >/dev/null 2>&1 &&
    "$folder/bin/pip" install --quiet --disable-pip-version-check --timeout 20 --retries 1 "${python_likes[@]}" >/dev/null 2>&1; then
    return 0
  fi
  rm -rf "$folder"
  say "pip could not install them"
  return 1
}

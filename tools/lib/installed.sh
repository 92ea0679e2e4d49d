# shellcheck shell=bash
# What `meson install` has put below a folder, used as somebody else would: README's example, linked with each kind of library,
# and the program. Sourced by tools/test, whose `check`, `fail`, `pass` and `say` it calls.

# installed_below STAGE LOG: counts one result for each.
installed_below() {
  local stage=$1 log=$2 pc program library kind
  pc=$(find "$stage" -name tandem.pc)
  program=$(find "$stage" -type f -name tandem -perm -u+x)
  check "installed: tandem --version" "$log" "$program" --version
  check "installed: tandem run" "$log" "$program" run -n 3 -p Emma
  if [[ -z $pc ]]; then
    fail "no tandem.pc is installed"
    return 0
  fi
  # The files lie below DESTDIR and not in the prefix that they were configured for.
  sed -i "s|^prefix=|prefix=$stage|" "$pc"
  local -x PKG_CONFIG_PATH
  PKG_CONFIG_PATH=$(dirname "$pc")
  check "README's example compiles" "$log" compile_example "$stage"
  if [[ ! -f $stage/example.o ]]; then return 0; fi
  library=$(pkg-config --variable=libdir tandem)
  for kind in shared static; do check "README's example, $kind library" "$log" "${kind}_example" "$stage" "$library" "$program"; done
}

# The first block of C++ in README.md, as it stands there.
# shellcheck disable=SC2154  # root is set in common.sh
example() { awk '/^```cpp$/ && !seen { inside = seen = 1; next } /^```$/ { inside = 0 } inside' "$root/README.md"; }

compile_example() {
  local flags
  flags=$(pkg-config --cflags tandem) || return 1
  example >"$1/example.cpp"
  # shellcheck disable=SC2086  # flags are words
  ${CXX:-c++} -std=c++20 -Wall -Wextra -Werror -c "$1/example.cpp" -o "$1/example.o" $flags
}

shared_example() {
  local flags
  flags=$(pkg-config --libs tandem) || return 1
  # shellcheck disable=SC2086  # flags are words
  ${CXX:-c++} "$1/example.o" -o "$1/example_shared" $flags || return 1
  local -x LD_LIBRARY_PATH=$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  ldd "$1/example_shared" | grep -F "$2/libtandem.so" || return 1
  right_example "$1/example_shared" "$3"
}

# A linker takes the shared library of a folder that has both; this one has the other alone.
static_example() {
  local flags
  mkdir -p "$1/static"
  cp "$2/libtandem.a" "$1/static"
  flags=$(pkg-config --static --libs tandem) || return 1
  # shellcheck disable=SC2086  # flags are words
  ${CXX:-c++} "$1/example.o" -o "$1/example_static" -L"$1/static" $flags || return 1
  right_example "$1/example_static" "$3"
}

# right_example EXAMPLE PROGRAM: it writes what `tandem run` writes, twice, and one line when there is no model.
right_example() {
  local expected found status=0
  expected=$("$2" run -n 16 -p "Emma was" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["text"])') || return 1
  found=$("$1" "$root/tools/models/tiny") || return 1
  if [[ $found != "$expected"$'\n'"$expected" ]]; then
    printf 'expected twice: %s\nfound: %s\n' "$expected" "$found"
    return 1
  fi
  found=$("$1" "$root/tools/models/none" 2>&1) || status=$?
  printf 'without a model, exit code %s: %s\n' "$status" "$found"
  [[ $status == 1 && $found == *tools/models/none* && $found != *$'\n'* ]]
}

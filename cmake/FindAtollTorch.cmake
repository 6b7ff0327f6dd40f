# The lean libtorch of scripts/setup.sh as the target atoll::torch (libtorch's own TorchConfig.cmake insists on CUDA).
# ATOLL_TORCH_DIR names its folder: include/ and lib/ of the PyPI wheel, plus libcudart and libcupti.
if(NOT ATOLL_TORCH_DIR)
  if(DEFINED ENV{ATOLL_CACHE})
    set(_cache $ENV{ATOLL_CACHE})
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(_cache $ENV{XDG_CACHE_HOME}/atoll)
  else()
    set(_cache $ENV{HOME}/.cache/atoll)
  endif()
  set(ATOLL_TORCH_DIR ${_cache}/libtorch-2.11.0 CACHE PATH "libtorch: include/ and lib/" FORCE)
endif()
find_path(AtollTorch_INCLUDE_DIR torch/csrc/api/include/torch/torch.h PATHS ${ATOLL_TORCH_DIR}/include NO_DEFAULT_PATH)
find_library(AtollTorch_CPU torch_cpu PATHS ${ATOLL_TORCH_DIR}/lib NO_DEFAULT_PATH)
find_library(AtollTorch_C10 c10 PATHS ${ATOLL_TORCH_DIR}/lib NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(AtollTorch
  REASON_FAILURE_MESSAGE "no libtorch in ${ATOLL_TORCH_DIR}: run scripts/setup.sh, or set ATOLL_TORCH_DIR"
  REQUIRED_VARS AtollTorch_CPU AtollTorch_C10 AtollTorch_INCLUDE_DIR)
if(AtollTorch_FOUND AND NOT TARGET atoll::torch)
  add_library(atoll::torch INTERFACE IMPORTED)
  target_include_directories(atoll::torch SYSTEM INTERFACE
    ${AtollTorch_INCLUDE_DIR} ${AtollTorch_INCLUDE_DIR}/torch/csrc/api/include)
  target_link_libraries(atoll::torch INTERFACE ${AtollTorch_CPU} ${AtollTorch_C10})
  target_link_options(atoll::torch INTERFACE -Wl,--allow-shlib-undefined)
  if(ATOLL_CUDA)
    # Nothing in the program names a symbol of these two; they register themselves when they are loaded.  They link here without the rest
    # of PyTorch's CUDA libraries (cuDNN, NCCL, cuSPARSELt ...), and start only where those are.
    find_library(AtollTorch_CUDA torch_cuda PATHS ${ATOLL_TORCH_DIR}/lib NO_DEFAULT_PATH REQUIRED)
    find_library(AtollTorch_C10_CUDA c10_cuda PATHS ${ATOLL_TORCH_DIR}/lib NO_DEFAULT_PATH REQUIRED)
    target_link_libraries(atoll::torch INTERFACE -Wl,--push-state,--no-as-needed ${AtollTorch_CUDA} ${AtollTorch_C10_CUDA} -Wl,--pop-state)
  endif()
endif()

# atoll_options: what every target of the project is compiled with.  Link it PUBLIC.
add_library(atoll_options INTERFACE)
target_compile_features(atoll_options INTERFACE cxx_std_20)
target_include_directories(atoll_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
target_compile_options(atoll_options INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    -Wno-missing-field-initializers -Werror>>  # a field that a designated initializer leaves out keeps its default, on purpose
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>>"  # errors name files as the tree does
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>>)
if(ATOLL_SANITIZE)
  target_compile_options(atoll_options INTERFACE  # what UBSan finds ends the test, too
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ATOLL_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  target_link_options(atoll_options INTERFACE -fsanitize=${ATOLL_SANITIZE})
  target_compile_definitions(atoll_options INTERFACE ATOLL_SANITIZED=1)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})  # build/<preset>/atoll, build/<preset>/atoll-link
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # an installed atoll finds libtorch where the built one does

# A compiler cache and a fast linker, where they are installed.
find_program(ATOLL_CCACHE ccache)
if(ATOLL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ATOLL_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ATOLL_CCACHE})
endif()
find_program(ATOLL_MOLD mold)
if(ATOLL_MOLD)
  target_link_options(atoll_options INTERFACE $<BUILD_INTERFACE:$<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>>)
endif()

# atoll_use_torch(TARGET): for the few targets beside inner that include libtorch's headers (benchmarks).  They share inner's
# precompiled header; without it each file costs half a minute.
function(atoll_use_torch target)
  target_link_libraries(${target} PRIVATE atoll::torch)
  target_precompile_headers(${target} REUSE_FROM atoll_inner)
endfunction()

// ATOLL_BOTH before a function: the one text of an operation that the CPU and the CUDA twin share.
#pragma once

#ifdef __CUDACC__
#define ATOLL_BOTH __host__ __device__
#else
#define ATOLL_BOTH
#endif

// ATOLL_CLONES before a function: the compiler makes a version for AVX-512, one for AVX2 and one for any x86-64, and
// the program picks one when it starts.  With -ffp-contract=off and loops whose order of operations is written out, all
// give the same bits.  Empty where the picking does not work: it crashes under sanitizers, and clang and other
// processors have no such thing.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(ATOLL_SANITIZED)
#define ATOLL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ATOLL_CLONES
#endif

// Before a loop: its iterations do not depend on each other, although the compiler cannot see that the spans do not
// overlap.
#if defined(__GNUC__) && !defined(__clang__)
#define ATOLL_INDEPENDENT _Pragma("GCC ivdep")
#else
#define ATOLL_INDEPENDENT
#endif

// Before a function or template that a cloned function calls: a template itself cannot be cloned, so it goes into the
// clones.
#define ATOLL_INLINE inline __attribute__((always_inline))

#!/usr/bin/env python3
"""Orders for permutation_test.cpp, in plain integer arithmetic: Philox4x32-10 and the Feistel network as they are described.

    python3 tests/data/make_permutation_fixtures.py        (Python 3 alone; prints what the test holds)

Written from Salmon et al. (SC 2011), src/base/random.h and src/data/permutation.h, not by calling the program.  Philox is first held to the
published vectors of Random123 (kat_vectors).
"""
M32 = (1 << 32) - 1
STREAM = int.from_bytes(b"permutat", "big")


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & M32, (a >> 32) ^ c[3] ^ k[1], a & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([M32] * 4, [M32] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def words(x):
    return [x & M32, x >> 32]


def permuted(i, n, seed, epoch):
    secret = philox(words(epoch) + words(STREAM), words(seed))
    bits = next(b for b in range(1, 33) if b == 32 or 4**b >= n)
    while True:
        left, right = divmod(i, 2**bits)
        for step in range(8):
            out = philox([right, step, secret[2], secret[3]], secret[:2])
            left, right = right, left ^ (out[0] % 2**bits)
        i = left * 2**bits + right
        if i < n:
            return i


for n, seed, epoch in [(10, 1, 0), (17, 2**63 + 5, 2**32 + 3)]:
    print(n, seed, epoch, [permuted(i, n, seed, epoch) for i in range(n)])
for n in [2**40 + 1, 2**64 - 1]:
    print(n, 7, 2, [permuted(i, n, 7, 2) for i in [0, 1, n - 1]])

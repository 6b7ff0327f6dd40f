#!/usr/bin/env python3
"""Numbers for muon_test.cpp: Muon written from its formulas, in double.

    python3 tests/inner/make_muon_fixtures.py > tests/inner/data/muon.txt      (needs torch; the version is in the first line)

orthogonalised.*: Newton-Schulz of one matrix.  after.*: the parameters after four steps of Muon (matrices of blocks) and torch.optim.AdamW (the
rest) with gradients that follow a formula.  Fused matrices are split here with torch.split and joined again, one optimizer state for each.
"""
import math

import torch

torch.set_default_dtype(torch.float64)
STEPS = [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)]
# settings of muon_test.cpp
WIDTH, HEADS, KV_HEADS, FFN, VOCABULARY, LAYERS = 16, 4, 2, 32, 11, 2
LR, MUON_LR, MOMENTUM, DECAY, CLIP, BETAS, EPS = 1e-2, 0.02, 0.95, 0.1, 0.5, (0.9, 0.99), 1e-8
WARMUP, TOTAL, FINAL, DONE = 2, 6, 0.05, 4


def newton_schulz(g):
    # singular values alone: p(s) = a s + b s^3 + c s^5 five times, on U and V of the decomposition; no matrix product is shared with the C++
    u, s, vt = torch.linalg.svd(g / (torch.linalg.norm(g) + 1e-7), full_matrices=False)
    for a, b, c in STEPS:
        s = a * s + b * s**3 + c * s**5
    return u @ torch.diag(s) @ vt


def value(i, number, step):
    return math.cos(0.37 * (i * i % 1009) + 1.1 * number + 0.6 * step)


def tensor(shape, number, step, scale, offset=0.0):
    data = [scale * value(i, number, step) + offset for i in range(math.prod(shape))]
    return torch.tensor(data).reshape(shape).float().double()  # the test holds them in float


def show(name, values):
    flat = values.detach().flatten().tolist()
    print(name, len(flat), *(repr(v) for v in flat))


def layout():
    d = WIDTH // HEADS
    out = [("embedding", (VOCABULARY, WIDTH), None)]
    for l in range(LAYERS):
        at = f"layers.{l}."
        out += [(at + "attention_norm", (WIDTH,), None), (at + "qkv", ((HEADS + 2 * KV_HEADS) * d, WIDTH), [HEADS * d, KV_HEADS * d, KV_HEADS * d]),
                (at + "q_norm", (d,), None), (at + "k_norm", (d,), None), (at + "attention_out", (WIDTH, WIDTH), [WIDTH]),
                (at + "ffn_norm", (WIDTH,), None), (at + "gate_up", (2 * FFN, WIDTH), [FFN, FFN]), (at + "down", (WIDTH, FFN), [WIDTH])]
    return out + [("final_norm", (WIDTH,), None), ("head", (VOCABULARY, WIDTH), None)]


def factor(step):
    return step / WARMUP if step <= WARMUP else FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (TOTAL - WARMUP)))


def main():
    print("torch", torch.__version__)
    torch.set_num_threads(1)
    for rows, cols in [(8, 8), (5, 12), (12, 5), (1, 7)]:
        show(f"orthogonalised.{rows}x{cols}", newton_schulz(tensor((rows, cols), 3, 1, 0.01)))

    tensors = layout()
    params = {name: tensor(shape, number, 0, 0.3, 1.0 if len(shape) == 1 else 0.0) for number, (name, shape, _) in enumerate(tensors)}
    rest = {name: params[name].clone().requires_grad_(True) for name, _, parts in tensors if parts is None}
    adamw = torch.optim.AdamW([dict(params=[v for v in rest.values() if v.dim() == 2], weight_decay=DECAY),
                               dict(params=[v for v in rest.values() if v.dim() == 1], weight_decay=0.0)], lr=LR, betas=BETAS, eps=EPS)
    matrices = {name: [[w.clone(), torch.zeros_like(w)] for w in params[name].split(parts)] for name, _, parts in tensors if parts}
    for step in range(1, DONE + 1):
        grads = {name: tensor(shape, number, step, 0.01) for number, (name, shape, _) in enumerate(tensors)}
        norm = math.sqrt(sum(float((g * g).sum()) for g in grads.values()))
        for g in grads.values():
            g *= min(1.0, CLIP / (norm + 1e-6))
        for name, value_ in rest.items():
            value_.grad = grads[name]
        for group in adamw.param_groups:
            group["lr"] = LR * factor(step)
        adamw.step()
        lr = MUON_LR * factor(step)
        for name, _, parts in tensors:
            if not parts:
                continue
            for state, g in zip(matrices[name], grads[name].split(parts)):
                w, m = state
                m = MOMENTUM * m + g
                update = newton_schulz(g + MOMENTUM * m) * math.sqrt(g.shape[0] / g.shape[1])
                state[0], state[1] = w - lr * DECAY * w - lr * update, m
    for name, _, parts in tensors:
        show(f"after.{name}", torch.cat([w for w, _ in matrices[name]]) if parts else rest[name])


main()

#!/usr/bin/env python3
"""Numbers for transformer_test.cpp from PyTorch: a plain implementation of the same model, written from the papers alone.

    python3 tests/inner/make_fixtures.py > tests/inner/data/pytorch.txt      (needs torch; the version is in the first line)

Each case: losses and objective before the first step, the gradient of every tensor, the training losses of six steps of AdamW with clip and
a changing learning rate, and the parameters after them.  Weights and tokens follow formulas that the test repeats.
"""
import math

import torch
import torch.nn.functional as F

CASES = {
    "grouped": dict(layers=2, width=16, heads=4, kv_heads=2, ffn=32, context=8, vocabulary=11, tied=False, qk_norm=True),
    "tied": dict(layers=1, width=8, heads=2, kv_heads=2, ffn=16, context=6, vocabulary=7, tied=True, qk_norm=False),
}
Z_LOSS, CLIP, DECAY, BETAS, EPS = 1e-2, 0.5, 0.1, (0.9, 0.99), 1e-8
LR, WARMUP, STEPS, FINAL = 1e-2, 2, 6, 0.05
SEQUENCES = 3


def names_and_shapes(m):
    d = m["width"] // m["heads"]
    out = [("embedding", (m["vocabulary"], m["width"]))]
    for l in range(m["layers"]):
        at = f"layers.{l}."
        out += [(at + "attention_norm", (m["width"],)), (at + "qkv", ((m["heads"] + 2 * m["kv_heads"]) * d, m["width"]))]
        if m["qk_norm"]:
            out += [(at + "q_norm", (d,)), (at + "k_norm", (d,))]
        out += [(at + "attention_out", (m["width"], m["width"])), (at + "ffn_norm", (m["width"],)),
                (at + "gate_up", (2 * m["ffn"], m["width"])), (at + "down", (m["width"], m["ffn"]))]
    out.append(("final_norm", (m["width"],)))
    if not m["tied"]:
        out.append(("head", (m["vocabulary"], m["width"])))
    return out


def initial(m):
    params = {}
    for number, (name, shape) in enumerate(names_and_shapes(m)):
        n = math.prod(shape)
        values = [0.3 * math.sin(0.7 * i + 1.3 * number) + (1.0 if len(shape) == 1 else 0.0) for i in range(n)]
        params[name] = torch.tensor(values, dtype=torch.float64).reshape(shape).float().requires_grad_(True)
    return params


def tokens(m, step):
    window = m["context"] + 1
    return torch.tensor([[(7 * s + 3 * i + i * i + step) % m["vocabulary"] for i in range(window)] for s in range(SEQUENCES)])


def rms_norm(x, weight):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def rotate(x):  # [B, heads, T, d]
    d, length = x.shape[-1], x.shape[-2]
    angle = torch.arange(length, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    cos, sin = angle.cos().float(), angle.sin().float()
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def forward(m, p, ids):
    heads, kv, d = m["heads"], m["kv_heads"], m["width"] // m["heads"]
    x = p["embedding"][ids]
    batch, length, width = x.shape
    mask = torch.full((length, length), float("-inf")).triu(1)
    for l in range(m["layers"]):
        at = f"layers.{l}."
        qkv = rms_norm(x, p[at + "attention_norm"]) @ p[at + "qkv"].T
        q, k, v = qkv.split([heads * d, kv * d, kv * d], -1)
        q = q.view(batch, length, heads, d).transpose(1, 2)
        k = k.view(batch, length, kv, d).transpose(1, 2)
        v = v.view(batch, length, kv, d).transpose(1, 2)
        if m["qk_norm"]:
            q, k = rms_norm(q, p[at + "q_norm"]), rms_norm(k, p[at + "k_norm"])
        q, k = rotate(q), rotate(k)
        k, v = k.repeat_interleave(heads // kv, 1), v.repeat_interleave(heads // kv, 1)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(d) + mask).softmax(-1)
        x = x + (weights @ v).transpose(1, 2).reshape(batch, length, width) @ p[at + "attention_out"].T
        gate, up = (rms_norm(x, p[at + "ffn_norm"]) @ p[at + "gate_up"].T).chunk(2, -1)
        x = x + (F.silu(gate) * up) @ p[at + "down"].T
    return rms_norm(x, p["final_norm"]) @ (p["embedding"] if m["tied"] else p["head"]).T


def losses(m, p, window):
    logits = forward(m, p, window[:, :-1]).flatten(0, 1)
    cross_entropy = F.cross_entropy(logits, window[:, 1:].flatten())
    return cross_entropy, cross_entropy + Z_LOSS * logits.logsumexp(-1).pow(2).mean()


def show(name, values):
    flat = values.detach().flatten().tolist() if torch.is_tensor(values) else list(values)
    print(name, len(flat), *(repr(v) for v in flat))


def main():
    print("torch", torch.__version__)
    torch.set_num_threads(1)
    for case, m in CASES.items():
        p = initial(m)
        decays = [v for v in p.values() if v.dim() > 1]
        rest = [v for v in p.values() if v.dim() == 1]
        optimizer = torch.optim.AdamW([dict(params=decays, weight_decay=DECAY), dict(params=rest, weight_decay=0.0)], lr=LR, betas=BETAS, eps=EPS)
        trained = []
        for step in range(1, STEPS + 1):
            cross_entropy, objective = losses(m, p, tokens(m, step))
            optimizer.zero_grad()
            objective.backward()
            if step == 1:
                show(f"{case}.loss", [cross_entropy.item(), objective.item()])
                for name, value in p.items():
                    show(f"{case}.gradient.{name}", value.grad)
            trained.append(cross_entropy.item())
            torch.nn.utils.clip_grad_norm_(p.values(), CLIP)
            lr = LR * step / WARMUP if step <= WARMUP else LR * (FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))))
            for group in optimizer.param_groups:
                group["lr"] = lr
            optimizer.step()
        show(f"{case}.trained", trained)
        for name, value in p.items():
            show(f"{case}.after.{name}", value)


main()

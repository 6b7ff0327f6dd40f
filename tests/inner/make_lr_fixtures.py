#!/usr/bin/env python3
"""Learning rates for config_test.cpp from torch.optim.lr_scheduler.

    python3 tests/inner/make_lr_fixtures.py > tests/inner/data/learning_rate.txt      (needs torch; the version is in the first line)

A line: name, how many, then lr of steps 1 .. total + 3.  PyTorch's schedulers count from 0, ours from 1 and the peak comes at step `warmup`.
"""
import torch
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR

PEAK, WARMUP, TOTAL, FINAL, DECAY = 0.004, 5, 40, 0.05, 0.25  # of config_test.cpp


def rates(schedulers, milestones):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=PEAK)
    scheduler = SequentialLR(optimizer, [make(optimizer) for make in schedulers], milestones)
    out = []
    for _ in range(TOTAL):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return out + out[-1:] * 3  # past the end: as the last


def show(name, values):
    print(name, len(values), *map(repr, values))


def main():
    print("torch", torch.__version__)

    def warm(o):  # steps 1 .. WARMUP: PEAK * step / WARMUP
        return LinearLR(o, start_factor=1 / WARMUP, end_factor=1.0, total_iters=WARMUP - 1)

    def stable(o):
        return ConstantLR(o, factor=1.0, total_iters=0)

    cosine_steps = TOTAL - WARMUP
    decay_steps = round(DECAY * TOTAL)
    # At its milestone SequentialLR starts a scheduler at its step 0, the peak: one step early for ours, so warm-up loses its last step to it.
    show("cosine", rates([warm, lambda o: CosineAnnealingLR(o, cosine_steps, eta_min=FINAL * PEAK)], [WARMUP - 1]))
    show("constant", rates([warm, stable], [WARMUP - 1]))
    show("wsd", rates([warm, stable, lambda o: LinearLR(o, 1.0, FINAL, decay_steps)], [WARMUP - 1, TOTAL - decay_steps - 1]))


main()

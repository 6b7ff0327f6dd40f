#!/usr/bin/env python3
"""Arms of methods and codecs, paired seeds, `atoll simulate`; a table with intervals, and which published signs were found.

    experiments/methods/run.py [--seeds 1,2,3] [--arms NAME,...] [--out runs/methods] [--table]

Runs what is missing, seed by seed, so that an interrupted run can go on; --table only reads.  Writes results.csv and
prints Markdown.  The last line is gap=: the worst codec's held-out loss above fp32's, in percent (topk: with feedback).
"""
import argparse, csv, json, math, os, pathlib, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
T_975 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}  # Student's t, n - 1 degrees

DILOCO = {"run.method": "diloco"}


def codec(name, **more):
    return {**DILOCO, "comm.codec": name, **{k.replace("__", "."): v for k, v in more.items()}}


ARMS = {
    "ddp": {"run.method": "ddp"},
    "diloco": DILOCO,
    "bf16": codec("bf16"),
    "fp16": codec("fp16"),
    "int8": codec("int8"),
    "int8_codebook": codec("int8_codebook"),
    "e3m0": codec("e3m0"),
    "e3m0 mean bf16": codec("e3m0", comm__mean_codec="bf16"),
    "e3m0 feedback 1": codec("e3m0", comm__error_feedback=1.0),
    "int4": codec("int4"),
    "stat4": codec("stat4"),
    "stat2": codec("stat2"),
    "stat2 mean bf16": codec("stat2", comm__mean_codec="bf16"),
    "topk": codec("topk"),
    "topk feedback 0.95": codec("topk", comm__error_feedback=0.95),
    "sparseloco": {"run.method": "sparseloco"},
    "sparseloco no feedback": {"run.method": "sparseloco", "comm.error_feedback": 0.0},
    "tau 1": {**DILOCO, "outer.delay": 1},
    "tau 5": {**DILOCO, "outer.delay": 5},
    "tau 10": {**DILOCO, "outer.delay": 10},
    "tau 1 alpha 0.5": {**DILOCO, "outer.delay": 1, "outer.mix": 0.5},
    "tau 5 alpha 0.5": {**DILOCO, "outer.delay": 5, "outer.mix": 0.5},
    "tau 10 alpha 0.5": {**DILOCO, "outer.delay": 10, "outer.mix": 0.5},
    "tau 10 corrected": {"run.method": "delay_corrected", "outer.delay": 10},
    "P 3": {**DILOCO, "outer.fragments": 3},
    "streaming": {"run.method": "streaming"},
    "delayed": {"run.method": "delayed"},
    "eager": {"run.method": "eager"},
    "heavy ball": {**DILOCO, "outer.optimizer": "heavy_ball"},
    "sgd eta 1": {"run.method": "local_sgd"},
    "adam eta 0.003": {**DILOCO, "outer.optimizer": "adam", "outer.lr": 0.003},
    "adam eta 0.01": {**DILOCO, "outer.optimizer": "adam", "outer.lr": 0.01},
    "nesterov 0.4": {**DILOCO, "outer.lr": 0.4},
    "heavy ball 0.4": {**DILOCO, "outer.optimizer": "heavy_ball", "outer.lr": 0.4},
    "eager 0.4": {"run.method": "eager", "outer.lr": 0.4},
    "delayed 0.4": {"run.method": "delayed", "outer.lr": 0.4},
    "muloco": {"run.method": "muloco"},
    "mu 0.6": {**DILOCO, "outer.momentum": 0.6},
}

# (better arm, worse arm, what was published)
SIGNS = [
    ("topk feedback 0.95", "topk", "top-k without error feedback hurts [2508.15706]"),
    ("sparseloco", "sparseloco no feedback", "the same, with the plain mean outside [2508.15706]"),
    ("eager", "delayed", "eager beats one round late [2502.12996]"),
    ("diloco", "delayed", "one round late costs [2502.12996]"),
    ("tau 10 alpha 0.5", "tau 10", "mixing helps a late answer [2501.18512]"),
    ("tau 10 corrected", "tau 10", "keeping the steps since the send helps [2605.20866]"),
    ("diloco", "sgd eta 1", "Nesterov beats the plain mean [2311.08105]"),
    ("diloco", "heavy ball", "Nesterov beats heavy ball [2311.08105]"),
    ("diloco", "adam eta 0.003", "Nesterov beats Adam outside [2311.08105]"),
    ("stat4", "int4", "a statistical codebook beats linear 4 bits [2505.23725]"),
    ("muloco", "diloco", "Muon inside beats AdamW [2505.23725]"),
]
CODECS = ["bf16", "fp16", "int8", "int8_codebook", "e3m0", "int4", "stat4", "stat2", "topk feedback 0.95"]


def folder(out, arm, seed):
    return out / f"{arm.replace(' ', '_')}-seed{seed}"


def summary(path):
    file = path / "summary.json"
    if not file.exists():
        return None
    read = json.loads(file.read_text())
    return read if read.get("status") == "finished" else None


def run(atoll, data, out, arm, seed):
    where = folder(out, arm, seed)
    if summary(where):
        return
    command = [atoll, "simulate", str(HERE / "base.toml"), "--out", str(where), "--overwrite", "--quiet", "--log-level",
               "warn", "--set", f"data.path={data}", "--set", f"run.seed={seed}", "--set",
               f"run.name={where.name}"]
    for key, value in ARMS[arm].items():
        command += ["--set", f"{key}={value}"]
    print("run", arm, "seed", seed, flush=True)
    if subprocess.run(command).returncode != 0:
        print("FAILED:", " ".join(command), flush=True)


def interval(values):
    n, mean = len(values), sum(values) / len(values)
    if n < 2:
        return mean, math.nan
    return mean, T_975[n] * math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)


def table(out, seeds):
    losses, bytes_ = {}, {}
    for arm in ARMS:
        for seed in seeds:
            if read := summary(folder(out, arm, seed)):
                losses.setdefault(arm, {})[seed] = read["eval_loss"] if read["eval_loss"] is not None else math.inf
                bytes_[arm] = read["payload_bytes_per_site"]
    if not losses:
        sys.exit("nothing has been run yet")
    with open(HERE / "results.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["arm", "seed", "eval_loss", "payload_bytes_per_site"])
        for arm, of in losses.items():
            for seed, loss in of.items():
                rows.writerow([arm, seed, f"{loss:.6f}", bytes_[arm]])

    def paired(a, b):
        return [losses[a][s] - losses[b][s] for s in losses.get(a, {}) if s in losses.get(b, {})]

    print("| arm | held-out loss | above diloco, 95 % interval | payload bytes a site |\n|---|---|---|---|")
    for arm, of in losses.items():
        mean, half = interval(paired(arm, "diloco"))
        loss = sum(of.values()) / len(of)
        note = "" if arm == "diloco" else f"{mean:+.4f} ± {half:.4f} ({100 * mean / (loss - mean):+.2f} %)"
        print(f"| {arm} | {loss:.4f} ({len(of)}) | {note} | {bytes_[arm] / 1e6:.2f} MB |")
    print("\n| published | difference here | sign found |\n|---|---|---|")
    for better, worse, words in SIGNS:
        if not paired(worse, better):
            continue
        mean, half = interval(paired(worse, better))
        found = "yes" if mean - half > 0 else "no, the opposite" if mean + half < 0 else "not decided"
        print(f"| {words}: {better} / {worse} | {mean:+.4f} ± {half:.4f} | {found} |")
    gaps = [100 * interval(paired(c, "diloco"))[0] / (sum(losses["diloco"].values()) / len(losses["diloco"]))
            for c in CODECS if paired(c, "diloco")]
    if gaps:
        print(f"gap={max(gaps):.3f}")


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--seeds", default="1,2,3")
    words.add_argument("--arms", default=",".join(ARMS))
    words.add_argument("--out", type=pathlib.Path, default=ROOT / "runs" / "methods")
    words.add_argument("--table", action="store_true")
    args = words.parse_args()
    seeds = [int(seed) for seed in args.seeds.split(",")]
    if not args.table:
        cache = os.environ.get("ATOLL_CACHE") or os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "atoll")
        data = os.path.join(cache, "data", "shakespeare-bytes")
        if not os.path.exists(data):
            sys.exit(f"{data} is not there: scripts/quickstart.sh --short makes it")
        atoll = os.environ.get("ATOLL", str(ROOT / "build" / "release" / "atoll"))
        for seed in seeds:
            for arm in args.arms.split(","):
                run(atoll, data, args.out, arm, seed)
    table(args.out, seeds)


main()

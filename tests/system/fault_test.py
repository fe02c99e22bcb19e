"""Faults at random moments of a training on a cluster: each reported with its cause and mended, losses as if nothing had
happened, nothing left over.

usage: fault_test.py NESTOR [FAULTS] [SEED]        60 faults take about six minutes
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from cluster_test import PROGRAM, TRAIN, Cluster, shared_memory
from nestor_cli import environment, gone, metrics, same

FAULTS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())

# What is done to whom, and what must be said of it.
KINDS = {
    "worker killed": ("worker", signal.SIGKILL, "signal 9"),
    "worker stopped": ("worker", signal.SIGSTOP, "silent"),
    "worker aborts": ("worker", signal.SIGABRT, "signal 6"),
    "worker exits 0 in mid-step": ("worker", signal.SIGTERM, "exit code 0"),
    "agent killed": ("agent", signal.SIGKILL, "signal 9"),
    "agent stopped": ("agent", signal.SIGSTOP, "silent"),
    "client killed": ("client", signal.SIGKILL, None),
}


def memory(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def wait_for(what, cluster, condition, limit=60):
    deadline = time.monotonic() + limit
    while True:
        status = cluster.json("status")
        if condition(status):
            return status
        assert time.monotonic() < deadline, f"{what}: {status}\n{cluster.logs()}"


def main():
    draw = random.Random(SEED)
    print(f"seed {SEED}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cluster = Cluster(folder, 3)
        before = shared_memory()
        (folder / "config.yaml").write_text(TRAIN.replace("steps: 8", "steps: 1000000").replace("stages: 2", "stages: 3")
                                            .replace("checkpoint_every: 2", "checkpoint_every: 20")
                                            # Rounding grows over thousands of steps: by 1e13 with a hundred times the rate.
                                            .replace("lr: 1.0e-3", "lr: 1.0e-5"))
        cluster.run("up", "lab.yaml")
        pids = set(cluster.pids())
        head = next(row["pid"] for row in cluster.json("list", "actors") if row["kind"] == "head")
        client = cluster.start("train", "config.yaml", "--cluster")
        sizes, files, delays, counts = [], [], [], {}
        try:
            for number in range(FAULTS):
                kind = list(KINDS)[number % len(KINDS)] if number < len(KINDS) else draw.choice(list(KINDS))
                victim_kind, how, cause = KINDS[kind]
                counts[kind] = counts.get(kind, 0) + 1
                status = wait_for("running again", cluster, lambda s: s["state"] == "running" and s["alive"] == 3)
                begun = status["step"]
                ahead = draw.randrange(1, 30)
                status = wait_for("a few steps", cluster, lambda s: s["step"] >= begun + ahead or s["step"] < begun)
                rows = [row for row in cluster.json("list", "actors") if row["kind"] == victim_kind]
                known = len(status["faults"])
                started = time.time()
                if victim_kind == "client":
                    client.kill()
                    client.communicate()
                    wait_for("the job to go on", cluster, lambda s: s["step"] > status["step"])
                    continue
                victim = draw.choice(rows)
                os.kill(victim["pid"], how)
                status = wait_for(kind, cluster, lambda s: len(s["faults"]) > known, 20)
                told = [fault for fault in status["faults"][known:] if fault["actor"] == victim["name"]]
                assert told and cause in told[0]["cause"] and told[0]["pid"] == victim["pid"], (kind, victim, status["faults"][known:])
                delays.append((told[0]["unix_ms"] / 1000 - started, kind))  # this host's clock in both
                pids.add(victim["pid"])
                sizes.append(memory(head))
                files.append(descriptors(head))
                print(f"{number + 1:3d} {kind}: {told[0]['actor']} after step {told[0]['step']}: {told[0]['cause']} "
                      f"({delays[-1][0]:.2f} s)", flush=True)
            wait_for("running at the end", cluster, lambda s: s["state"] == "running" and s["alive"] == 3)
            pids |= set(cluster.pids())
        finally:
            cluster.run("down")
            if client.poll() is None:
                client.communicate(timeout=60)
        gone(pids - {0})
        done = metrics(folder / "run")
        subprocess.run([PROGRAM, "train", "config.yaml", "--set", "run.dir=embedded", "--set", f"run.steps={len(done)}"],
                       cwd=folder, env=environment(), check=True, capture_output=True)
        same(metrics(folder / "embedded"), done)
        assert shared_memory() <= before, shared_memory() - before
        listening = subprocess.run(["ss", "-ltnp"], capture_output=True, text=True).stdout
        assert not any(f"pid={pid}," in listening for pid in pids), listening
        half = len(sizes) // 2
        if half >= 5:
            early, late = sum(sizes[half - 5:half]) / 5, sum(sizes[-5:]) / 5
            print(f"the head's memory {early / 1024:.1f} -> {late / 1024:.1f} MiB, descriptors {files[half]} -> {files[-1]}")
            assert late < 1.1 * early + 4096, sizes
            assert files[-1] <= files[half] + 8, files
        print(f"{FAULTS} faults, {len(done)} steps, losses equal; told after at most {max(delays)[0]:.2f} s ({max(delays)[1]})")
        print(", ".join(f"{kind}: {count}" for kind, count in counts.items()))


main()

"""A training on a cluster for a while, its pools resized again and again: memory and descriptors of every process stay flat.

usage: soak.py NESTOR [MINUTES]        not part of CTest; 20 minutes unless said otherwise
"""
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

from cluster_test import TRAIN, Cluster
from nestor_cli import metrics

MINUTES = float(sys.argv[2]) if len(sys.argv) > 2 else 20


def figures(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return resident / 1024, len(os.listdir(f"/proc/{pid}/fd"))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cluster = Cluster(folder, 3)
        (folder / "config.yaml").write_text(TRAIN.replace("steps: 8", "steps: 100000000").replace("stages: 2", "stages: 3")
                                            .replace("checkpoint_every: 2", "checkpoint_every: 500"))
        cluster.run("up", "lab.yaml")
        processes = {row["name"]: row["pid"] for row in cluster.json("list", "actors")}
        job = cluster.start("train", "config.yaml", "--cluster")
        drain = threading.Thread(target=lambda: [None for _ in job.stderr])
        drain.start()
        history, resizes = [], 0
        try:
            while cluster.json("status")["step"] < 200:
                assert job.poll() is None
            wake = threading.Event()
            end = time.monotonic() + 60 * MINUTES
            while time.monotonic() < end:
                for pool, size in ("vision", 1), ("image", 3), ("vision", 3), ("image", 2), ("vision", 2):
                    cluster.run("resize", pool, size)
                    resizes += 1
                    wake.wait(3)  # steps between resizes
                history.append({name: figures(pid) for name, pid in processes.items()})
            status = cluster.json("status")
        finally:
            job.send_signal(signal.SIGINT)
            drain.join()
            job.wait()
            cluster.run("down")
        assert status["faults"] == [], status["faults"]
        lines = metrics(folder / "run")
        assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
        assert len({(line["samples"]) for line in lines}) == 1, "a step lost or doubled a microbatch"
        print(f"{MINUTES:g} minutes, {len(lines)} steps, {resizes} resizes")
        for process in processes:
            sizes = [row[process][0] for row in history]
            files = [row[process][1] for row in history]
            fifth = max(1, len(sizes) // 5)
            early, late = sum(sizes[fifth:2 * fifth]) / fifth, sum(sizes[-fifth:]) / fifth
            print(f"  {process}: {early:.1f} -> {late:.1f} MiB ({late / early - 1:+.1%}), descriptors {files[0]} -> {files[-1]}")
            assert late <= 1.05 * early + 2, (process, sizes)
            assert files[-1] <= files[0] + 4, (process, files)


main()

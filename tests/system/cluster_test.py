"""A cluster of processes on this host, as a user runs it: up, train, status, list, resize, faults, down.

usage: cluster_test.py NESTOR
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from nestor_cli import CONFIG, environment, gone, metrics, run_cases, same

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
CLUSTER = """format: nestor.cluster/1
name: {name}
head: {{host: 127.0.0.1, port: 0}}
hosts:
  - {{host: 127.0.0.1, lanes: {lanes}}}
launch: local
"""
TRAIN = CONFIG.replace("steps: 3", "steps: 8").replace("checkpoint_every: 0", "checkpoint_every: 2, dtype: float64")


class Cluster:
    def __init__(self, folder, lanes, name="lab"):
        self.folder = folder
        self.home = folder / "home"
        self.name = name
        self.variables = {}
        (folder / f"{name}.yaml").write_text(CLUSTER.format(name=name, lanes=lanes))
        (folder / "config.yaml").write_text(TRAIN)

    def environment(self):
        return {**environment(), "NESTOR_HOME": str(self.home), **self.variables}

    def run(self, *arguments, code=0, timeout=120):
        done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              timeout=timeout, env=self.environment())
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "--format", "json").stdout)

    def logs(self):
        return "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.home.glob("*/logs/*")))

    def pids(self):
        return [row["pid"] for row in self.json("list", "actors")]

    def workers(self):
        return {row["lane"]: row for row in self.json("list", "actors") if row["kind"] == "worker"}

    def train_to(self, step, job):
        """Waits until the job, a client of it, has done so many steps."""
        while self.json("status")["step"] < step:
            assert job.poll() is None, (job.communicate(), self.logs())

    def start(self, *arguments):
        return subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.folder, env=self.environment(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def shared_memory():
    return set(os.listdir("/dev/shm"))


def life(folder):
    cluster = Cluster(folder, 2)
    before = shared_memory()
    reference = subprocess.run([PROGRAM, "train", "config.yaml", "--set", "run.dir=embedded"], cwd=folder,
                               env=environment(), capture_output=True, text=True)
    assert reference.returncode == 0, reference.stderr
    cluster.run("up", "lab.yaml")
    again = cluster.run("up", "lab.yaml")
    assert "runs already" in again.stderr, again.stderr
    pids = cluster.pids()
    states = {row["name"]: row["state"] for row in cluster.json("list", "actors")}
    assert set(states.values()) == {"ALIVE"} and {"cluster", "agent0", "lane0", "lane1"} <= set(states), states
    cluster.run("train", "config.yaml", "--cluster")
    same(metrics(folder / "embedded"), metrics(folder / "run"))
    status = cluster.json("status")
    assert status["state"] == "done" and status["step"] == 8 and status["faults"] == [], status
    log = cluster.run("logs", "head").stdout
    assert "[job]" in log and "8 steps" in log and "ended with exit code 0" in log, log
    refused = cluster.run("train", "config.yaml", "--cluster", code=2)
    assert "--resume" in refused.stderr, refused.stderr
    assert cluster.json("status") == status, "a job that was refused does not hide the one before"
    # Nothing secret where others may read it.
    for pid in pids:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        for key in cluster.home.glob("lab/keys/*"):
            assert key.stat().st_mode & 0o077 == 0, key
            assert key.read_text().strip().split()[-1] not in command
    cluster.run("down")
    cluster.run("down")
    gone(pids)
    assert shared_memory() <= before, shared_memory() - before


def faults(folder):
    """A worker killed, stopped, and its agent killed: reported with cause; losses as if nothing had happened."""
    cluster = Cluster(folder, 2)
    (folder / "config.yaml").write_text(TRAIN.replace("steps: 8", "steps: 900").replace("checkpoint_every: 2", "checkpoint_every: 25"))
    subprocess.run([PROGRAM, "train", "config.yaml", "--set", "run.dir=embedded"], cwd=folder, env=environment(),
                   check=True, capture_output=True)
    cluster.run("up", "lab.yaml")
    pids = set(cluster.pids())
    job = cluster.start("train", "config.yaml", "--cluster")
    wanted = [("lane1", signal.SIGKILL, "signal 9"), ("lane0", signal.SIGSTOP, "silent"), ("lane0", signal.SIGABRT, "signal 6"),
              ("agent0", signal.SIGKILL, "signal 9")]
    for number, (victim, how, _) in enumerate(wanted):
        deadline = time.monotonic() + 60
        while True:
            status = cluster.json("status")
            if status["state"] == "running" and status["step"] >= 40 * number + 1 and status["alive"] == 2:
                break
            assert time.monotonic() < deadline and job.poll() is None, f"{status}\n{cluster.logs()}"
        rows = {row["name"]: row for row in cluster.json("list", "actors")}
        pids |= set(row["pid"] for row in rows.values())
        known = len(status["faults"])
        os.kill(rows[victim]["pid"], how)
        while len(cluster.json("status")["faults"]) == known:
            assert time.monotonic() < deadline, cluster.logs()
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, f"{out}\n{err}\n{cluster.logs()}"
    same(metrics(folder / "embedded"), metrics(folder / "run"))
    seen = [(fault["actor"], fault["cause"]) for fault in cluster.json("status")["faults"]]
    for victim, _, cause in wanted:
        assert any(actor == victim and cause in text for actor, text in seen), (victim, cause, seen)
    cluster.run("down")
    gone(pids - {0})


def spare_lanes(folder):
    """A worker that does not come back: the job goes on with the lanes that are left, as long as they are enough."""
    cluster = Cluster(folder, 3)
    cluster.variables["NESTOR_MAX_RESTARTS"] = "1"
    (folder / "config.yaml").write_text(TRAIN.replace("steps: 8", "steps: 1500").replace("checkpoint_every: 2", "checkpoint_every: 25")
                                        .replace("stages: 2", "stages: 2, pools: {vision: [1, 2], image: [2]}"))
    subprocess.run([PROGRAM, "train", "config.yaml", "--set", "run.dir=embedded"], cwd=folder, env=environment(), check=True,
                   capture_output=True)
    cluster.run("up", "lab.yaml")
    job = cluster.start("train", "config.yaml", "--cluster")

    def wear_out(lane):
        """Kills the worker whenever it lives, until it is not started again."""
        deadline = time.monotonic() + 60
        while True:
            row = cluster.workers()[lane]
            if row["state"] == "DEAD":
                return
            if row["state"] == "ALIVE":
                os.kill(row["pid"], signal.SIGKILL)
            assert time.monotonic() < deadline and job.poll() is None, f"{row}\n{cluster.logs()}"

    def runs_beyond(step):
        deadline = time.monotonic() + 60
        while True:
            status = cluster.json("status")
            if status["state"] == "running" and status["step"] > step:
                return status
            assert time.monotonic() < deadline and job.poll() is None, f"{status}\n{cluster.logs()}"

    runs_beyond(30)
    wear_out(0)  # a stage of the LLM lived there
    status = runs_beyond(cluster.json("status")["step"] + 30)
    assert status["alive"] == 2, status
    pools = {row["name"]: row["lanes"] for row in cluster.json("list", "pools")}
    assert pools == {"vision": [1], "image": [1]}, pools
    too_far = cluster.run("resize", "vision", "--lanes", "0,1,2", code=1)
    assert "3 lanes, the cluster has 2" in too_far.stderr, too_far.stderr
    wear_out(2)
    _, err = job.communicate(timeout=60)
    assert job.returncode == 1 and "1 of the 2 lanes that the job needs is alive" in err, err
    assert "the job's lanes 0 to 1 are now lane1, lane2" in err, err
    refused = cluster.run("train", "config.yaml", "--cluster", "--resume", code=2)
    assert "lane0" in refused.stderr and "1 of the 3 lanes" in refused.stderr, refused.stderr
    cluster.run("down")
    cluster.run("up", "lab.yaml")
    cluster.run("train", "config.yaml", "--cluster", "--resume", timeout=240)
    same(metrics(folder / "embedded"), metrics(folder / "run"))
    cluster.run("down")


def icon_runs(folder, steps):
    """The main example in one process, by dtype: its name, what is equal, and the arguments that it was trained with."""
    config = pathlib.Path(__file__).resolve().parents[2] / "examples" / "configs" / "icons.yaml"
    subprocess.run([PROGRAM, "prepare", "icons", "--size", "16", "--held-out-size", "22", "-o", "data"], cwd=folder, check=True,
                   capture_output=True, env=environment())
    for dtype, within in ("float64", 1e-9), ("float32", 1e-4):
        few = (f"data.path={folder}/data", f"run.steps={steps}", f"run.dtype={dtype}", "run.report_samples=0", "run.eval_every=0",
               "run.trace_every=0")
        arguments = [config, *(word for setting in few for word in ("--set", setting))]
        done = subprocess.run([PROGRAM, "train", *arguments, "--set", f"run.dir={folder}/{dtype}"], cwd=folder, env=environment(),
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        yield dtype, within, arguments


def icons(folder):
    """The main example on 2, 3 and 4 worker processes gives the losses of one process."""
    for dtype, within, arguments in icon_runs(folder, 20):
        for lanes in 2, 3, 4:
            cluster = Cluster(folder, lanes)
            cluster.run("up", "lab.yaml")
            cluster.run("train", *arguments, "--cluster", "--set", f"schedule.stages={lanes}", "--set", f"run.dir={folder}/{dtype}{lanes}")
            cluster.run("down")
            same(metrics(folder / dtype), metrics(folder / f"{dtype}{lanes}"), within)


def resizing(folder):
    cluster = Cluster(folder, 3)
    (folder / "config.yaml").write_text(TRAIN.replace("steps: 8", "steps: 500").replace("stages: 2", "stages: 3"))
    subprocess.run([PROGRAM, "train", "config.yaml", "--set", "run.dir=embedded"], cwd=folder, env=environment(),
                   check=True, capture_output=True)
    cluster.run("up", "lab.yaml")
    job = cluster.start("train", "config.yaml", "--cluster", "lab", "--set", "schedule.pools={vision: 1}")
    for size in 3, 2:
        while cluster.json("status")["state"] != "running":
            assert job.poll() is None, job.communicate()
        cluster.run("resize", "vision", size)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    pools = {row["name"]: row for row in cluster.json("list", "pools")}
    assert pools["vision"]["size"] == 2, pools
    same(metrics(folder / "embedded"), metrics(folder / "run"))
    cluster.run("down")


def the_heads_end(folder):
    """The head killed: nothing is left, and the run goes on after another `up`."""
    cluster = Cluster(folder, 2)
    (folder / "config.yaml").write_text(TRAIN.replace("steps: 8", "steps: 400"))
    cluster.run("up", "lab.yaml")
    pids = cluster.pids()
    job = cluster.start("train", "config.yaml", "--cluster")
    cluster.train_to(5, job)
    head = next(row["pid"] for row in cluster.json("list", "actors") if row["kind"] == "head")
    os.kill(head, signal.SIGKILL)
    _, err = job.communicate(timeout=60)
    assert job.returncode == 1 and "head" in err, err
    gone(pids)
    cluster.run("up", "lab.yaml")
    cluster.run("train", "config.yaml", "--cluster", "--resume", "--set", "run.steps=12")
    assert [line["step"] for line in metrics(folder / "run")] == list(range(1, len(metrics(folder / "run")) + 1))
    cluster.run("down")


def two_clusters(folder):
    one, two = Cluster(folder, 1, "one"), Cluster(folder, 1, "two")
    one.run("up", "one.yaml")
    two.run("up", "two.yaml")
    ambiguous = one.run("status", code=2)
    assert "one" in ambiguous.stderr and "two" in ambiguous.stderr, ambiguous.stderr
    one.run("down", "one")
    assert two.json("status", "--cluster", "two")["alive"] == 1
    two.run("down", "two")
    nothing = one.run("status", code=2)
    assert "nestor up" in nothing.stderr, nothing.stderr


def damaged(folder):
    """Files that are gone or damaged under a head that lives: nothing is written over, and `down` still ends it."""
    cluster = Cluster(folder, 1)
    lab = cluster.home / "lab"
    for damage in "gone", "cut", "empty", "readable", "key":
        cluster.run("up", "lab.yaml")
        pids = cluster.pids()
        state, key = lab / "state.json", lab / "keys" / "client"
        if damage == "gone":
            state.unlink()
        elif damage == "cut":
            state.write_text('{"head": ')
        elif damage == "empty":
            state.write_text("{}")
        elif damage == "readable":
            state.chmod(0o644)
        else:
            key.write_text("garbage")
        before = {path.name: path.read_bytes() for path in (lab / "keys").iterdir()}
        if damage != "key":
            again = cluster.run("up", "lab.yaml", code=1)
            assert "its head lives" in again.stderr and "nestor down lab" in again.stderr, again.stderr
        assert before == {path.name: path.read_bytes() for path in (lab / "keys").iterdir()}, damage
        done = cluster.run("down", *(["lab"] if damage in ("cut", "key") else []))
        assert "lab: down" in done.stderr, (damage, done.stderr)
        gone(pids)
    (lab / "state.json").write_text("of one that has ended, and damaged")
    cluster.run("up", "lab.yaml")
    cluster.run("down")


def foreground(folder):
    cluster = Cluster(folder, 1)
    process = cluster.start("up", "lab.yaml", "--foreground")
    for line in process.stderr:
        if "ALIVE" in line:
            break
    pids = cluster.pids()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130, process.returncode
    gone(pids)


def down(folder):
    for name in "lab", "one", "two":
        subprocess.run([PROGRAM, "down", name], env={**environment(), "NESTOR_HOME": str(folder / "home")},
                       capture_output=True)


if __name__ == "__main__":
    run_cases([life, two_clusters, damaged, foreground, icons, resizing, faults, spare_lanes, the_heads_end], down)

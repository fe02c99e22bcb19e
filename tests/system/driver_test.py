"""The driver as a user runs it: scripts on an embedded job and on a cluster's, several drivers, one that is killed.

usage: driver_test.py NESTOR [CASE...]
"""
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import time

from nestor_cli import CONFIG, environment, metrics, run_cases, same

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
TRAIN = CONFIG.replace("steps: 3", "steps: 6").replace("checkpoint_every: 0", "checkpoint_every: 0, dtype: float64")
CLUSTER = """format: nestor.cluster/1
name: lab
head: {host: 127.0.0.1, port: 0}
hosts:
  - {host: 127.0.0.1, lanes: 2}
launch: local
"""


STARTED = []  # what a case leaves behind when it fails


class Home:
    """A folder with a config, a cluster file, and clusters of its own."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "config.yaml").write_text(TRAIN)
        (folder / "lab.yaml").write_text(CLUSTER)

    def environment(self):
        return {**environment(), "NESTOR_HOME": str(self.folder / "home")}

    def run(self, *arguments, code=0, script=""):
        done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.folder, input=script, capture_output=True,
                              text=True, timeout=120, env=self.environment())
        assert done.returncode == code, f"{arguments}: exit {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
        return done

    def driver(self, script, *arguments, code=0):
        return self.run("driver", *arguments, code=code, script="\n".join(script) + "\n")

    def reference(self, *more):
        self.run("train", "config.yaml", "--set", "run.dir=reference", *more)
        return metrics(self.folder / "reference")

    def status(self):
        return json.loads(self.run("status", "--format", "json").stdout)


def until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what


def embedded(folder):
    home = Home(folder)
    reference = home.reference()
    done = home.driver(["# a comment", "help", "help resize", "status", "step 2", "plan", "policy coupled", "step",
                        "resize vision 1", "resize image 0,1", "step", "trace 'step five.json'", "checkpoint",
                        "loss", "loss text", "actors", "faults", "nodes", "set run.steps = 7", "run", "history", "quit",
                        "never reached"], "config.yaml")
    same(reference, metrics(folder / "run")[:6])
    assert len(metrics(folder / "run")) == 7 and (folder / "run/checkpoints/step-7").is_dir()
    for text in ("step 2: loss", "policy coupled from the next step on", "pool vision: on lane 0 from", "makespan",
                 "resize POOL N|LANES", "paused", "step five.json", "saved", "all 7 steps are done", "lane0", "report",
                 "│"):
        assert text in done.stdout, (text, done.stdout)
    assert "never" not in done.stderr and done.stderr.count("nestor:") == 0, done.stderr
    trace = json.loads((folder / "step five.json").read_text())
    assert any("vision" in event.get("name", "") for event in trace["traceEvents"]), list(trace)
    (folder / "run/config.yaml").read_text().index("steps: 7")
    done = home.driver(["step", "stop", "never"], "config.yaml", "--overwrite")
    assert len(metrics(folder / "run")) == 1 and "never" not in done.stderr, done.stderr


def bad_lines(folder):
    home = Home(folder)
    arguments = ["config.yaml", "--overwrite"]
    for line, code, words in [("stpe 3", 2, "did you mean step?"), ("step zero", 2, "zero"), ("step 0", 2, "1 or more"),
                              ("step 1 2", 2, "step"), ("policy", 2, "policy nested"), ("policy nosuch", 2, "nosuch"),
                              ("resize nosuch 1", 2, "vision"), ("resize vision 0", 2, "members"),
                              ("resize vision 0,x", 2, "x"), ("set run.seed=2", 2, "run.seed"),
                              ("set run.steps=minus", 2, "run.steps"), ("set run.steps", 2, "KEY=VALUE"),
                              ("say \"hello", 2, "quote"), ("plan", 2, "step"), ("trace step.txt", 2, ".json"),
                              ("trace no/such/folder/a.json", 2, "no/such"), ("checkpoint", 1, "no step"),
                              ("generate --nosuch", 2, "generate"), ("loss", 2, "no step"), ("call", 2, "call counter add 5"), ("call a add 1", 2, "--cluster")]:
        done = home.driver(["status", line, "never"], *arguments, code=code)
        errors = [text for text in done.stderr.splitlines() if text.startswith("nestor:")]
        assert len(errors) == 1, (line, done.stderr)
        assert errors[0].startswith("nestor: driver:2: ") and words in errors[0], (line, done.stderr)
    done = home.driver(["nosuch", "step", "policy nosuch", "step"], "--keep-going", *arguments, code=2)
    assert "driver:1:" in done.stderr and "driver:3:" in done.stderr and "step 2: loss" in done.stdout, done
    for refused in (["nosuch.yaml"], ["--set", "run.steps=3"], [], ["--cluster", "nosuch"]):
        done = home.driver(["status"], *refused, code=2)
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("nestor: "), done.stderr


def cluster_script(folder):
    """Policy and pools changed between steps: the losses are those of an undisturbed run."""
    home = Home(folder)
    reference = home.reference()
    home.run("up", "lab.yaml")
    nothing = home.driver(["step"], "--cluster", "lab", code=1)
    assert "driver:1: " in nothing.stderr and "trains nothing" in nothing.stderr, nothing.stderr
    home.driver(["step 2", "policy coupled", "step", "resize vision 1", "policy nested", "step", "checkpoint",
                 "resize image 1 0", "trace five.html"], "config.yaml", "--cluster")
    status = home.status()  # it waits, without a driver
    assert status["state"] == "paused" and status["step"] == 5 and status["pools"]["image"] == [1, 0], status
    assert (folder / "run/checkpoints/step-4").is_dir() and (folder / "five.html").stat().st_size > 1000
    beyond = home.driver(["resize vision 7,8"], code=1)
    assert "2" in beyond.stderr, beyond.stderr
    again = home.driver(["step"], "config.yaml", "--cluster", code=1)
    assert "trains already" in again.stderr, again.stderr
    done = home.driver(["step", "nodes", "actors", "plan", "loss", "faults", "run", "status"])
    for text in ("step 6: loss", "agent0", "lane1", "makespan", "0 faults", "done"):
        assert text in done.stdout, (text, done.stdout)
    same(reference, metrics(folder / "run"))
    assert home.status()["state"] == "done"
    ended = home.driver(["step"], code=1)
    assert "ended" in ended.stderr, ended.stderr
    stopped = home.driver(["step 2", "stop"], "config.yaml", "--cluster", "--overwrite")
    assert "saves and ends" in stopped.stdout, stopped.stdout
    until(lambda: home.status()["state"] == "stopped", "stopped from a driver")
    assert (folder / "run/checkpoints/step-2").is_dir()
    home.run("down")


def two_drivers(folder):
    """Each sees what the other did; one is killed while its steps run, and the job goes on."""
    home = Home(folder)
    home.run("up", "lab.yaml")
    start = [PROGRAM, "driver", "--cluster", "lab"]
    one = subprocess.Popen([*start, "config.yaml", "--set", "run.steps=100000"], cwd=folder, env=home.environment(),
                           text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    STARTED.append(one)
    one.stdin.write("step\nresize vision 1\n")
    one.stdin.flush()
    until(lambda: home.status()["pools"].get("vision") == [0], "the first driver's change")
    other = home.driver(["status", "policy coupled", "step 2"])
    assert "pool vision: 1 on lane 0" in other.stdout and "step 3: loss" in other.stdout, other.stdout
    one.stdin.write("run\n")
    one.stdin.flush()
    until(lambda: home.status()["step"] > 10, "steps of the first driver's")
    one.send_signal(signal.SIGKILL)
    seen, _ = one.communicate()
    assert "policy coupled from the next step on" in seen, seen  # what the other one did
    step = home.status()["step"]
    until(lambda: home.status()["step"] > step, "the job going on")
    paused = home.driver(["pause", "status"])
    assert "paused after step" in paused.stdout and "policy coupled" in paused.stdout, paused.stdout
    home.run("down")


def at_a_terminal(folder):
    """Prompt, completion, history; Ctrl-C pauses; the end of input leaves."""
    home = Home(folder)
    terminal, end = pty.openpty()
    driver = subprocess.Popen([PROGRAM, "driver", "config.yaml", "--set", "run.steps=100000"], cwd=folder, stdin=end,
                              stdout=end, stderr=end, env=home.environment(), start_new_session=True,
                              preexec_fn=lambda: __import__("fcntl").ioctl(end, __import__("termios").TIOCSCTTY, 0))
    os.close(end)
    seen = ""
    STARTED.append(driver)

    def expect(pattern):
        nonlocal seen
        deadline = time.monotonic() + 60
        while not (found := re.search(pattern, seen)):
            assert time.monotonic() < deadline, (pattern, seen)
            seen += os.read(terminal, 65536).decode()
        seen = seen[found.end():]

    expect("nestor> ")
    os.write(terminal, b"poli\tcoup\t\n")
    expect("policy coupled from the next step on")
    expect("nestor> ")
    os.write(terminal, b"nosuch\n")
    expect("there is no such command")
    os.write(terminal, b"run\n")
    expect(r"step \d{2,}/100000")  # ten steps or more; a redraw may pass over any one of them
    os.write(terminal, b"\x03")
    expect("paused after step")
    expect("nestor> ")
    os.write(terminal, b"half a line\x03")
    os.write(terminal, b"status\n")
    expect("paused, step")
    expect("nestor> ")
    os.write(terminal, b"\x04")
    expect("report")
    assert driver.wait(60) == 0
    kept = folder / "home/driver_history"
    assert kept.read_text().splitlines() == ["policy coupled", "nosuch", "run", "status"], kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0


def clean(folder):
    for process in STARTED:
        process.kill()
        process.wait()
    subprocess.run([PROGRAM, "down", "lab"], env={**environment(), "NESTOR_HOME": str(folder / "home")},
                   capture_output=True)


run_cases([embedded, bad_lines, cluster_script, two_drivers, at_a_terminal], clean)

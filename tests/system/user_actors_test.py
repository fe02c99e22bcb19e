"""Users' actors on a cluster: where they go, how they die, who comes back.

usage: user_actors_test.py USER_ACTORS
"""
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from nestor_cli import environment, gone, run_cases

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
CLUSTER = """format: nestor.cluster/1
name: lab
hosts:
  - {host: 127.0.0.1, lanes: 1, resources: {cpus: 2}}
  - {host: localhost, lanes: 1, resources: {cpus: 4}}
"""


class Driver:
    """A client of the cluster: one command a line, one answer a line; deaths that it watches come between."""

    def __init__(self, env):
        self.downs = []
        self.process = subprocess.Popen([PROGRAM, "client", "lab"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1, env=env)

    def line(self):
        line = self.process.stdout.readline()
        assert line, f"the driver ended: {self.process.wait()}"
        return line.strip()

    def __call__(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        while (line := self.line()).startswith("down "):
            self.downs.append(line)
        return line

    def next_down(self):
        return self.downs.pop(0) if self.downs else self.line()

    def leave(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


class Lab:
    def __init__(self, folder):
        self.env = {**environment(), "NESTOR_HOME": str(folder / "home")}
        self.folder = folder
        (folder / "lab.yaml").write_text(CLUSTER)
        self.run("up", "lab.yaml")

    def run(self, *words):
        done = subprocess.run([PROGRAM, *words], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def rows(self):
        return {row["name"]: row for row in json.loads(self.run("list", "actors", "--format", "json"))}

    def until(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition(rows := self.rows()):
            assert time.monotonic() < deadline, f"{what}: {rows}"
        return rows

    def driver(self):
        return Driver(self.env)


def expect(answer, *parts):
    assert all(part in answer for part in parts), (answer, parts)


def calls(lab):
    driver = lab.driver()
    assert "actors0" not in lab.rows(), "a process is started on first need"
    assert driver("spawn", "a", 5, 0, 0, 1) == "ok"
    assert driver("add", "a", 2) == "7"
    assert driver("spawn", "b", 100, 0, 0, 1, "localhost") == "ok"
    assert driver("relay", "a", 1, "b") == "101", "an actor calls another by a handle that it was sent"
    rows = lab.rows()
    assert rows["a"]["kind"] == "counter" and rows["a"]["state"] == "ALIVE" and rows["a"]["host"] == "127.0.0.1", rows["a"]
    assert rows["a"]["pid"] == rows["actors0"]["pid"] and rows["b"]["pid"] == rows["actors1"]["pid"], rows
    expect(driver("spawn", "a", 1, 0, 0, 0), "error", "lives already")
    expect(driver("spawn", "c", -1, 0, 0, 0), "error", "counts from 0 up")
    expect(driver("spawn", "d", 1, 0, 0, 64), "error", "d: needs 64 cpus", "at most 4")
    expect(driver("spawn", "d", 1, 0, 0, 1, "elsewhere"), "error", "no host elsewhere", "127.0.0.1, localhost")
    expect(driver("spawn", "d", 1, 0, 0, 4), "error", "others have taken", "localhost 3 cpus")
    expect(driver("spawn_unregistered", "d"), "error", "there are: counter")
    expect(driver("find", "nobody"), "error", "there are: a, b")
    # Long values, both ways; the head goes on answering meanwhile.
    assert float(driver("sum", "a", 300)) == 300
    assert float(driver("ones", "a", 300)) == 300
    assert driver("watch", "a") == "ok"
    assert driver("kill", "a") == "ok"
    expect(driver.next_down(), "down a: the test says so")
    expect(driver("add", "a", 1), "error", "the test says so")
    expect(driver("find", "a"), "error", "the test says so")
    assert driver("spawn", "a", 0, 0, 0, 2) == "ok", "name and cpus are free again"
    driver("leave", "a")
    lab.until(lambda rows: rows["a"]["death_cause"] == "it had enough", "its own end is told")
    driver.leave()


def deaths(lab):
    driver = lab.driver()
    lanes = {name: row["pid"] for name, row in lab.rows().items() if row["kind"] == "worker"}
    assert driver("spawn", "again", 10, 2, 0, 0) == "ok"
    assert driver("spawn", "once", 10, 0, 0, 0) == "ok"
    for number, (how, cause) in enumerate([(signal.SIGKILL, "signal 9"), (0, "signal 6")]):
        driver("watch", "again")
        before = lab.rows()["again"]
        assert driver("add", "again", 1) == "11", "it begins anew"
        if how:
            os.kill(before["pid"], how)
        else:
            expect(driver("crash", "again", 0), "error", cause)
        expect(driver.next_down(), "down again", cause)
        assert driver("find", "again") == "ok", "waits until it is back"
        rows = lab.rows()
        assert rows["again"]["restarts"] == number + 1 and rows["again"]["pid"] != before["pid"], rows["again"]
        expect(rows["again"]["death_cause"], cause)
        expect(rows["once"]["death_cause"], "signal 9")
        assert rows["once"]["state"] == "DEAD", rows["once"]
    expect(driver("crash", "again", 3), "error", "exit code 3")
    expect(driver("find", "again"), "error", "exit code 3")
    # A stopped process is as good as dead.
    assert driver("spawn", "still", 0, 1, 0, 0) == "ok"
    os.kill(lab.rows()["still"]["pid"], signal.SIGSTOP)
    lab.until(lambda rows: rows["still"]["state"] == "ALIVE" and rows["still"]["restarts"] == 1, "restarted")
    expect(lab.rows()["still"]["death_cause"], "silent")
    # The agent's end takes its process along; another comes.
    os.kill(lab.rows()["agent0"]["pid"], signal.SIGKILL)
    lab.until(lambda rows: rows["agent0"]["state"] == "ALIVE" and rows["still"]["state"] in ("DEAD", "ALIVE")
              and rows["still"]["death_cause"] != "silent", "noticed")
    assert all(lab.until(lambda rows: rows[name]["state"] == "ALIVE", "lanes")[name] for name in lanes)
    driver.leave()


def owners(lab):
    lanes = {name: row["pid"] for name, row in lab.rows().items() if row["kind"] == "worker"}
    first = lab.driver()
    assert first("spawn", "tied", 0, 3, 0, 1) == "ok"
    assert first("spawn", "free", 0, 3, 1, 1) == "ok"
    assert first("add", "free", 5) == "5"
    first.process.kill()
    first.process.wait()
    rows = lab.until(lambda rows: rows["tied"]["state"] == "DEAD", "dies with its driver")
    expect(rows["tied"]["death_cause"], "driver")
    second = lab.driver()
    assert second("find", "free") == "ok" and second("add", "free", 1) == "6", "detached, it has lived on"
    expect(second("find", "tied"), "error", "driver")
    assert {name: row["pid"] for name, row in lab.rows().items() if row["kind"] == "worker"} == lanes, "lanes are apart"
    second.leave()
    assert lab.rows()["free"]["state"] == "ALIVE"


def by_text(lab):
    """`call` of an interactive driver, a program that knows no actor's type."""
    user = lab.driver()
    assert user("spawn", "a", 5, 0, 1, 1) == "ok"

    def driver(script, code=0):
        done = subprocess.run([PROGRAM, "driver", "--cluster", "lab"], cwd=lab.folder, env=lab.env, input=script, text=True,
                              capture_output=True, timeout=120)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    out = driver("call a add 2\ncall a sum [[1,2],[3,4.5]]\ncall a ones 0\n").stdout.splitlines()
    assert out[-3:] == ["7", "10.5", "[]"], out
    for line, parts in [("call a nothing", ["has no method 'nothing'", "it has add, sum"]), ("call nobody add 1", ["there are: a"]),
                        ("call a add one", ["a.add", "a string, not an integer"]), ("call a add", ["takes 1 arguments, 0 are given"]),
                        ("call a relay 1 2", ["cannot be written as text"]), ("call a", ["call counter add 5"])]:
        expect(driver(line + "\n", code=2 if line == "call a" else 1).stderr, *parts)
    assert user("add", "a", 1) == "8", "refused calls have changed nothing"
    user.leave()


def in_lab(case):
    """The case on a cluster, which goes down after it with all its processes."""
    @functools.wraps(case)
    def run(folder):
        lab = Lab(folder)
        pids = []
        try:
            case(lab)
            pids = [row["pid"] for row in lab.rows().values() if row["state"] == "ALIVE"]
        except BaseException:
            for log in sorted(folder.glob("home/lab/logs/*")):
                print(f"--- {log.name}\n{log.read_text()[-1500:]}", file=sys.stderr)
            raise
        finally:
            lab.run("down")
        gone(pids)
    return run


run_cases([in_lab(case) for case in (calls, by_text, owners, deaths)])

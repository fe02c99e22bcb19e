"""Every command's --help shows an example; JSON outputs are one document; -o writes what stdout would have shown.

usage: commands_test.py NESTOR GOLDEN_WORKLOAD
"""
import json
import pathlib
import sys
import tempfile

from nestor_cli import must, run

PROGRAM, GOLDEN = str(pathlib.Path(sys.argv[1]).resolve()), str(pathlib.Path(sys.argv[2]).resolve())


def commands(folder):
    text = must(PROGRAM, "--help", cwd=folder).stdout
    listed = text.split("Subcommands:")[1].split("Example:")[0]
    return [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        names = commands(folder)
        assert {"train", "generate", "plan", "verify", "simulate", "show", "import"} <= set(names), names
        for command in [[], *([n] for n in names), ["prepare", "icons"]]:
            done = must(PROGRAM, *command, "--help", cwd=folder)
            assert "Example:\n  nestor " in done.stdout and not done.stderr, (command, done.stdout, done.stderr)
        assert must(PROGRAM, "--version", cwd=folder).stdout.startswith("nestor ")

        plan = must(PROGRAM, "plan", GOLDEN, "--format", "json", cwd=folder)
        assert json.loads(plan.stdout)["format"] == "nestor.plan/1" and not plan.stderr
        must(PROGRAM, "plan", GOLDEN, "-o", "plan.json", cwd=folder)
        assert json.loads((folder / "plan.json").read_text()) == json.loads(plan.stdout)
        trace = json.loads(must(PROGRAM, "plan", GOLDEN, "--format", "trace", cwd=folder).stdout)
        assert any(event["ph"] == "X" for event in trace["traceEvents"])
        page = must(PROGRAM, "plan", GOLDEN, "--format", "html", cwd=folder).stdout
        assert page.startswith("<!doctype html>") and "http" not in page.replace("http://www.w3.org", "")
        text = must(PROGRAM, "plan", GOLDEN, cwd=folder).stdout
        assert "makespan" in text and "lane" in text
        capped = must(PROGRAM, "plan", "--policy", "filled", "--in-flight-cap", "3", GOLDEN, "--format", "json", cwd=folder)
        pools = [p for name, p in json.loads(capped.stdout)["in_flight"].items() if name != "llm"]
        assert pools and max(max(peaks) for peaks in pools) <= 3, pools

        simulation = json.loads(must(PROGRAM, "simulate", GOLDEN, "--format", "json", cwd=folder).stdout)
        makespans = {p["policy"]: p["makespan"] for p in simulation["policies"]}
        expected = json.loads((pathlib.Path(GOLDEN).parent / "expected.json").read_text())[pathlib.Path(GOLDEN).stem]
        assert makespans["nested"] == expected["nested_makespan"], makespans
        assert makespans["decoupled"] == expected["decoupled_makespan"], makespans
        assert "nested" in must(PROGRAM, "simulate", GOLDEN, "--policy", "coupled,nested", cwd=folder).stdout

        for transport in ("buffered", "edge", "pair", "single"):
            verdict = must(PROGRAM, "verify", "plan.json", "--transport", transport, "--format", "json", cwd=folder)
            assert json.loads(verdict.stdout)["sound"] is True
        broken = json.loads((folder / "plan.json").read_text())
        operators = broken["lanes"][0]["ops"]
        backward = next(i for i, op in enumerate(operators) if op["op"] == "backward")
        operators[0], operators[backward] = operators[backward], operators[0]
        (folder / "broken.json").write_text(json.dumps(broken))
        done = run(PROGRAM, "verify", "broken.json", "--format", "json", cwd=folder)
        verdict = json.loads(done.stdout)
        assert done.returncode == 1 and not verdict["sound"] and verdict["faults"], done
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("nestor: broken.json: "), done.stderr

        must(PROGRAM, "plan", GOLDEN, "--format", "trace", "-o", "trace.json", cwd=folder)
        must(PROGRAM, "show", "plan.json", "trace.json", "-o", "both.html", cwd=folder)
        must(PROGRAM, "show", "plan.json", "trace.json", "-o", "both.svg", cwd=folder)
        must(PROGRAM, "show", "plan.json", "-o", "one.json", cwd=folder)
        must(PROGRAM, "show", "trace.json", "-o", "again.json", cwd=folder)
        rows = [json.loads((folder / f).read_text())["rows"] for f in ("one.json", "again.json")]
        compute = [[(r["lane"], r["op"], r["module"], r["microbatch"]) for r in side
                    if r["op"] in ("forward", "backward")] for side in rows]
        assert sorted(compute[0]) == sorted(compute[1]) and compute[0]
        assert must(PROGRAM, "show", "one.json", cwd=folder).stdout.count("lane") >= 4

        (folder / "table.csv").write_bytes(b"0F0,0F1,0B0,0B1\r\n,1F0,1B0,1F1,1B1\r\n")
        must(PROGRAM, "import", "table.csv", "--dialect", "torch", "-o", "imported.json", cwd=folder)
        must(PROGRAM, "verify", "imported.json", cwd=folder)
        must(PROGRAM, "plan", "-", "-o", "back.csv", cwd=folder,
             stdin="format: nestor.workload/1\npipeline: {stages: 2, chunks: 1, microbatches: 4}\n"
                   "llm: {forward: 1, backward: 2}\n")
        must(PROGRAM, "import", "back.csv", "--dialect", "torch", cwd=folder)
        assert not list(folder.glob("*.partial*"))
    print(f"{len(names)} commands")
    return 0


if __name__ == "__main__":
    sys.exit(main())

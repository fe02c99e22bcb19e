"""Sweeps, policy files and memory caps through the program.

usage: experiments_test.py NESTOR EXAMPLES
"""
import json
import pathlib
import sys
import tempfile

from nestor_cli import WORKLOAD, must, run

PROGRAM, EXAMPLES = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()


def one_line_error(done, code, *parts):
    assert done.returncode == code, done
    lines = [line for line in done.stderr.splitlines() if not line.startswith("configuration ")]  # progress
    assert len(lines) == 1 and lines[0].startswith("nestor: "), done.stderr
    assert all(part in lines[0] for part in parts), (parts, done.stderr)


def sweeps(folder):
    done = must(PROGRAM, "sweep", "w.yaml", "--stages", "2,4", "--microbatches", "4,8", "--policy", "nested,decoupled",
                "--pool", "vision=1,2", "--placement", "colocated,own", "--format", "json", cwd=folder)
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 2 * 2 * 2 * 2 * 2, len(rows)
    speeds = [row["seconds_per_microbatch"] for row in rows]
    assert speeds == sorted(speeds) and all(row["fits"] for row in rows)
    assert "best first" in must(PROGRAM, "sweep", "w.yaml", cwd=folder).stdout

    model = EXAMPLES / "workloads" / "understanding_30b_moe.yaml"
    done = must(PROGRAM, "sweep", model, "--stages", "8", "--microbatches", "16,64", "--format", "json", cwd=folder)
    rows = {(row["policy"], row["microbatches"]): row for row in json.loads(done.stdout)["rows"]}
    assert rows["decoupled", 64]["verdict"] == "memory" and rows["decoupled", 64]["over_bytes"] > 1e9
    assert rows["nested", 64]["peak_bytes"] <= 1.01 * rows["nested", 16]["peak_bytes"]
    assert "over the cap" in must(PROGRAM, "sweep", model, "--stages", "8,64", "--microbatches", "64", cwd=folder).stdout
    done = run(PROGRAM, "sweep", model, "--stages", "8", "--microbatches", "8", "--memory", "1GB", cwd=folder)
    one_line_error(done, 1, "no configuration fits")
    one_line_error(run(PROGRAM, "sweep", model, cwd=folder), 2, "--stages")
    one_line_error(run(PROGRAM, "sweep", "w.yaml", "--pool", "audio=2", cwd=folder), 2, "--pool", "vision")
    one_line_error(run(PROGRAM, "sweep", "w.yaml", "--policy", "greedy", cwd=folder), 2, "greedy", "nested")
    one_line_error(run(PROGRAM, "sweep", "w.yaml", "--stages", "0", cwd=folder), 2, "--stages")


def policies(folder):
    example = EXAMPLES / "policies" / "all_forwards_first.yaml"
    must(PROGRAM, "plan", EXAMPLES / "workloads" / "vision.yaml", "--policy", example, "-o", "plan.json", cwd=folder)
    must(PROGRAM, "verify", "plan.json", cwd=folder)
    assert json.loads((folder / "plan.json").read_text())["policy"] == "all forwards first"
    (folder / "llm.yaml").write_text(WORKLOAD.split("encoders")[0])
    split = EXAMPLES / "policies" / "split_backward.yaml"
    must(PROGRAM, "plan", "llm.yaml", "--policy", split, "-o", "plan.json", cwd=folder)
    must(PROGRAM, "verify", "plan.json", cwd=folder)
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["backbone"] == "custom"
    assert any(op["op"] == "backward_weight" for op in plan["lanes"][0]["ops"])
    done = must(PROGRAM, "simulate", "llm.yaml", "--policy", f"nested,{split}", "--format", "json", cwd=folder)
    nested, own = json.loads(done.stdout)["policies"]
    assert own["makespan"] < nested["makespan"]
    (folder / "wrong.yaml").write_text("format: nestor.policy/1\nlanes:\n- F0 B0 ...\n- B0 F0 ...\n")
    one_line_error(run(PROGRAM, "plan", "llm.yaml", "--policy", "wrong.yaml", cwd=folder), 2, "wrong.yaml:4")
    one_line_error(run(PROGRAM, "plan", "llm.yaml", "--policy", "./missing.yaml", cwd=folder), 2, "missing.yaml")


def memory(folder):
    text = WORKLOAD.replace("backward: 2.0}", "backward: 2.0, stash_bytes: 100}")
    (folder / "tight.yaml").write_text(text + "memory: {bytes_per_lane: 150}\n")
    done = run(PROGRAM, "plan", "tight.yaml", cwd=folder)
    one_line_error(done, 1, "tight.yaml:memory.bytes_per_lane: ", "needs 200 bytes on lane 0", "the cap is 150")
    assert "broken first at" in must(PROGRAM, "simulate", "tight.yaml", cwd=folder).stdout
    must(PROGRAM, "plan", "tight.yaml", "--may-recompute", "-o", "plan.json", cwd=folder)
    assert any(op["op"] == "recompute" for op in json.loads((folder / "plan.json").read_text())["lanes"][0]["ops"])
    done = must(PROGRAM, "simulate", "tight.yaml", "--policy", "nested", "--format", "json", cwd=folder)
    lanes = json.loads(done.stdout)["policies"][0]["lanes"]
    assert lanes[0]["over_memory"] and lanes[0]["over_at"] > 0 and not lanes[1]["over_memory"]
    assert max(held for _, held in lanes[0]["bytes"]) == 200
    (folder / "again.yaml").write_text(text.replace("stash_bytes: 100", "stash_bytes: 100, recompute: true"))
    must(PROGRAM, "plan", "again.yaml", "-o", "plan.json", cwd=folder)
    assert any(op["op"] == "recompute" for op in json.loads((folder / "plan.json").read_text())["lanes"][0]["ops"])
    must(PROGRAM, "verify", "plan.json", cwd=folder)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "w.yaml").write_text(WORKLOAD)
        sweeps(folder)
        policies(folder)
        memory(folder)


if __name__ == "__main__":
    main()

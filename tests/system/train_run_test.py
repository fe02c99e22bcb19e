"""A training's run folder: resume, Ctrl-C, SIGTERM, lock, overwrite, traces, the report, generate.

usage: train_run_test.py NESTOR
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from nestor_cli import CONFIG, environment, metrics, must, picture_folder, png, run, same

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())


def start(folder, *settings):
    """A training under way: returns when its first step is in the metrics file."""
    arguments = [part for setting in settings for part in ("--set", setting)]
    process = subprocess.Popen([PROGRAM, "train", "config.yaml", *arguments], cwd=folder, env=environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # The first progress line comes with the first step; the pipe is what is waited for.
    seen = []
    for line in process.stderr:
        seen.append(line)
        if line.startswith("step "):
            return process
    raise AssertionError(f"no step: {''.join(seen)} exit {process.wait()}")


def resume(folder):
    whole = must(PROGRAM, "train", "config.yaml", "--set", "run.steps=6", "--set", "run.dir=whole", cwd=folder)
    assert "step 6/6" in whole.stderr and not whole.stdout
    must(PROGRAM, "train", "config.yaml", "--set", "run.steps=3", "--set", "run.dir=parts",
         "--set", "run.checkpoint_every=2", cwd=folder)
    # Lines that the checkpoint does not know are dropped, a torn one too.
    with open(folder / "parts" / "metrics.jsonl", "a") as file:
        file.write(json.dumps({**metrics(folder / "parts")[-1], "step": 4}) + '\n{"step": 5, "lo')
    must(PROGRAM, "train", "config.yaml", "--set", "run.steps=6", "--set", "run.dir=parts", "--resume", cwd=folder)
    same(metrics(folder / "whole"), metrics(folder / "parts"), 1e-6)
    # Another cut and policy go on alike.
    must(PROGRAM, "train", "config.yaml", "--set", "run.steps=3", "--set", "run.dir=cut", cwd=folder)
    must(PROGRAM, "train", "config.yaml", "--set", "run.steps=6", "--set", "run.dir=cut", "--set", "schedule.stages=1",
         "--set", "schedule.policy=serial", "--resume", cwd=folder)
    same(metrics(folder / "whole"), metrics(folder / "cut"), 1e-4)
    done = run(PROGRAM, "train", "config.yaml", "--set", "run.dir=whole", "--set", "model.llm.width=32", "--resume",
               cwd=folder)
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith("nestor: "), done


def files(folder):
    must(PROGRAM, "train", "config.yaml", "--set", "run.dir=files", "--set", "run.steps=5",
         "--set", "run.checkpoint_every=1", "--set", "run.keep_checkpoints=2", "--set", "run.eval_every=2", cwd=folder)
    out = folder / "files"
    assert sorted(p.name for p in (out / "checkpoints").iterdir()) == ["step-4", "step-5"]
    for line in metrics(out):
        assert set(line) - {"eval"} == {"step", "loss", "losses", "grad_norm", "skipped", "tokens", "samples", "seconds",
                                        "bubble", "in_flight"}, line
        assert ("eval" in line) == (line["step"] in (2, 4, 5))
        assert line["samples"] == 6 and line["tokens"] > 0 and 0 <= line["bubble"] <= 1
    must(PROGRAM, "verify", "files/plan.json", cwd=folder)

    timeline = json.loads((out / "timeline.json").read_text())
    assert timeline["format"] == "nestor.timeline/1" and timeline["step"] == 5 and timeline["rows"]
    for row in timeline["rows"]:
        assert 0 <= row["start_ns"] <= row["end_ns"] and row["wait_ns"] >= 0
    trace = json.loads((out / "trace.json").read_text())["traceEvents"]
    slices = [e for e in trace if e["ph"] == "X"]
    order = {e["pid"]: e["args"]["sort_index"] for e in trace if e.get("name") == "process_sort_index"}
    assert order == {0: 0, 1: 1}, order
    by_thread = {}
    for event in slices:
        by_thread.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in by_thread.values():  # slices of one thread nest
        open_ends = []
        for begin, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= begin + 1e-9:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-9, (begin, end, open_ends)
            open_ends.append(end)
    starts = {(e["id"], e["cat"], e["name"]): e for e in trace if e["ph"] == "s"}
    ends = {(e["id"], e["cat"], e["name"]): e for e in trace if e["ph"] == "f"}
    assert starts and starts.keys() == ends.keys()
    for key, flow in ends.items():
        assert flow["bp"] == "e" and any(
            s["pid"] == flow["pid"] and s["tid"] == flow["tid"] and s["ts"] <= flow["ts"] <= s["ts"] + s["dur"] + 1e-9
            for s in slices), flow

    page = (out / "report.html").read_text()
    assert page.count("<svg") >= 5 and "Measured" in page and "Planned" in page
    assert "src=\"http" not in page and "<link" not in page
    must(PROGRAM, "show", "files/plan.json", "files/trace.json", "-o", "step.html", cwd=folder)


def interrupts(folder):
    for name, sign, code in (("int", signal.SIGINT, 130), ("term", signal.SIGTERM, 143)):
        process = start(folder, "run.steps=100000", f"run.dir={name}")
        second = run(PROGRAM, "train", "config.yaml", "--set", f"run.dir={name}", cwd=folder)
        assert second.returncode == 2 and len(second.stderr.splitlines()) == 1, second
        assert not os.listdir(folder / name / "checkpoints") if (folder / name / "checkpoints").exists() else True
        process.send_signal(sign)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == code, (process.returncode, errors)
        assert "--resume" in errors and not output, errors
        lines = metrics(folder / name)
        last = lines[-1]["step"]
        assert [p.name for p in (folder / name / "checkpoints").iterdir()] == [f"step-{last}"]
        assert (folder / name / "report.html").exists() and (folder / name / "plan.json").exists()
        must(PROGRAM, "train", "config.yaml", "--set", f"run.dir={name}", "--set", f"run.steps={last + 1}", "--resume",
             cwd=folder)
        assert [line["step"] for line in metrics(folder / name)] == list(range(1, last + 2))
    must(PROGRAM, "train", "config.yaml", "--set", "run.dir=int", "--overwrite", cwd=folder)
    assert len(metrics(folder / "int")) == 3


def pictures(folder):
    data = f"data={{kind: image_folder, path: {picture_folder(folder / 'icons')}, image_size: 8}}"
    must(PROGRAM, "train", "config.yaml", "--set", data, "--set", "run.dir=icons-run", cwd=folder)
    page = (folder / "icons-run" / "report.html").read_text()
    assert page.count("data:image/png;base64,") >= 6 and "of 6" in page
    (folder / "one.png").write_bytes(png(8, 8))
    drawn = must(PROGRAM, "generate", "icons-run", "--draw", "icon a", "-n", "2", "-o", "sheet.png", cwd=folder)
    assert (folder / "sheet.png").read_bytes().startswith(b"\x89PNG") and "sheet.png" in drawn.stdout
    read = must(PROGRAM, "generate", "icons-run/checkpoints/step-3", "--read", "one.png", "--format", "json", cwd=folder)
    assert json.loads(read.stdout)["read"][0]["file"] == "one.png"
    again = must(PROGRAM, "generate", "icons-run", "--draw", "icon a", "-n", "2", "-o", "again.png", cwd=folder)
    assert again.returncode == 0 and (folder / "again.png").read_bytes() == (folder / "sheet.png").read_bytes()


def main():
    for part in (resume, files, interrupts, pictures):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "config.yaml").write_text(CONFIG)
            part(folder)
            print(part.__name__, "passed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Every bad input ends with exit 2 and one line "nestor: WHERE: WHAT", writes nothing, and does not hang.

usage: bad_inputs.py NESTOR
"""
import pathlib
import sys
import tempfile

from nestor_cli import CONFIG, WORKLOAD, must, picture_folder, png, run

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())


def workload(old, new):
    assert old in WORKLOAD
    return WORKLOAD.replace(old, new)


WORKLOADS = {
    "an empty file": "",
    "no YAML": "pipeline: {stages: 2",
    "a list": "- 1\n- 2\n",
    "binary": "\x00\x01\x02\x7f",
    "no format": workload("format: nestor.workload/1\n", ""),
    "another format": workload("workload/1", "workload/9"),
    "an unknown key": workload("llm: {forward", "llm: {forwards: 1, forward"),
    "an unknown section": WORKLOAD + "decoders: {}\n",
    "a missing cost": workload("forward: 1.0, ", ""),
    "a text for a number": workload("forward: 1.0", "forward: fast"),
    "a negative cost": workload("backward: 2.0", "backward: -2.0"),
    "NaN": workload("forward: 1.5", "forward: .nan"),
    "infinity": workload("forward: 1.5", "forward: .inf"),
    "a cost beyond a double": workload("forward: 1.5", "forward: 1e999"),
    "no stages": workload("stages: 2", "stages: 0"),
    "half a stage": workload("stages: 2", "stages: 2.5"),
    "no microbatches": workload("microbatches: 4", "microbatches: 0"),
    "an absurd size": workload("microbatches: 4", "microbatches: 1000000000000"),
    "absurd stages": workload("stages: 2", "stages: 16777216"),
    "a list too short": workload("forward: 1.0", "forward: [1.0]"),
    "costs too many": workload("forward: 1.5", "forward: [1, 2, 3, 4, 5]"),
    "a pool named llm": workload("vision:", "llm:"),
    "two pools of one name": WORKLOAD + "generators: {vision: {forward: 1, backward: 1}}\n",
    "a negative lane": workload("backward: 3.0}", "backward: 3.0, lanes: [-1]}"),
    "a lane beyond all": workload("backward: 3.0}", "backward: 3.0, lanes: [99999999]}"),
    "an owner that is none": workload("backward: 3.0}", "backward: 3.0, owner: [7, 7, 7, 7]}"),
    "an absent microbatch that is none": workload("backward: 3.0}", "backward: 3.0, absent: [44]}"),
    "an input that is none": WORKLOAD + "generators: {image: {forward: 1, backward: 1, inputs: [ear]}}\n",
    "a section that is a list": workload("{forward: 1.5, backward: 3.0}", "[1, 2]"),
    "nesting without end": "a: " + "[" * 20000,
}

# Config keys to set, as on the command line.
SETTINGS = {
    "an unknown key": "run.stepz=3",
    "an unknown section": "runs.steps=3",
    "a text for a number": "run.steps=many",
    "no steps": "run.steps=0",
    "a fraction of a step": "run.steps=2.5",
    "a negative seed": "run.seed=-1",
    "steps beyond all": "run.steps=99999999999999999999",
    "an unknown dtype": "run.dtype=float8",
    "an empty folder name": "run.dir=",
    "an unknown policy": "schedule.policy=nestled",
    "no stage": "schedule.stages=0",
    "more stages than layers": "schedule.stages=64",
    "a pool of none": "schedule.pools.vision=0",
    "a pool without lanes": "schedule.pools.vision=[]",
    "a pool on no lane": "schedule.pools.vision=[-1]",
    "a pool that the model lacks": "schedule.pools.hearing=1",
    "pools as a list": "schedule.pools=[1]",
    "a NaN learning rate": "optimizer.lr=.nan",
    "a negative learning rate": "optimizer.lr=-1",
    "an unknown optimizer": "optimizer.kind=sgd",
    "beta of one": "optimizer.beta1=1.0",
    "no model": "model=",
    "an unknown model": "model.llm.kind=gpt",
    "heads that do not divide": "model.llm.heads=3",
    "an unknown model key": "model.llm.depth=3",
    "a huge width": "model.llm.width=1000000000000",
    "an unknown data kind": "data.kind=video",
    "an unknown data key": "data.sizes=3",
    "a missing folder": "data={kind: image_folder, path: nowhere, image_size: 8}",
    "a folder without pictures": "data={kind: image_folder, path: empty, image_size: 8}",
    "a file for a folder": "data={kind: image_folder, path: good.yaml, image_size: 8}",
    "no YAML value": "run.steps=[1",
    "no assignment": "run.steps",
    "a path through a number": "run.steps.more=1",
}

PICTURES = {
    "a text named .png": b"this is no picture\n",
    "an empty one": b"",
    "a torn one": png(8, 8)[:60],
    "a torn last chunk": png(8, 8)[:-20],
    "one with a broken checksum": png(8, 8).replace(b"IDAT", b"IDAT")[:45] + b"\xff" + png(8, 8)[46:],
    "one that is huge by its header": png(1 << 30, 1 << 30, b""),
    "one without rows": png(8, 8, b""),
    "one of no size": png(0, 0, b""),
}

CONFIGS = {
    "an empty file": "",
    "no YAML": "run: {steps: 3",
    "another format": CONFIG.replace("train/1", "workload/1"),
    "no format": CONFIG.replace("format: nestor.train/1\n", ""),
    "a key twice": CONFIG + "run: {steps: 4}\n",
    "no data": "\n".join(line for line in CONFIG.splitlines() if not line.startswith("data")),
    "two documents": CONFIG + "---\n" + CONFIG,
}


class Cases:
    def __init__(self, folder):
        self.folder, self.count, self.failures = folder, 0, []

    def snapshot(self):
        return {str(p.relative_to(self.folder)): p.stat().st_mtime_ns if p.is_file() else None
                for p in self.folder.rglob("*")}

    def expect(self, name, *arguments, stdin="", says=""):
        before = self.snapshot()
        done = run(PROGRAM, *arguments, cwd=self.folder, stdin=stdin)
        self.count += 1
        lines = done.stderr.splitlines()
        wrong = []
        if done.returncode != 2:
            wrong.append(f"exit {done.returncode}")
        if len(lines) != 1 or not lines[0].startswith("nestor: ") or lines[0].count(": ") < 2:
            wrong.append("stderr is not one line nestor: WHERE: WHAT")
        if "internal error" in done.stderr:
            wrong.append("an internal error")
        if says and says not in done.stderr:
            wrong.append(f"does not say {says!r}")
        if done.stdout:
            wrong.append("wrote to stdout")
        if self.snapshot() != before:
            wrong.append("wrote files")
        if wrong:
            self.failures.append(f"{name}: {', '.join(wrong)}\n    {' '.join(map(str, arguments))}\n    "
                                 + done.stderr.strip().replace("\n", "\n    ")[:600])


def plan_cases(cases):
    folder = cases.folder
    (folder / "good.yaml").write_text(WORKLOAD)
    for name, text in WORKLOADS.items():
        (folder / "bad.yaml").write_text(text)
        cases.expect("workload with " + name, "plan", "bad.yaml", "-o", "out.json", says="bad.yaml")
    cases.expect("workload on standard input", "simulate", "-", stdin="nonsense: [")
    cases.expect("a missing workload", "plan", "none.yaml", says="none.yaml")
    cases.expect("a folder as workload", "plan", ".")
    cases.expect("an unknown policy", "plan", "good.yaml", "--policy", "nestled")
    cases.expect("one unknown of two policies", "simulate", "good.yaml", "--policy", "nested,nestled")
    cases.expect("an unknown format", "plan", "good.yaml", "--format", "jsn")
    cases.expect("an output in no folder", "plan", "good.yaml", "-o", "no/where/plan.json")
    cases.expect("a folder as output", "plan", "good.yaml", "-o", ".")
    cases.expect("a cap of none", "plan", "good.yaml", "--in-flight-cap", "0", says="--in-flight-cap")
    cases.expect("a cap of no pool", "plan", "good.yaml", "--in-flight-cap", "none=4", says="--in-flight-cap")
    cases.expect("no command")
    cases.expect("an unknown command", "pln", "good.yaml", says="plan")
    cases.expect("an unknown flag", "plan", "good.yaml", "--polcy", "nested", says="--policy")
    cases.expect("a missing argument", "plan")
    cases.expect("an unknown transport", "verify", "plan.json", "--transport", "pigeon")

    plan = must(PROGRAM, "plan", "good.yaml", "--format", "json", cwd=folder).stdout
    plans = {
        "an empty file": "",
        "half of it": plan[:len(plan) // 2],
        "a list": "[]",
        "another format": plan.replace("plan/1", "plan/2"),
        "an unknown operator": plan.replace('"backward"', '"sideways"', 1),
        "a lane that is a number": '{"format": "nestor.plan/1", "lanes": 3}',
        "a microbatch that is a text": plan.replace('"microbatch":0', '"microbatch":"zero"', 1)
                                           .replace('"microbatch": 0', '"microbatch": "zero"', 1),
        "numbers beyond all": plan.replace('"stages": 2', '"stages": 1e300').replace('"stages":2', '"stages":1e300'),
    }
    for name, text in plans.items():
        (folder / "bad.json").write_text(text)
        cases.expect("plan with " + name, "verify", "bad.json", says="bad.json")
        cases.expect("show of a plan with " + name, "show", "bad.json", "-o", "out.html", says="bad.json")
    (folder / "bad.json").write_text('{"traceEvents": [{"ph": "X", "cat": "forward", "pid": -5, "name": "x"}]}')
    cases.expect("a trace of something else", "show", "bad.json", "-o", "out.svg")
    (folder / "bad.json").write_text('{"traceEvents": []}')
    cases.expect("an empty trace", "show", "bad.json")
    cases.expect("an output of no known kind", "show", "plan.json", "-o", "out.pdf")
    tables = {"an action that is none": "0F0,0F0xyz\r\n", "no action": "hello\r\n", "an operator twice": "0F0,0F0\r\n",
              "numbers beyond all": "99999999999999F0\r\n", "an empty file": ""}
    for name, text in tables.items():
        (folder / "bad.csv").write_text(text)
        cases.expect("table with " + name, "import", "bad.csv", "--dialect", "torch", "-o", "out.json")
    cases.expect("a dialect that is none", "import", "bad.csv", "--dialect", "jax")


def train_cases(cases):
    folder = cases.folder
    (folder / "good.yaml").write_text(CONFIG)
    (folder / "empty").mkdir()
    for name, text in CONFIGS.items():
        (folder / "bad.yaml").write_text(text)
        cases.expect("config with " + name, "train", "bad.yaml", says="bad.yaml")
    for name, setting in SETTINGS.items():
        cases.expect("config with " + name, "train", "good.yaml", "--set", setting)
    cases.expect("a missing config", "train", "none.yaml", says="none.yaml")
    cases.expect("nothing to resume", "train", "good.yaml", "--resume")
    cases.expect("a run folder that is a file", "train", "good.yaml", "--set", "run.dir=good.yaml")
    cases.expect("a run folder that cannot be made", "train", "good.yaml", "--set", "run.dir=/proc/nestor")
    cases.expect("a run that is none", "generate", "nowhere")
    cases.expect("a folder that is no run", "generate", "empty")
    cases.expect("a theme that is none", "prepare", "icons", "--from", "nowhere", "-o", "icons")

    pictures = picture_folder(folder / "pictures")
    data = f"data={{kind: image_folder, path: {pictures}, image_size: 8}}"
    for name, content in PICTURES.items():
        (pictures / "bad.png").write_bytes(content)
        cases.expect("a folder with " + name, "train", "good.yaml", "--set", data, says="bad.png")
    (pictures / "bad.png").unlink()

    must(PROGRAM, "train", "good.yaml", "--set", data, "--overwrite", cwd=folder)
    cases.expect("a folder that holds a run", "train", "good.yaml", "--set", data, says="--resume")
    for name, content in PICTURES.items():
        (folder / "bad.png").write_bytes(content)
        cases.expect("reading " + name, "generate", "run", "--read", "bad.png", says="bad.png")
    cases.expect("an output in no folder", "generate", "run", "--draw", "icon a", "-o", "no/where.png")
    checkpoint = folder / "run" / "checkpoints" / "step-3"
    for file in sorted(checkpoint.iterdir()):
        whole = file.read_bytes()
        file.write_bytes(whole[:len(whole) // 2])
        cases.expect("a torn " + file.name, "generate", checkpoint)
        file.write_bytes(whole)
    (folder / "run" / "config.yaml").write_text("format: nonsense\n")
    cases.expect("a broken config in a run", "generate", "run")


def main():
    failures = count = 0
    for group in (plan_cases, train_cases):
        with tempfile.TemporaryDirectory() as name:
            cases = Cases(pathlib.Path(name))
            group(cases)
            count += cases.count
            failures += len(cases.failures)
            print("\n".join(cases.failures))
    print(f"{count} bad inputs, {failures} not answered as they should be")
    assert count >= 30
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

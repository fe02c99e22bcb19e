"""A run's losses do not depend on policy, number of stages, chunks or pool size.

usage: train_matrix.py NESTOR CONFIG STEPS [--full] [--set KEY=VALUE ...]
Trains CONFIG for STEPS steps under each combination and compares every step with the serial reference: relative 1e-4.
Without --full a choice that has each value at least once.
"""
import itertools
import pathlib
import sys
import tempfile

from nestor_cli import metrics, must

TOLERANCE = 1e-4


def main():
    program, config, steps = str(pathlib.Path(sys.argv[1]).resolve()), str(pathlib.Path(sys.argv[2]).resolve()), sys.argv[3]
    more = [a for a in sys.argv[4:] if a != "--full"]
    if "--full" in sys.argv:
        cases = list(itertools.product(("coupled", "decoupled", "nested", "filled"), (1, 2, 4), (1, 2)))
    else:
        cases = [("coupled", 1, 1), ("nested", 2, 2), ("decoupled", 2, 1), ("nested", 4, 1), ("filled", 4, 2)]

    with tempfile.TemporaryDirectory() as name:
        def train(policy, stages, pool):
            folder = pathlib.Path(name) / f"{policy}-{stages}-{pool}"
            must(program, "train", config, *more, "--set", f"run.steps={steps}", "--set", f"run.dir={folder}",
                 "--set", f"schedule.policy={policy}", "--set", f"schedule.stages={stages}",
                 "--set", f"schedule.pools={{vision: {pool}, image: {pool}}}", "--set", "run.report_samples=0",
                 "--set", "run.eval_every=0", cwd=name, timeout=1200)
            lines = metrics(folder)
            assert [line["step"] for line in lines] == list(range(1, int(steps) + 1)), folder
            return lines

        reference = train("serial", 1, 1)
        worst = 0.0
        for policy, stages, pool in cases:
            for expected, line in zip(reference, train(policy, stages, pool)):
                for key in ("loss", *expected["losses"]):
                    a = expected["loss"] if key == "loss" else expected["losses"][key]
                    b = line["loss"] if key == "loss" else line["losses"][key]
                    off = abs(a - b) / max(abs(a), 1e-12) if a != b else 0.0
                    worst = max(worst, off)
                    assert off <= TOLERANCE, f"{policy}, {stages} stages, pool {pool}: step {line['step']} {key} {b}, serial {a}"
            print(f"{policy:10} stages {stages} pool {pool}: equal so far within {worst:.1e}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs tools/check_plan.py, which shares no code with the project, over many plans in one process.

usage: check_plans_test.py RANDOM_PLANS COUNT
RANDOM_PLANS is the program that writes the plans: COUNT random ones and the golden ones, which must also reach their
expected figures.
"""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
CHECKER = TESTS / "tools" / "check_plan.py"
EXPECTED = TESTS / "data" / "golden" / "expected.json"


def main():
    program, count = sys.argv[1], int(sys.argv[2])
    code = compile(CHECKER.read_text(), str(CHECKER), "exec")
    broken = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder, str(count)], check=True)
        plans = sorted(pathlib.Path(folder).glob("*.json"))
        golden = [plan for plan in plans if plan.name.startswith("golden-")]
        assert len(plans) - len(golden) == count and len(golden) >= 14, f"{len(plans)} plans, {len(golden)} golden"
        for plan in plans:
            sys.argv = [str(CHECKER), str(plan)]
            if plan in golden:
                sys.argv += ["--expect", str(EXPECTED), plan.stem.removeprefix("golden-")]
            output = io.StringIO()
            try:
                with contextlib.redirect_stdout(output):
                    exec(code, {"__name__": "__main__"})
            except SystemExit as exit_:
                if exit_.code:
                    broken.append(f"{plan.name}: {output.getvalue()}")
    print(f"{len(plans)} plans checked, {len(broken)} broken")
    print("\n".join(broken[:5]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

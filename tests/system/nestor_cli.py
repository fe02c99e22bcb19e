"""What the tests of the built program share: running it, a tiny config, PNG files."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import zlib

WORKLOAD = """format: nestor.workload/1
pipeline: {stages: 2, chunks: 1, microbatches: 4}
llm: {forward: 1.0, backward: 2.0}
encoders:
  vision: {forward: 1.5, backward: 3.0}
"""

CONFIG = """format: nestor.train/1
run: {dir: run, seed: 1, steps: 3, checkpoint_every: 0, eval_every: 0, trace_every: 2, report_samples: 2}
data: {kind: synthetic, samples: 64, image_size: 8}
model:
  encoders: {vision: {kind: vit, patch: 4, width: 16, layers: 1, heads: 2}}
  llm: {kind: qwen3, layers: 4, width: 16, heads: 2}
  generators: {image: {kind: mmdit, patch: 4, width: 16, layers: 1, heads: 2}}
schedule: {policy: nested, stages: 2, chunks: 1, microbatches: 3, microbatch_size: 2}
optimizer: {kind: adamw, lr: 1.0e-3}
"""


def environment():
    return {**os.environ, "TERM": "dumb", "LC_ALL": "C.UTF-8"}


def run(program, *arguments, cwd, stdin="", timeout=120):
    return subprocess.run([program, *map(str, arguments)], cwd=cwd, input=stdin, capture_output=True, text=True,
                          timeout=timeout, env=environment())


def must(program, *arguments, cwd, code=0, **more):
    done = run(program, *arguments, cwd=cwd, **more)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def metrics(folder):
    return [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]


def same(a, b, within=1e-9):
    """Two runs' metrics are equal but for the order of floating-point sums: costs are measured, so plans may differ."""
    assert [line["step"] for line in a] == [line["step"] for line in b], (a, b)
    for left, right in zip(a, b):
        assert all(left[key] == right[key] for key in ("skipped", "tokens", "samples")), (left, right)
        for x, y in [(left["loss"], right["loss"]), *((left["losses"][k], right["losses"][k]) for k in left["losses"])]:
            assert abs(x - y) <= within * abs(x), (left, right)


def png(width, height, rows=None, colour_type=2):
    """A PNG file's bytes; `rows` may lie about the content."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    if rows is None:
        rows = b"".join(b"\0" + bytes((x * 37 + y * 11) % 256 for x in range(width * 3)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def picture_folder(folder, count=6):
    folder.mkdir()
    for i in range(count):
        rows = b"".join(b"\0" + bytes((x * (i + 3) * 7 + y * 31) % 256 for x in range(24)) for y in range(8))
        (folder / f"icon-{'abcdefghij'[i]}.png").write_bytes(png(8, 8, rows))
    return folder


def gone(pids):
    """Waits until none of the processes is left; fails after a while."""
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline, f"left over: {[pid for pid in pids if os.path.exists(f'/proc/{pid}')]}"
        time.sleep(0.02)


def run_cases(cases, clean=lambda folder: None):
    """Runs the cases that the command line names after the program, or all, each in a folder of its own. `clean` ends what
    a case has started, however that went."""
    for case in [case for case in cases if len(sys.argv) < 3 or case.__name__ in sys.argv[2:]]:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            started = time.monotonic()
            try:
                case(folder)
            finally:
                clean(folder)
            print(f"{case.__name__}: fine ({time.monotonic() - started:.1f} s)", flush=True)

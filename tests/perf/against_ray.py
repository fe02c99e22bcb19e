"""Calls of actors beside Ray's (https://www.ray.io), in one run on one machine, as ratios.

usage: against_ray.py PERF_CALLS PYTHON
PYTHON is that of a virtual environment where Ray is installed:
  python3 -m venv /tmp/ray && /tmp/ray/bin/pip install ray numpy
"""
import json
import subprocess
import sys

RAY = """
import json, time
import numpy, ray
start = time.perf_counter()
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
@ray.remote
class Echo:
    def ping(self, number): return number
    def size(self, array): return array.nbytes
echo = Echo.remote()
ray.get(echo.ping.remote(1))
out = {"version": ray.__version__, "start_to_first_call": time.perf_counter() - start}
for i in range(200): ray.get(echo.ping.remote(i))
start = time.perf_counter()
for i in range(2000): ray.get(echo.ping.remote(i))
out["sync"] = 2000 / (time.perf_counter() - start)
start = time.perf_counter()
ray.get([echo.ping.remote(i) for i in range(20000)])
out["pipelined"] = 20000 / (time.perf_counter() - start)
for mebibytes in 1, 8, 64, 300:
    array = numpy.zeros(mebibytes << 20, dtype=numpy.uint8)
    calls = 20 if mebibytes < 64 else 4
    ray.get(echo.size.remote(array))
    start = time.perf_counter()
    for i in range(calls): ray.get(echo.size.remote(array))
    out[f"argument_{mebibytes}MiB"] = calls * (mebibytes << 20) / (time.perf_counter() - start) / 1e9
print("RESULT", json.dumps(out), flush=True)
ray.shutdown()
"""


def nestor(program, part):
    lines = subprocess.run([program, part], check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: float(value) for name, value, _ in map(str.split, lines)}


def main():
    program, python = sys.argv[1:3]
    # Alternating halves, so that a change of the machine's load meets both.
    ours = nestor(program, "cluster")
    output = subprocess.run([python, "-c", RAY], check=True, capture_output=True, text=True).stdout
    rays = json.loads(next(line for line in output.splitlines() if line.startswith("RESULT")).removeprefix("RESULT"))
    ours |= nestor(program, "in_process")
    print(f"Ray {rays['version']}")
    rows = [("start to first call, s", ours["start_to_first_call"], rays["start_to_first_call"], True)]
    for where in "in_process", "between_processes":
        for what in "sync", "pipelined":
            rows.append((f"{where} {what}, calls/s", ours[f"{where}_{what}"], rays[what], False))
    rows += [(f"{name}, GB/s", ours[name], rays[name], False) for name in rays if name.startswith("argument")]
    print(f"{'':36}{'Nestor':>12}{'Ray':>12}{'ratio':>8}")
    for name, mine, theirs, less_is_better in rows:
        ratio = theirs / mine if less_is_better else mine / theirs
        print(f"{name.replace('_', ' '):36}{mine:12.4g}{theirs:12.4g}{ratio:8.1f}")


main()

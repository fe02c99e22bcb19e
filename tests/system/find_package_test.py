#!/usr/bin/env python3
"""Installs the build to a folder of its own, then builds and runs a project that finds it by find_package(Nestor)."""
import pathlib
import subprocess
import sys
import tempfile

build, source = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent / "find_package"


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed ({result.returncode}):\n{result.stdout}\n{result.stderr}")
    return result.stdout


with tempfile.TemporaryDirectory() as folder:
    prefix, outside = pathlib.Path(folder) / "prefix", pathlib.Path(folder) / "outside"
    run("cmake", "--install", build, "--prefix", prefix)
    run("cmake", "-S", source, "-B", outside, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release", "-Wno-dev")
    run("cmake", "--build", outside)
    for program in (outside / "outside", prefix / "bin/nestor"):
        if "simulate" not in run(program, "--help"):
            sys.exit(f"{program} --help does not list its commands")
print("find_package(Nestor): an outside project configures, builds and runs")

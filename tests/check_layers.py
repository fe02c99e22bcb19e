#!/usr/bin/env python3
"""Fails on an include that the law of layers forbids (docs/tour.md, "Layers").

    launch -> actors -> { modules, scheduler, comm };  modules, scheduler and comm never include one another.

usage: tests/check_layers.py [--root FOLDER] [--self-test]
"""
import argparse
import pathlib
import re
import sys
import tempfile

# What each folder may include of the project itself.
MAY_INCLUDE = {
    "scheduler": {"scheduler"},
    "modules": {"modules"},
    "comm": {"comm"},
    "actors": {"actors", "modules", "scheduler", "comm"},
    "launch": {"launch", "actors", "modules", "scheduler", "comm"},
    "examples": {"launch", "actors", "modules", "scheduler", "comm"},
}
# Libraries with one room only: pattern of the include -> folders that may use it.
LIBRARIES = {
    r"(torch|ATen|c10)/": {"modules", "actors", "launch", "examples"},
    r"caf/": {"actors"},
    r"(ucp|ucs|uct)/|nccl\.h|zmq": {"comm"},
    r"google/protobuf/|.*\.pb\.h": {"actors"},
    r"yaml-cpp/": {"scheduler", "modules", "actors", "launch", "examples"},
    r"(CLI|readline)/": {"launch"},
    r"(png|turbojpeg|jpeglib)\.h": {"modules"},
}
# scheduler/ is the standard library alone; JSON and YAML are read at its edge, in sources, never in headers.
SCHEDULER_EDGE = r"nlohmann/|yaml-cpp/|fmt/"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
FORBIDDEN_ROOMS = re.compile(r"(^|/)(common|utils?)(/|$)")


def faults_of(root):
    for folder, allowed in MAY_INCLUDE.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".h", ".cc"}:
                continue
            place = path.relative_to(root)
            if FORBIDDEN_ROOMS.search(str(place.parent)):
                yield f"{place}:1: a common/ or utils/ folder (put the code in the layer that owns the idea)"
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                name = found.group(1)
                if name.startswith("nestor/"):
                    other = name.split("/")[1]
                    if other not in allowed:
                        yield f"{place}:{number}: {folder}/ may not include {other}/ ({name})"
                    elif not (root / name.removeprefix("nestor/")).is_file():
                        yield f"{place}:{number}: {name} does not exist"
                elif line.lstrip().startswith("#include \""):
                    yield f"{place}:{number}: write <nestor/...> instead of \"{name}\""
                for pattern, rooms in LIBRARIES.items():
                    if re.match(pattern, name) and folder not in rooms:
                        yield f"{place}:{number}: {name} belongs in {', '.join(sorted(rooms))} only"
                if folder == "scheduler" and path.suffix == ".h" and re.match(SCHEDULER_EDGE, name):
                    yield f"{place}:{number}: {name} in a header of scheduler/ (read formats in a source file)"
                if folder == "actors" and path.suffix == ".h" and name.startswith("caf/") and "internal" not in place.parts:
                    yield f"{place}:{number}: CAF in a public header of actors/ (hide it in actors/internal/ or a source)"


def self_test():
    """Every rule must be able to fail."""
    broken = {
        "scheduler/a.h": "#include <nestor/comm/channel.h>\n",
        "scheduler/b.h": "#include <yaml-cpp/yaml.h>\n",
        "modules/a.cc": "#include <nestor/scheduler/plan.h>\n",
        "comm/a.cc": "#include <torch/torch.h>\n",
        "actors/a.h": "#include <caf/all.hpp>\n",
        "launch/a.cc": "#include <caf/all.hpp>\n",
        "launch/b.cc": '#include "run.h"\n',
        "actors/utils/a.cc": "\n",
        "actors/c.cc": "#include <readline/readline.h>\n",
        "actors/b.cc": "#include <nestor/actors/missing.h>\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in broken.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        (root / "comm/channel.h").write_text("")
        (root / "scheduler/plan.h").write_text("")
        caught = {fault.split(":")[0] for fault in faults_of(root)}
    missed = set(broken) - caught
    if missed:
        sys.exit(f"check_layers: the self-test's breaches were not caught: {sorted(missed)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true", help="check first that each rule catches a breach")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
    faults = list(faults_of(arguments.root))
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        sys.exit(1)
    print("layers: every include is lawful")


main()

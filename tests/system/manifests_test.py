"""The container recipe and the Kubernetes manifests are of the right form, and name what exists.

usage: manifests_test.py PROJECT NESTOR
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

PROJECT = pathlib.Path(sys.argv[1])
PROGRAM = sys.argv[2]
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "CMD", "ENTRYPOINT", "ENV", "EXPOSE"}


def container():
    text = (PROJECT / "launch/container/Dockerfile").read_text()
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.M)).splitlines()
    instructions = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    assert {word for word, _ in instructions} <= INSTRUCTIONS, instructions
    stages = [rest.split(" AS ")[1] for word, rest in instructions if word == "FROM" and " AS " in rest]
    for word, rest in instructions:
        if word == "COPY" and rest.startswith("--from="):
            assert rest.split()[0].removeprefix("--from=") in stages, rest
        elif word == "COPY":
            assert all((PROJECT / source).exists() for source in rest.split()[:-1]), rest


def kubernetes():
    documents = list(yaml.safe_load_all((PROJECT / "launch/kubernetes/cluster.yaml").read_text()))
    by_kind = {}
    for document in documents:
        assert {"apiVersion", "kind", "metadata"} <= set(document), document
        by_kind.setdefault(document["kind"], []).append(document)
    names = {kind: {d["metadata"]["name"] for d in documents} for kind, documents in by_kind.items()}
    pods = [d["spec"]["template"] for kind in ("StatefulSet", "Job") for d in by_kind[kind]]
    assert len(pods) == 2
    for pod in pods:
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        for volume in volumes.values():
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in names["PersistentVolumeClaim"]
            if "configMap" in volume:
                assert volume["configMap"]["name"] in names["ConfigMap"]
        for box in pod["spec"]["containers"]:
            assert all(mount["name"] in volumes for mount in box["volumeMounts"]), box
    for service in by_kind["Service"]:
        assert any(service["spec"]["selector"].items() <= pod["metadata"]["labels"].items() for pod in pods), service
    hosts = by_kind["StatefulSet"][0]
    assert hosts["spec"]["serviceName"] in names["Service"]
    # The cluster file inside is one: `up --slurm` reads it and prints a script without starting anything.
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "cluster.yaml"
        file.write_text(by_kind["ConfigMap"][0]["data"]["cluster.yaml"])
        done = subprocess.run([PROGRAM, "up", str(file), "--slurm"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"--nodes={hosts['spec']['replicas']}" in done.stdout, done.stdout


container()
kubernetes()
print("manifests: fine")

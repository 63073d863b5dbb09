"""Writes what is linked into the binary: a bill of materials (CycloneDX 1.5) and the licences of all crates.

    python3 packaging/inventory.py TARGET FOLDER

TARGET is a triple of rustc; FOLDER gets `sbom.cdx.json` and `THIRD-PARTY-LICENCES.txt`. Both are the same for the same
Cargo.lock, whenever and wherever they are made. Exits with 1 if a crate states no licence or no text of one is found.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

TEXTS = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def linked(metadata):
    """Ids of the crates that the binary links: neither for tests nor for building."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, left = set(), [metadata["resolve"]["root"]]
    while left:
        crate = left.pop()
        if crate in found:
            continue
        found.add(crate)
        for dependency in nodes[crate]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                left.append(dependency["pkg"])
    return found, nodes


def url(crate):
    return f"pkg:cargo/{crate['name']}@{crate['version']}"


def component(crate, checksums):
    record = {
        "type": "library",
        "bom-ref": url(crate),
        "name": crate["name"],
        "version": crate["version"],
        "purl": url(crate),
        "licenses": [{"expression": crate["license"].replace("/", " OR ")}],
    }
    checksum = checksums.get((crate["name"], crate["version"]))
    if checksum:
        record["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if crate.get("repository"):
        record["externalReferences"] = [{"type": "vcs", "url": crate["repository"]}]
    return record


def texts(crate):
    """Licence texts that come with a crate."""
    folder = pathlib.Path(crate["manifest_path"]).parent
    named = [crate["license_file"]] if crate.get("license_file") else []
    lying = [path.name for path in folder.iterdir() if path.is_file() and TEXTS.match(path.name)]
    paths = sorted({folder / name for name in named + lying})
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in paths]


def main(target, folder):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    lock = tomllib.loads(pathlib.Path("Cargo.lock").read_text(encoding="utf-8"))
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}
    ids, nodes = linked(metadata)
    crates = {crate["id"]: crate for crate in metadata["packages"] if crate["id"] in ids}
    root = crates[metadata["resolve"]["root"]]
    unstated = [url(crate) for crate in crates.values() if not crate["license"]]
    if unstated:
        sys.exit(f"no licence is stated by {', '.join(unstated)}")
    others = sorted((crate for crate in crates.values() if crate is not root), key=url)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**component(root, {}), "type": "application"}},
        "components": [component(crate, checksums) for crate in others],
        "dependencies": [
            {
                "ref": url(crates[crate]),
                "dependsOn": sorted({url(crates[d["pkg"]]) for d in nodes[crate]["deps"] if d["pkg"] in crates}),
            }
            for crate in sorted(crates, key=lambda crate: url(crates[crate]))
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sbom.cdx.json").write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    by_text = {}
    without = []
    for crate in (crate for crate in others if crate["source"]):  # The crates of this repository have its licence.
        found = texts(crate)
        for text in found:
            by_text.setdefault(text, []).append(f"{crate['name']} {crate['version']} ({crate['license']})")
        if not found:
            without.append(f"{crate['name']} {crate['version']} ({crate['license']})")
    with open(folder / "THIRD-PARTY-LICENCES.txt", "w", encoding="utf-8") as out:
        out.write("What is linked into attache, and the terms of each crate.\n")
        for text, names in sorted(by_text.items(), key=lambda item: item[1]):
            out.write(f"\n{'=' * 80}\n" + "\n".join(names) + f"\n{'-' * 80}\n{text}\n")
        out.write(f"\n{'=' * 80}\nWithout a text of their own; the terms are those above that they name:\n")
        out.write("\n".join(without) + "\n")
    print(f"{len(others)} crates; {len(by_text)} texts; {len(without)} crates name their terms only")


main(sys.argv[1], pathlib.Path(sys.argv[2]))

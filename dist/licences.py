#!/usr/bin/env python3
"""Prints the crates that the command is linked from, with their licences and the texts of these.

    python3 dist/licences.py --features parquet > THIRD-PARTY.md
"""
import json
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TEXTS = ("license", "licence", "copying", "notice", "unlicense")


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main():
    chosen = sys.argv[1:]
    tree = ["tree", "--locked", "-p", "tracing-gpu-cli", "-e", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    linked = {tuple(line.split()[:2]) for line in cargo(*tree, *chosen).splitlines() if line}
    packages = json.loads(cargo("metadata", "--locked", "--format-version", "1"))["packages"]
    others = [one for one in packages if one["source"] and (one["name"], "v" + one["version"]) in linked]
    print("# Crates in `tracing-gpu`\n")
    print("| crate | version | licence |\n|---|---|---|")
    for one in others:
        print(f"| {one['name']} | {one['version']} | {one['license']} |")
    print("\nSQLite, which `libsqlite3-sys` builds, is in the public domain.")
    texts = {}
    for one in others:
        folder = os.path.dirname(one["manifest_path"])
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if name.lower().startswith(TEXTS) and os.path.isfile(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    texts.setdefault(file.read().strip(), []).append(one["name"])
    for text, names in texts.items():
        print(f"\n## {', '.join(sorted(set(names)))}\n\n```text\n{text}\n```")


if __name__ == "__main__":
    main()

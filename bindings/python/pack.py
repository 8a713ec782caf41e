#!/usr/bin/env python3
"""pack.py: packs the wheel of the Python package: its modules, the libraries, the command, headers and recordings.

    pack.py --out FOLDER --source DIR [--tag TAG] KIND=FILE...

KIND: lib, lib/weir, bin: the folder of the file in the package's prefix. Uses nothing but Python's own library, so it needs no
network. The same files give the same bytes. Prints the wheel's path.
"""
import argparse
import base64
import glob
import hashlib
import os
import re
import sys
import zipfile

METADATA = """Metadata-Version: 2.1
Name: weir
Version: {version}
Summary: Memory allocators for AI accelerators: pools, heaps, replay of recorded traffic
License: {licence}
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Provides-Extra: pandas
Requires-Dist: pandas; extra == 'pandas'
Description-Content-Type: text/markdown

"""


def version_of(source):
    """The version of base.h."""
    with open(os.path.join(source, "core/include/weir/base.h"), encoding="utf-8") as header:
        return ".".join(re.findall(r"define WEIR_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read()))


def contents(source, files):
    """Yields (name in the wheel, path, is a program)."""
    package = os.path.join(source, "bindings/python/weir")
    for path in sorted(glob.glob(os.path.join(package, "*.py"))) + [os.path.join(package, "py.typed")]:
        yield f"weir/{os.path.basename(path)}", path, False
    for path in sorted(glob.glob(os.path.join(source, "core/include/weir/*.h"))
                       + glob.glob(os.path.join(source, "bindings/host/*/include/weir/*.h"))):
        yield f"weir/_prefix/include/weir/{os.path.basename(path)}", path, False
    yield "weir/_prefix/share/weir/weir_c10.hpp", os.path.join(source, "bindings/host/engines/adapters/weir_c10.hpp"), False
    yield "weir/_prefix/share/weir/replay.schema.json", os.path.join(source, "benchmarks/weir/command/replay.schema.json"), False
    for path in sorted(glob.glob(os.path.join(source, "benchmarks/traces/*.wtr.xz"))):
        yield f"weir/_prefix/share/weir/traces/{os.path.basename(path)}", path, False
    for word in files:
        kind, path = word.split("=", 1)
        # A library is found by the name that a program records: libweir.so.0.1
        name = re.sub(r"(\.so\.\d+\.\d+)\.\d+$", r"\1", os.path.basename(os.path.realpath(path)))
        yield f"weir/_prefix/{kind}/{name}", os.path.realpath(path), True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--tag", default="linux_x86_64")
    parser.add_argument("files", nargs="+")
    settings = parser.parse_args()
    version = version_of(settings.source)
    info = f"weir-{version}.dist-info"
    with open(os.path.join(settings.source, "LICENSE"), encoding="utf-8") as file:
        licence = file.readline().strip()
    with open(os.path.join(settings.source, "docs/python.md"), encoding="utf-8") as file:
        guide = file.read()
    entries = [(name, open(path, "rb").read(), program) for name, path, program in contents(settings.source, settings.files)]
    entries += [(f"{info}/METADATA", (METADATA.format(version=version, licence=licence) + guide).encode(), False),
                (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: weir\nRoot-Is-Purelib: false\nTag: py3-none-{settings.tag}\n"
                 .encode(), False),
                (f"{info}/entry_points.txt", b"[console_scripts]\nweir = weir._command:main\n", False),
                (f"{info}/LICENSE", open(os.path.join(settings.source, "LICENSE"), "rb").read(), False)]
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
                     for name, data, _ in entries)
    entries.append((f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), False))
    os.makedirs(settings.out, exist_ok=True)
    path = os.path.join(settings.out, f"weir-{version}-py3-none-{settings.tag}.whl")
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data, program in entries:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    os.replace(path + ".part", path)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

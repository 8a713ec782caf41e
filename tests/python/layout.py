"""layout.py SOURCE CC FOLDER: compares the structs and the functions of weir/_c.py with the headers, by a C program that prints
the offset of each member, and by the declarations of the functions."""
import ctypes
import glob
import re
import subprocess
import sys

from weir import _c
from weir._pool import _Pressure

SOURCE, CC, FOLDER = sys.argv[1:4]
HEADERS = [path for pattern in ("core/include/weir/*.h", "allocators/include/weir/*.h", "bindings/*/include/weir/*.h",
                                "bindings/*/*/include/weir/*.h") for path in glob.glob(f"{SOURCE}/{pattern}")]
failures = 0


def complain(text):
    global failures
    failures += 1
    print("FAILED:", text)


def layouts():
    """Compares sizes, and the offset and size of each member."""
    names = ("heap", "sim", "acl", "cuda", "budget", "sleep", "reserve")
    lines = ["#include <stdio.h>", *(f"#include <weir/{name}.h>" for name in names), "int main(void)", "{"]
    expected = []
    for struct in (*_c.STRUCTS, _Pressure):
        c_name = struct.c_name
        lines.append(f'    printf("{c_name} %zu\\n", sizeof({c_name}));')
        expected.append(f"{c_name} {ctypes.sizeof(struct)}")
        for name, *_ in struct._fields_:
            lines.append(f'    printf("{c_name}.{name} %zu %zu\\n", offsetof({c_name}, {name}), sizeof((({c_name} *)0)->{name}));')
            member = getattr(struct, name)
            expected.append(f"{c_name}.{name} {member.offset} {member.size}")
    lines += ["    return 0;", "}"]
    with open(f"{FOLDER}/layout.c", "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    folders = {path.rsplit("/weir/", 1)[0] for path in HEADERS}
    subprocess.run([CC, "-std=c11", *(f"-I{folder}" for folder in folders), f"{FOLDER}/layout.c", "-o", f"{FOLDER}/layout"], check=True)
    found = subprocess.run([f"{FOLDER}/layout"], stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")[:-1]
    for one, other in zip(expected, found):
        if one != other:
            complain(f"weir/_c.py has {one}, the headers have {other}")
    print(len(expected), "sizes and members")


def kind_of_c(text):
    """Returns the kind of a parameter or a result in C: a pointer, or the size and sign of a number."""
    text = re.sub(r"\bconst\b", "", text).strip()
    if "*" in text or re.search(r"weir_(reclaim|oom_callback)", text):
        return "pointer"
    base = text.split()[0]
    return {"void": "void", "bool": "bool", "double": "double", "int": "i4", "size_t": "u8", "unsigned": "u4"}.get(base) or (
        "u4" if base == "weir_tag" else f"{'u' if base[0] == 'u' else 'i'}{int(re.sub('[^0-9]', '', base)) // 8}"
        if re.fullmatch(r"u?int\d+_t", base) else "i4")


def kind_of_python(kind):
    """The same of ctypes."""
    if kind is None:
        return "void"
    if kind in (ctypes.c_void_p, ctypes.c_char_p) or hasattr(kind, "contents"):
        return "pointer"
    if kind is ctypes.c_bool:
        return "bool"
    sign = "i" if kind(-1).value == -1 else "u"
    return f"{sign}{ctypes.sizeof(kind)}"


def functions():
    """Compares results and parameters."""
    text = ""
    for path in HEADERS:
        with open(path, encoding="utf-8") as file:
            text += file.read()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    declared = {name: (result, parameters) for result, name, parameters in
                re.findall(r"WEIR_API ([\w\s*]*?[\s*])(\w+)\(([^;]*?)\)(?: WEIR_PRINTF\([^)]*\))?;", text)}
    count = 0
    for table in (_c._WEIR, _c._ACL, _c._CUDA):
        for name, (result, parameters) in table.items():
            count += 1
            if name not in declared:
                complain(f"no header declares {name}")
                continue
            c_result, c_parameters = declared[name]
            c_kinds = [] if c_parameters.strip() == "void" else [kind_of_c(p) for p in c_parameters.split(",")]
            kinds = [kind_of_python(kind) for kind in parameters]
            if (kind_of_c(c_result), c_kinds) != (kind_of_python(result), kinds):
                complain(f"{name}: {kind_of_python(result)} {kinds} in weir/_c.py, {kind_of_c(c_result)} {c_kinds} in the headers")
    print(count, "functions")


layouts()
functions()
sys.exit(failures != 0)

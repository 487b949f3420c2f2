"""Whether a wheel has all that belongs in it: python3 .ci/wheel_contents.py WHEEL"""

import re
import sys
import zipfile

NEEDED = [
    r"stride_pipe/_core\.abi3\.so",
    r"stride_pipe/_core\.pyi",
    r"stride_pipe/py\.typed",
    r"stride_pipe/__init__\.py",
    r"stride_pipe\.libs/libopenblas.*\.so.*",
    r"[^/]+\.dist-info/entry_points\.txt",
    *(
        rf"[^/]+\.dist-info/licenses/{name}"
        for name in ["LICENSE-MIT", "LICENSE-APACHE", r"licenses/OpenBLAS\.txt", r"licenses/GCC-runtime\.txt", r"licenses/GPL-3\.txt",
                     r"licenses/LGPL-2\.1\.txt"]
    ),
]
# A library that is brought along, and the file that has its licence.
NOTICES = {"libopenblas": "OpenBLAS", "libgfortran": "GCC-runtime", "libquadmath": "GCC-runtime"}

with zipfile.ZipFile(sys.argv[1]) as wheel:
    full = {entry.filename for entry in wheel.infolist() if entry.file_size or entry.filename.endswith("py.typed")}
missing = [pattern for pattern in NEEDED if not any(re.fullmatch(pattern, name) for name in full)]
brought = [name.split("/")[1] for name in full if name.startswith("stride_pipe.libs/")]
unnoticed = [name for name in brought if not name.startswith(tuple(NOTICES))]
if missing or unnoticed:
    sys.exit(f"{sys.argv[1]}: missing: {missing}; brought along without a notice in python/licenses: {unnoticed}")
print(f"dist: the wheel has its licences, types and libraries: {', '.join(sorted(brought))}")

"""What `check` can be given: CUDA sources, objects, libraries, programs; and what it says where
nvcc or cuobjdump is missing."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.programs.faults.cases import HERE as FAULTS
from ptxsw.toolchain import programs
from ptxsw.toolchain.inputs import UnreadableInput, cubins_of, files_in, ptx_of
from tests.command_line import ptxsw

NVCC = shutil.which("nvcc")
CUOBJDUMP = next(programs.places("cuobjdump"), None)
ELF = b"\x7fELF\x02\x01\x01" + bytes(11)


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "places", lambda name, environ=None: iter(()))


def test_files_of_directories_come_once_and_in_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    names = ["b.ptx", "a.ptx", "sub/c.ptx", "notes.txt"]
    for name in names:
        (tmp_path / name).write_text("")
    one = str(tmp_path / "b.ptx")
    found = files_in([one, str(tmp_path)])
    assert [str(Path(f).relative_to(tmp_path)) for f in found] == ["b.ptx", "a.ptx", "sub/c.ptx"]


@pytest.mark.usefixtures("nothing_installed")
def test_without_a_compiler_the_message_says_what_to_install(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("")
    with pytest.raises(UnreadableInput) as error:
        ptx_of(str(source))
    assert str(error.value) == (
        f"{source}: no nvcc and no clang++ found to compile it; install a CUDA toolkit, or "
        "`pip install 'ptxsw[nvcc]'`"
    )


def test_clang_compiles_where_there_is_no_nvcc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a script that writes its arguments as the PTX. (clang 19 was run with CUDA 12.4.)"""
    clang = tmp_path / "clang++"
    clang.write_text("""#!/bin/sh
case "$*" in *-DBROKEN*) echo "k.cu:1:1: error: expected unqualified-id" >&2; exit 1;; esac
case "$*" in *-DALONE*) echo "clang: error: cannot find CUDA installation; …" >&2; exit 1;; esac
for out; do :; done
printf '%s\\n' "$@" > "$out"
""")
    clang.chmod(0o755)
    monkeypatch.setattr(
        programs, "places", lambda name: iter([str(clang)] if name == "clang++" else [])
    )
    source = str(tmp_path / "k.cu")
    Path(source).write_text("")
    (made,) = ptx_of(source, "sm_90", ["-Iinclude"])
    *given, _, out = made.text.splitlines()
    assert given == [
        "-x", "cuda", "--cuda-device-only", "-S", "-O3", "-gline-tables-only",
        "--cuda-gpu-arch=sm_90", "-Iinclude", source,
    ]  # fmt: skip
    assert out.endswith("/out.ptx")
    with pytest.raises(UnreadableInput) as error:
        ptx_of(source, None, ["-DBROKEN"])
    assert str(error.value) == (
        f"{source}: clang++ could not compile it:\nk.cu:1:1: error: expected unqualified-id"
    )
    with pytest.raises(UnreadableInput) as error:
        ptx_of(source, None, ["-DALONE"])
    assert str(error.value).splitlines()[1:] == [
        "clang: error: cannot find CUDA installation; …",
        "install a CUDA toolkit, or `pip install 'ptxsw[nvcc]'`",
    ]


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("read", [ptx_of, cubins_of])
def test_without_cuobjdump_the_message_says_what_to_install(read: object, tmp_path: Path) -> None:
    made = tmp_path / "a.out"
    made.write_bytes(ELF + bytes(64))
    assert callable(read)
    with pytest.raises(UnreadableInput) as error:
        read(str(made))
    assert str(error.value) == (
        f"{made}: no cuobjdump found; install nvidia-cuda-cuobjdump with pip, or a CUDA toolkit"
    )


def test_a_cubin_holds_no_ptx(tmp_path: Path) -> None:
    made = tmp_path / "k.cubin"
    made.write_bytes(ELF[:18] + (190).to_bytes(2, "little") + bytes(64))
    with pytest.raises(UnreadableInput, match="a cubin contains no PTX; --resources can check it"):
        ptx_of(str(made))
    assert [one.name for one in cubins_of(str(made))] == [str(made)]


@pytest.fixture
def extracting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """An object in which a script, run as cuobjdump, finds the text of a faulty kernel if it is
    given the very bytes."""
    content = ELF + b"of an object" + bytes(32)
    (tmp_path / "wanted").write_bytes(content)
    fake = tmp_path / "cuobjdump"
    tile = next((Path(__file__).parent / "ptx").glob("*.ptx"))
    fake.write_text(
        f'#!/bin/sh\ncmp "{tmp_path}/wanted" "$3" || exit 1\n'
        f'if [ "$1" = -xptx ]; then cp "{tile}" k.sm_80.ptx; fi\n'
    )
    fake.chmod(0o755)
    monkeypatch.setattr(programs, "locate", lambda name, advice: str(fake))
    return content


COMMANDS = (
    "check {}", "analyze {}", "report {}", "predict {} --no-rewrites", "optimize {} -o out.ptx",
    "verify {} {}",
)  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_takes_an_object_and_standard_input(
    line: str, extracting: bytes, tmp_path: Path
) -> None:
    """And says the same of both; `-` is an object or a text."""
    (tmp_path / "k.o").write_bytes(extracting)
    command = line.format("k.o", "k.o").split()
    done = ptxsw(*command, cwd=tmp_path)
    assert done.returncode in (0, 1) and done.stderr == b"", done.stderr
    piped = ptxsw(*line.format("-", "k.o").split(), cwd=tmp_path, stdin=extracting)
    assert (piped.returncode, piped.stderr) == (done.returncode, b"")
    assert piped.stdout == done.stdout.replace(b" k.o:k", b" <stdin>:k").replace(
        b"k.o:k.sm_80.ptx", b"<stdin>:k.sm_80.ptx"
    )


def test_standard_input_among_files(tmp_path: Path) -> None:
    """Each file is read for itself; standard input is read once, however many processes work."""
    tile = next((Path(__file__).parent / "ptx").glob("*.ptx"))
    shutil.copy(tile, tmp_path / "k.ptx")
    given = ("check", "--format", "json", "--jobs", "2")
    done = ptxsw(*given, "-", "k.ptx", cwd=tmp_path, stdin=tile.read_bytes())
    kernels = [each["file"] for each in json.loads(done.stdout)["kernels"]]
    assert sorted(set(kernels)) == ["<stdin>", "k.ptx"]
    assert ptxsw("check", "-", stdin=b"\xff\x00").stderr == (
        b"<stdin>: neither PTX nor CUDA nor an object: byte 0 is not UTF-8\n"
    )


def test_names_that_cuobjdump_would_lose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of one name in a library overwrite each other: that is told, not passed over."""
    fake = tmp_path / "cuobjdump"
    said = "Extracting PTX file and ptxas options    {}: k.sm_80.ptx -arch=sm_80\\n"
    fake.write_text(f'#!/bin/sh\nprintf "{said.format(1)}{said.format(2)}"\ntouch k.sm_80.ptx\n')
    fake.chmod(0o755)
    monkeypatch.setattr(programs, "locate", lambda name, advice: str(fake))
    library = tmp_path / "lib.a"
    library.write_bytes(b"!<arch>\n")
    with pytest.raises(UnreadableInput, match=r"several members are called k.sm_80.ptx"):
        ptx_of(str(library))


# ---------------------------------------------------------------- real compilers


def test_a_source_that_does_not_compile(tmp_path: Path) -> None:
    if NVCC is None:
        pytest.skip("no nvcc")
    (tmp_path / "k.cu").write_text("__global__ void f() { nonsense; }\n")
    done = ptxsw("check", "k.cu", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(b"k.cu: nvcc could not compile it:\nk.cu(1): error: ")


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None or CUOBJDUMP is None, reason="no nvcc, or no cuobjdump")
def test_sources_objects_libraries_and_programs(tmp_path: Path) -> None:
    """They all say the same of the same kernel."""
    shutil.copy(FAULTS / "cuda" / "tile.cu", tmp_path)
    (tmp_path / "main.cu").write_text("int main() { return 0; }\n")
    flags = ["-lineinfo", "-gencode", "arch=compute_90,code=[sm_90,compute_90]"]
    assert NVCC is not None
    for command in (
        [NVCC, *flags, "-c", "tile.cu", "main.cu"],
        ["ar", "rcs", "lib.a", "tile.o"],
        [NVCC, *flags, "tile.o", "main.o", "-o", "a.out"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    for name in ("tile.cu", "tile.o", "lib.a", "a.out"):
        more = ("--arch", "sm_90") if name == "tile.cu" else ()
        done = ptxsw("check", name, *more, cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        first = done.stdout.decode().splitlines()[0]
        assert first.startswith("tile.cu:16:5: warning: ")
        assert first.endswith("[ptxsw-bank-conflicts]")


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None or CUOBJDUMP is None, reason="no nvcc, or no cuobjdump")
def test_members_of_one_name_are_all_read(tmp_path: Path) -> None:
    """cuobjdump writes them to one file: in libraries of a build with directories, and in every
    shared library, where the linker adds a cubin of its own."""
    flags = [str(NVCC), "-gencode", "arch=compute_90,code=[sm_90,compute_90]"]
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        source = tmp_path / name / "k.cu"
        source.write_text(f"__global__ void {name}(float *a) {{ a[threadIdx.x] = 0; }}\n")
        subprocess.run([*flags, "-lineinfo", "-c", "k.cu"], cwd=source.parent, check=True)
    members = ["first/k.o", "second/k.o"]
    shared = [*flags, "-shared", "-Xcompiler", "-fPIC", "first/k.cu", "second/k.cu"]
    subprocess.run(["ar", "rcs", "lib.a", *members], cwd=tmp_path, check=True)
    subprocess.run([*shared, "-o", "lib.so"], cwd=tmp_path, check=True)
    for library in ("lib.a", "lib.so"):
        texts = ptx_of(str(tmp_path / library))
        assert [name for each in texts for name in ("first", "second") if name in each.text] == [
            "first", "second",
        ]  # fmt: skip
        done = ptxsw("check", library, "--resources", cwd=tmp_path)
        assert done.returncode == 0 and b"first" in done.stdout and b"second" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None or CUOBJDUMP is None, reason="no nvcc, or no cuobjdump")
def test_analyze_and_report_take_them_too(tmp_path: Path) -> None:
    shutil.copy(FAULTS / "cuda" / "sampled.cu", tmp_path)
    assert NVCC is not None
    for source in ("sampled", "second"):
        shutil.copy(FAULTS / "cuda" / "sampled.cu", tmp_path / f"{source}.cu")
        subprocess.run([NVCC, "-lineinfo", "-c", f"{source}.cu"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rcs", "lib.a", "sampled.o", "second.o"], cwd=tmp_path, check=True)
    shown = [ptxsw("analyze", name, cwd=tmp_path) for name in ("sampled.cu", "sampled.o")]
    assert [done.returncode for done in shown] == [0, 0]
    assert shown[0].stdout == shown[1].stdout != b""
    assert ptxsw("report", "sampled.o", "--html", "k.html", cwd=tmp_path).returncode == 0
    assert "2.0f * in[i * STEP]" in (tmp_path / "k.html").read_text()  # the source beside it
    done = ptxsw("analyze", "lib.a", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(b"lib.a: it holds 2 texts (sampled.sm_")

"""The files that make packages agree with the package, and pass checks without network."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import in_text

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HOOK = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
    "wheel"
]["hooks"]["custom"]
BIN = Path(sys.executable).parent


@pytest.fixture
def make() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "release" / "make.py"))


def requirements(given: list[str]) -> dict[str, str]:
    """Versions by names, as in `>=1.2,<2`."""
    return {
        name: ",".join(sorted(versions.replace(" ", "").split(",")))
        for name, versions in (re.fullmatch(r"([\w-]+)(.*)", one).groups() for one in given)  # type: ignore[union-attr]
    }


WANTED = requirements(PROJECT["dependencies"])
PYTHON = PROJECT["requires-python"]

# ---------------------------------------------------------------- recipes


def test_conda_wants_what_the_package_wants() -> None:
    text = (ROOT / "release" / "conda" / "recipe.yaml").read_text()
    host, run = re.findall(r"^  (?:host|run):\n((?:    - .*\n)+)", text, re.MULTILINE)
    run_lines = re.findall(r"- (.*)", run)
    assert run_lines.pop(0) == "python >=${{ python_min }}"
    assert requirements(run_lines) == WANTED
    build = [*re.findall(r"- (?!python|pip)(.*)", host)]
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert requirements(build) == requirements([*system, *HOOK["dependencies"]])
    points = dict(re.findall(r"      - (\S+) = (\S+)$", text, re.MULTILINE))
    assert points == PROJECT["scripts"]


def spack() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """What the recipe says, by directive."""
    said: dict[str, list[tuple[str, dict[str, Any]]]] = {}

    def directive(name: str) -> Callable[..., None]:
        return lambda first, **more: said.setdefault(name, []).append((first, more))

    source = (ROOT / "release" / "spack" / "package.py").read_text()
    body = re.sub(r"^from spack.*\n", "", source, flags=re.MULTILINE)
    names = {name: directive(name) for name in ("license", "version", "variant", "depends_on")}
    exec(compile(body, "package.py", "exec"), {"PythonPackage": object, **names})
    return said


def test_spack_wants_what_the_package_wants() -> None:
    """Its ranges end with the last one that fits: `@1.2:1` is `>=1.2,<2`."""
    wanted = {}
    for spec, more in spack()["depends_on"]:
        name, _, versions = spec.partition("@")
        if "run" in more["type"] and name not in ("python", "cuda"):
            least, _, last = versions.partition("+")[0].partition(":")
            *head, end = last.split(".")
            below = ".".join((*head, str(int(end) + 1))) if last else ""
            package = name.removeprefix("py-").replace("z3", "z3-solver")
            wanted[package] = ",".join(
                sorted(one for one in (f">={least}", below and f"<{below}") if one)
            )
    assert wanted == WANTED
    assert f"python@{PYTHON.removeprefix('>=')}:" in [spec for spec, _ in spack()["depends_on"]]


def test_the_lock_has_a_version_that_is_allowed_and_tested() -> None:
    """`make` takes that one; `make newest` takes the newest that is allowed."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    [locked] = [one["version"] for one in lock["package"] if one["name"] == "z3-solver"]
    least, below = re.findall(r"[\d.]+", WANTED["z3-solver"].replace("<", " "))[::-1]
    numbers = [tuple(map(int, each.split("."))) for each in (least, locked, below)]
    assert numbers == sorted(numbers)
    done = subprocess.run(
        ["make", "-n", "-B", ".venv/dev.stamp", "PYTHON=python3"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert f"z3-solver=={locked}" in done.stdout


# ---------------------------------------------------------------- a release


def test_versions_agree(make: dict[str, Any], tmp_path: Path) -> None:
    from ptxsw import __version__

    assert make["version"](ROOT) == __version__
    for name in ("ptxsw", "release/conda", "release/spack"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("ptxsw/__init__.py", "release/conda/recipe.yaml", "release/spack/package.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CITATION.cff").write_text("version: 9.9.9\n")
    with pytest.raises(SystemExit, match=r"^CITATION.cff says version 9.9.9, ptxsw/__init__"):
        make["version"](tmp_path)


CHANGES = "# Changelog\n\n## 0.3.0 (unreleased)\n\n- new\n\n## 0.2.0 (2026-12-01)\n\n- old\n"


def test_notes_are_the_changes_of_the_version(make: dict[str, Any]) -> None:
    assert make["notes"](CHANGES, "0.2.0", "v0.2.0") == "- old\n"
    assert make["notes"](CHANGES, "0.3.0", None) == "- new\n"
    for number, tag, said in (
        ("0.4.0", None, "CHANGELOG.md has no changes of 0.4.0"),
        ("0.2.0", "v0.2.1", "the tag is v0.2.1, the version 0.2.0"),
        ("0.3.0", "v0.3.0", 'CHANGELOG.md: give "0.3.0 (unreleased)" its date'),
    ):
        with pytest.raises(SystemExit) as error:
            make["notes"](CHANGES, number, tag)
        assert str(error.value) == said
    from ptxsw import __version__

    assert make["notes"]((ROOT / "CHANGELOG.md").read_text(), __version__, None)


def test_links_lead_to_who_releases(make: dict[str, Any]) -> None:
    """Without a name there is no link, rather than a wrong one."""
    text = (ROOT / "pyproject.toml").read_text()
    urls = tomllib.loads(make["linked"](text, "someone/ptxsw"))["project"]["urls"]
    assert urls["Issues"] == "https://github.com/someone/ptxsw/issues"
    assert list(tomllib.loads(make["linked"](text, None))["project"]["urls"]) == ["Paper"]
    assert make["linked"]("uses: OWNER/ptxsw@v1", "a/ptxsw") == "uses: a/ptxsw@v1"


def test_the_hosted_release_runs_ours_on_every_python() -> None:
    """And publishes nothing that was not installed first."""
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    for said in (
        "run: make packages\n",
        " make release\n",
        "run: python .ci/installed dist/*.whl ",
    ):
        assert said in text
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert (
        re.findall(r'"(3\.\d+)"', text.partition("matrix:")[2].partition("steps:")[0]) == classified
    )
    assert "    needs: [files, installed, image, conda]\n    if: github.ref_type == 'tag'\n" in text


# ---------------------------------------------------------------- man pages and the reference


def manual() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "release" / "manual.py"))


def test_every_command_and_option_is_in_the_manual() -> None:
    functions = manual()
    pages = functions["man_pages"]("1.2.3")
    site = functions["on_page_markdown"]("# Commands\n\n" + functions["MARKER"])
    commands = re.findall(r"^  ([a-z]+)  ", in_text("--help", cwd=ROOT).stdout, re.MULTILINE)
    commands = [name for name in commands if f"ptxsw-{name}.1" in pages]
    assert len(commands) == len(pages) - 1 >= 16
    for name in commands:
        page = pages[f"ptxsw-{name}.1"].replace("\\-", "-")
        section = site.partition(f"\n## ptxsw {name}\n")[2].partition("\n## ")[0]
        options = re.findall(
            r"^  (?:-\w, )?(--[\w-]+)", in_text(name, "--help", cwd=ROOT).stdout, re.M
        )
        assert options, name
        for option in options:
            assert option in page and option in section, (name, option)
    assert functions["on_page_markdown"]("# Another page\n") == "# Another page\n"


def test_lines_of_examples_stay_and_nothing_commands_troff() -> None:
    functions = manual()
    page = functions["Page"](
        "ptxsw x",
        "does 'x'",
        "ptxsw x",
        (functions["Block"]("a\n.so b\n  'c \\d", exact=True),),
        (),
    )
    assert functions["_man"](page, "1", ["ptxsw"]).splitlines()[7:] == [
        ".nf", "a", "\\&.so b", "  'c \\ed", ".fi", ".SH SEE ALSO", ".BR ptxsw (1)",
    ]  # fmt: skip
    assert functions["_markdown"](page).endswith("```text\na\n.so b\n  'c \\d\n```\n")


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_man_pages_are_right_for_groff(tmp_path: Path) -> None:
    for name, text in manual()["man_pages"]("1.2.3").items():
        (tmp_path / name).write_text(text, encoding="ascii")
    command = ["groff", "-man", "-Tutf8", "-Kutf8", "-ww", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if "adjust line" not in line]
    assert (done.returncode, said) == (0, [])


# ---------------------------------------------------------------- tools that check


def tool(name: str) -> str:
    path = shutil.which(name, path=f"{BIN}:/usr/bin")
    if path is None:
        pytest.skip(f"no {name}")
    return path


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("hadolint", ("release/docker/Dockerfile",)),
        ("shellcheck", ("-s", "sh", ".ci/builds", ".ci/everything", ".ci/run")),
        ("shellcheck", (".ci/check-action",)),
        ("zizmor", ("--offline", "--quiet", ".github", "action.yml")),
        ("validate-pyproject", ("pyproject.toml",)),
    ],
    ids=["image", "scripts", "script of the action", "workflows", "metadata"],
)  # fmt: skip
def test_a_checker_has_nothing_to_say(name: str, arguments: tuple[str, ...]) -> None:
    done = subprocess.run([tool(name), *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(find_spec("rattler_build") is None, reason="no rattler_build")
def test_the_recipe_for_conda_renders() -> None:
    import rattler_build

    recipe = rattler_build.Stage0Recipe.from_file(ROOT / "release" / "conda" / "recipe.yaml")
    variants = rattler_build.VariantConfig({"python_min": ["3.11"]})
    [rendered] = recipe.render(variants)
    assert str(rendered.recipe.package.name) == "ptxsw"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("build") is None, reason="no build")
def test_the_wheel_works_alone(tmp_path: Path) -> None:
    """Whatever a command reads is in it; the man pages are, too."""
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
         "--ignore-installed", "--prefix", str(tmp_path / "prefix"), str(wheel)], check=True,
    )  # fmt: skip
    [site] = (tmp_path / "prefix").glob("lib/*/site-packages")
    assert len(list((tmp_path / "prefix" / "share" / "man" / "man1").iterdir())) >= 17
    (tmp_path / "k.ptx").write_text((ROOT / "tests/report/ptx/matmul.ptx").read_text())
    for words, status in (
        (("check", "k.ptx", "--format", "sarif", "--fail-on", "never"), 0),
        (("rule", "bank-conflicts"), 0),
        (("report", "k.ptx", "--html", "k.html"), 0),
        (("verify", "k.ptx", "k.ptx"), 0),
    ):
        program = "import ptxsw, sys; assert sys.argv.pop(1) in ptxsw.__file__; "
        program += "from ptxsw.__main__ import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program, str(site), *words], cwd=tmp_path,
            env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == status, done.stderr

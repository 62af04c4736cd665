"""ptxas says no: to a call that is wrong in itself, or to what we made of a good text. The first is
nothing to remember, the second is remembered with its reason and never hidden."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from ptxsw.report import schema
from tests.build.conftest import Build, Done, StandIn, environment, run

GOOD = ("-arch=sm_80", "jacobi.ptx", "-o", "out")
WRONG = {
    "a mistyped option": ("-arch=sm_80", "--maxregcount=32", "jacobi.ptx", "-o", "out"),
    "no such directory": ("-arch=sm_80", "jacobi.ptx", "-o", "no_such_dir/out"),
}

# A ptxas that does not know what we write; it notes each call.
OLD = """\
#!/bin/sh
echo >> calls
for argument; do
    if [ -f "$argument" ] && grep -q shfl.sync "$argument"; then
        echo "ptxas $argument, line 7; fatal   : Unknown instruction 'shfl'" >&2
        exit 255
    fi
done
exec {ptxas} "$@"
"""


@pytest.fixture
def old(build: Build) -> Build:
    """A build with a ptxas that refuses whatever we rewrite."""
    script = build.work / "old-ptxas"
    script.write_text(OLD.format(ptxas=build.ptxas))
    script.chmod(0o755)
    build.ptxas = str(script)
    return build


def reports(directory: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in directory.glob("*.json")]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_call_is_nothing_to_remember(wrong: str, build: Build, ptxas: str) -> None:
    """The user mends the call, and the text is rewritten as if nothing had been."""
    expected = run([ptxas, *WRONG[wrong]], build.work, environment(build.work, ptxas, {}))
    assert expected.status != 0
    assert build(*WRONG[wrong]) == expected
    assert build(*WRONG[wrong], PTXSW_STRICT="1") == expected, "the fault is not ours"
    assert build.log() == []
    for strict in ("0", "1"):
        done = build(*GOOD, PTXSW_STRICT=strict, PTXSW_REPORT="reports")
        assert done == Done(0, b"", b"")
        assert "rewritten" in build.log()[-1]
    [report] = reports(build.work / "reports")
    assert report["kernels"][0]["shuffles"] > 0  # type: ignore[index]
    assert b"1 file, " in build.ptxsw("cache", "info").stdout


def test_a_refusal_is_remembered_and_told_each_time(old: Build, ptxas: str) -> None:
    plain = environment(old.work, ptxas, {})
    assert run([ptxas, *GOOD[:-1], "plain"], old.work, plain).status == 0
    for calls in (2, 3):  # the rewritten text and the original; then the original at once
        done = old(*GOOD, PTXSW_REPORT="reports")
        assert done == Done(0, b"", b"")
        assert (old.work / "out").stat().st_size == (old.work / "plain").stat().st_size
        assert (old.work / "calls").read_text().count("\n") == calls
    reason = (
        "ptxas rejected the rewritten PTX (status 255): "
        "ptxas the rewritten text, line 7; fatal : Unknown instruction 'shfl'"
    )
    assert [f"left alone: {reason} [" in line for line in old.log()] == [True, True]
    [report] = reports(old.work / "reports")
    assert report["warning"] == reason
    jsonschema.validate(report, schema())
    [kernel] = report["kernels"]  # type: ignore[misc]
    assert (kernel["shuffles"], kernel["rewrites"]) == (0, [])  # type: ignore[has-type]
    assert reason in {refusal["reason"] for refusal in kernel["refusals"]}  # type: ignore[has-type]
    assert f"jacobi.ptx: {reason}".encode() in old.ptxsw("report", "reports").stdout
    assert b"1 file (1 rejected by ptxas)" in old.ptxsw("cache", "info").stdout
    assert b"(1 rejected by ptxas)" in old.ptxsw("doctor").stdout


@pytest.mark.parametrize("before", ["", "remembered"])
def test_strict_says_what_ptxas_refuses(before: str, old: Build) -> None:
    if before:
        assert old(*GOOD).status == 0
    (old.work / "out").unlink(missing_ok=True)
    done = old(*GOOD, PTXSW_STRICT="1")
    assert done.status == 255 and b"Unknown instruction 'shfl'" in done.stderr
    assert not (old.work / "out").exists()


def test_a_refusal_holds_for_its_options_and_its_ptxas(old: Build, ptxas: str) -> None:
    assert old(*GOOD).status == 0
    assert old(*GOOD, "-v").status == 0
    assert (old.work / "calls").read_text().count("\n") == 4, "-v is asked about anew"
    assert old(*GOOD[:-1], "other").status == 0
    assert (old.work / "calls").read_text().count("\n") == 5, "another file is not"
    old.ptxas = ptxas
    assert old(*GOOD).status == 0
    assert "rewritten" in old.log()[-1], "a newer ptxas is"


def test_a_refused_text_from_standard_input(work: Path, stand_in: StandIn, plain: StandIn) -> None:
    """It was read once; the original gets it from its start."""
    text = (work / "add.ptx").read_bytes()
    for _ in range(2):
        done = stand_in("-arch=sm_80", "-", "-o", "out", behaviour="bad", stdin=text)
        assert done == plain("-arch=sm_80", "-", "-o", "plain", stdin=text)
        assert (work / "out").stat().st_size == (work / "plain").stat().st_size
    assert (work / "log").read_text().count("left alone: ptxas rejected") == 2

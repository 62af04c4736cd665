"""The page of `ptxsw report --html`: what is in it, and how it behaves in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptxsw import pipeline
from ptxsw.report import html
from ptxsw.report.html import page
from tests.report.browser import Browser, available

ROOT = Path(__file__).parents[2]
KERNELGEN = ROOT / "benchmarks" / "kernelgen" / "ptx"


def made(text: str, name: str, scheme: str = "paper", form: str = "auto") -> str:
    options = pipeline.Options(mode="force", scheme=scheme, form=form, smt2=True)
    result = pipeline.inspect(text, options, name)
    return page(result.report, text, result.edits, result.smt2)


def long_text(lines: int) -> str:
    """One PTX of many kernels."""
    text = (KERNELGEN / "tricubic.ptx").read_text()
    start = text.index(".visible")
    parts, body = [text[:start]], text[start:]
    for number in range(lines // body.count("\n") + 1):
        parts.append(body.replace("tricubic", f"tricubic{number}").replace("BB0", f"BB{number}"))
    return "".join(parts)


def _data(path: Path) -> Any:
    """What the page gives its script."""
    [text] = re.findall(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    return json.loads(text)


@pytest.fixture(scope="module")
def jacobi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "jacobi.html"
    path.write_text(made((KERNELGEN / "jacobi.ptx").read_text(), "<jacobi & co>.ptx"))
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not available():
        pytest.skip("no chromium with chromedriver")
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


def test_the_page_needs_nothing_else(jacobi: Path) -> None:
    text = jacobi.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:|//)|@import|url\(""", text)
    assert "&lt;jacobi &amp; co&gt;.ptx" in text and "<jacobi" not in text
    data = _data(jacobi)
    [kernel] = data["report"]["kernels"]
    for rewrite in kernel["rewrites"]:
        stem = f"jacobi-{rewrite['line']}-from-{rewrite['source_line']}-"
        proofs = [proof for name, proof in data["proofs"].items() if name.startswith(stem)]
        assert proofs and all(proof.startswith("(set-logic QF_BV)") for proof in proofs)


def test_every_line_is_there(jacobi: Path) -> None:
    source = (KERNELGEN / "jacobi.ptx").read_text().splitlines()
    assert len(re.findall(r'<li id=."L\d+', jacobi.read_text().replace("\\u003c", "<"))) == len(
        source
    )


def test_clicking_a_load_shows_its_lanes(browser: Browser, jacobi: Path, tmp_path: Path) -> None:
    browser.open(jacobi)
    browser.click("#L76")
    detail = browser.run("return document.getElementById('detail').innerText")
    assert "jacobi, line 76: ld.global.nc.f32" in detail and "param_5[" in detail
    assert "line 70, by lane i-1" in detail and "lockstep-iterations" in detail
    count = "return document.querySelectorAll('#detail svg {}').length"
    assert browser.run(count.format(".used")) == 32  # bytes asked for
    assert browser.run(count.format(".arrow")) == 31  # lanes that are served
    assert browser.run(count.format(".own")) == 1
    assert browser.run("return document.querySelector('.after').textContent").count("shfl") == 1
    assert browser.run("return document.querySelector('.smt2').textContent").startswith("(set-")
    assert browser.run("return document.querySelectorAll('#ptx .mate').length") == 2
    assert browser.complaints() == []
    browser.screenshot(tmp_path / "jacobi.png")
    assert (tmp_path / "jacobi.png").stat().st_size > 10_000


def test_banks_before_and_after(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "banks.html"
    text = (ROOT / "benchmarks" / "programs" / "ptx" / "transpose-float.ptx").read_text()
    options = pipeline.Options(mode="force", rewrites=("bank-conflicts",), block=(32, 32, 1))
    result = pipeline.inspect(text, options, "transpose.ptx", block=(32, 32, 1))
    path.write_text(page(result.report, text, result.edits, result.smt2))
    browser.open(path)
    browser.click("#L58")
    detail = browser.run("return document.getElementById('detail').innerText")
    assert "32 wavefronts for a warp on average become 1." in detail
    count = "return document.querySelectorAll('#detail svg {}').length"
    assert browser.run(count.format(".bank")) == 64
    assert browser.run(count.format(".bank.busy")) == 1  # a column lies in one bank
    assert browser.complaints() == []


def test_keys_are_enough(browser: Browser, jacobi: Path) -> None:
    browser.open(jacobi)
    title = "return (document.querySelector('#detail h2') || {}).textContent"
    assert browser.run(title) is None
    browser.run("document.getElementById('L75').focus()")
    browser.keys("\ue007")  # Enter
    assert browser.run(title) == "jacobi, line 75: ld.global.nc.f32"
    browser.keys("j")
    assert browser.run("return document.activeElement.id") == "L76"
    browser.keys("kk")
    assert browser.run(title) == "jacobi, line 70: ld.global.nc.f32"
    browser.click("#diff")
    visible = "return getComputedStyle(document.querySelector('.new')).display"
    assert browser.run(visible) == "none"
    assert browser.complaints() == []


def test_a_long_file_opens_quickly(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "long.html"
    text = long_text(5000)
    assert text.count("\n") >= 5000
    path.write_text(made(text, "long.ptx"))
    assert path.stat().st_size < 5_000_000
    assert min(browser.open(path) for _ in range(3)) < 2
    browser.run("document.querySelector('.kernel:last-of-type summary').click()")
    browser.wait("return document.querySelector('.kernel:last-of-type table') !== null")
    browser.click(".kernel:last-of-type table:nth-of-type(3) tr:nth-of-type(2) a")
    assert browser.run("return document.querySelectorAll('#detail .arrow').length") > 20
    assert browser.complaints() == []


def test_a_halo_row_is_served_by_rotation(browser: Browser, tmp_path: Path) -> None:
    """Two lanes in the row's last load take what lies before the warp."""
    path = tmp_path / "halo.html"
    text = (KERNELGEN / "gaussblur.ptx").read_text()
    path.write_text(made(text, "gaussblur.ptx", "halo", "versioned"))
    browser.open(path)
    browser.click("#L108")
    count = "return document.querySelectorAll('#detail {}').length"
    assert browser.run(count.format(".arrow:not(.far)")) == 30
    assert browser.run(count.format(".arrow.far")) == 2
    assert browser.run(count.format(".own")) == 0
    detail = browser.run("return document.getElementById('detail').innerText")
    assert "one full load and one partial load" in detail and "versioned" in detail
    after = browser.run("return document.querySelector('.after').textContent").splitlines()
    assert after[-1].startswith("shfl.sync.idx.b32 %f29, ") and "selp.b32" in after[-2]
    assert sum("ld.global" in line and line.startswith("@") for line in after) == 1
    assert browser.complaints() == []


def test_elements_of_a_vector_have_sources_of_their_own(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "vector.html"
    text = (ROOT / "tests" / "shuffle" / "ptx" / "allowed.ptx").read_text()
    path.write_text(made(text, "allowed.ptx"))
    [rewrite] = [
        r
        for k in _data(path)["report"]["kernels"]
        for r in k["rewrites"]
        if len(r.get("parts", ())) > 1
    ][:1]
    browser.open(path)
    browser.run(f"location.hash = '#L{rewrite['line']}'; location.reload()")
    pictures = sum(1 for part in rewrite["parts"] if part["delta"] or part["mirror"])
    count = "return document.querySelectorAll('#detail {}').length"
    assert browser.run(count.format(".part")) == len(rewrite["parts"])
    assert browser.run(count.format("svg:has(.arrow)")) == pictures
    assert browser.complaints() == []


def test_dark_colours(browser: Browser, jacobi: Path) -> None:
    """Letters stand out from the ground in either scheme, and scroll bars follow."""
    bright = """
      const rgb = (name) => getComputedStyle(document.body)[name].match(/\\d+/g).map(Number);
      const sum = (name) => rgb(name).slice(0, 3).reduce((a, b) => a + b);
      return [sum('color'), sum('backgroundColor')]"""
    try:
        for scheme, darker in (("light", 0), ("dark", 1)):
            browser.prefer(scheme)
            browser.open(jacobi)
            found = browser.run(bright)
            assert found[1 - darker] - found[darker] > 400
    finally:
        browser.prefer("light")


def test_a_kernel_of_cpp_is_named_as_in_its_source(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "cpp.html"
    mangled = "_ZN3app6jacobiIfLi4EEEvPKT_PS1_"
    path.write_text(
        made((KERNELGEN / "jacobi.ptx").read_text().replace("jacobi", mangled), "a.ptx")
    )
    browser.open(path)
    browser.click("summary")
    assert browser.wait("return document.querySelector('header table') !== null")
    header = browser.run("return document.querySelector('header').innerText")
    assert "app::jacobi<float, 4>: 9 global loads" in header and mangled in header
    browser.click("#L76")
    title = browser.run("return document.querySelector('#detail h2').textContent")
    assert title == "app::jacobi<float, 4>, line 76: ld.global.nc.f32"
    assert browser.run("return document.querySelector('.smt2').textContent").startswith("(set-")


def test_proofs_that_are_left_out_are_said_to_be(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "few.html"
    text = (KERNELGEN / "jacobi.ptx").read_text()
    monkeypatch.setattr(html, "_MOST_SMT2", 2000)
    path.write_text(made(text, "jacobi.ptx"))
    assert 0 < len(_data(path)["proofs"]) < 6
    browser.open(path)
    detail = "return document.getElementById('detail').innerText"
    browser.click("#L76")
    assert "unsatisfiable" in browser.run(detail) and "too many" not in browser.run(detail)
    browser.click("#L92")
    assert "too many proofs for one page" in browser.run(detail)
    assert "unsatisfiable" not in browser.run(detail)

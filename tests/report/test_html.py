"""The page of `ptxsw report --html`: what is in it, and how it behaves in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptxsw.driver import pipeline
from ptxsw.parser import parse
from ptxsw.report import html
from ptxsw.report.html import page
from ptxsw.report.machine_code import MachineCode, machine_code
from ptxsw.report.source_files import SourceFiles
from ptxsw.report.source_places import read_sources, short_names
from tests.command_line import ptxsw
from tests.heads import head
from tests.report.browser import Browser, available

ROOT = Path(__file__).parents[2]
KERNELGEN = ROOT / "benchmarks" / "kernelgen" / "ptx"


def made(text: str, name: str, scheme: str = "paper", form: str = "auto") -> str:
    options = pipeline.Options(mode="force", scheme=scheme, form=form, smt2=True)
    result = pipeline.inspect(text, options, name)
    return page(result.report, text, result.edits, result.smt2)


def beside(ptx: Path, sources: Path) -> str:
    """The page of a text with its sources and its machine code."""
    text = ptx.read_text()
    result = pipeline.inspect(text, pipeline.Options(mode="force"), str(ptx))
    found = read_sources(parse(text), SourceFiles(str(sources)))
    code = machine_code(text, result.report.arch)
    return page(result.report, text, result.edits, result.smt2, found, code)


def long_text(lines: int) -> str:
    """One PTX of many kernels."""
    text = (KERNELGEN / "tricubic.ptx").read_text()
    start = text.index(".visible")
    parts, body = [text[:start]], text[start:]
    for number in range(lines // body.count("\n") + 1):
        parts.append(body.replace("tricubic", f"tricubic{number}").replace("BB0", f"BB{number}"))
    return "".join(parts)


def choose(browser: Browser, line: int) -> None:
    """Choose an access from the list."""
    browser.run(f"document.querySelector('#ranking tr[data-line=\"{line}\"] button').click()")


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
    assert [line for sign, line in _data(jacobi)["ptx"] if sign != "+"] == source


def test_clicking_a_load_shows_its_lanes(browser: Browser, jacobi: Path, tmp_path: Path) -> None:
    browser.open(jacobi)
    choose(browser, 76)
    detail = browser.run("return document.getElementById('detail').innerText")
    assert "jacobi, line 76: ld.global.nc.f32" in detail and "param_5[" in detail
    assert "line 70, by lane i \u2212 1" in detail and "lockstep-iterations" in detail
    count = "return document.querySelectorAll('#detail svg {}').length"
    assert browser.run(count.format(".used")) == 32  # bytes asked for
    assert browser.run(count.format(".arrow")) == 31  # lanes that are served
    assert browser.run(count.format(".own")) == 1
    assert browser.run("return document.querySelector('.after').textContent").count("shfl") == 1
    assert browser.run("return document.querySelector('.smt2').textContent").startswith("(set-")
    assert browser.run("return document.querySelectorAll('.ptx .mate').length") == 2
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
    choose(browser, 58)
    detail = browser.run("return document.getElementById('detail').innerText")
    assert "32 wavefronts for a warp on average become 1." in detail
    count = "return document.querySelectorAll('#detail svg {}').length"
    assert browser.run(count.format(".bank")) == 64
    assert browser.run(count.format(".bank.busy")) == 1  # a column lies in one bank
    assert browser.complaints() == []


TITLE = "return document.querySelector('#detail h2').textContent"


def test_it_opens_on_the_worst(browser: Browser, tmp_path: Path) -> None:
    """A column of a tile in shared memory, 32 words in one bank, before all that is coalesced."""
    path = tmp_path / "transpose.html"
    path.write_text(made((ROOT / "tests/report/ptx/transpose.ptx").read_text(), "transpose.ptx"))
    browser.open(path)
    assert browser.run(TITLE).startswith("conflicting, line ")
    finding = browser.run("return document.querySelector('#detail .finding').innerText")
    assert finding.startswith("! 32-way conflict (ptxsw-bank-conflicts)")
    assert "Pad the rows" in finding
    first = browser.run("return document.querySelector('#findings li').innerText")
    assert first.split("\n")[0] == "! 32-way conflict" and "transpose.cu:17" in first
    rows = "return [...document.querySelectorAll('#ranking tbody tr')].map((r) => r.innerText)"
    assert browser.run(rows)[0].startswith("! 128")
    weights = [int(row.strip("! ").split()[0]) for row in browser.run(rows)]
    assert weights == sorted(weights, reverse=True)
    busy = "return document.querySelectorAll('#detail .bank.busy').length"
    assert browser.run("return document.querySelectorAll('#detail .bank').length") == 32
    assert browser.run(busy) == 1
    assert browser.complaints() == []


def test_verdicts_have_marks_and_reasons(browser: Browser, tmp_path: Path) -> None:
    """With `--correctness`: a green mark for what is proved, a question mark for what is open (the
    interpreter, which looks for a launch that shows it, has no `mbarrier`)."""
    source, path = tmp_path / "k.ptx", tmp_path / "k.html"
    source.write_text(
        f"{head()}.visible .entry k(.param .u32 m) .reqntid 64 {{\n"
        "    .reg .b32 %r<4>;\n    .shared .b64 s[64];\n    mbarrier.init.shared.b64 [s], 1;\n"
        "    ld.param.u32 %r2, [m];\n    shfl.sync.down.b32 %r1, %r2, 16, 31, %r2;\n    ret;\n}\n"
    )
    assert ptxsw("report", source, "--html", path, "--correctness").returncode == 0
    browser.open(path)
    said = browser.run("return [...document.querySelectorAll('.verdict')].map((v) => v.innerText)")
    open_ = [line for line in said if "k: warp-mask" in line]
    assert len(open_) == 1 and open_[0].startswith("? unknown")
    assert "its mask is computed" in open_[0]
    assert any(line.startswith("\u2713 absent") for line in said)
    assert browser.complaints() == []


def test_searched_filtered_and_sorted(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "transpose.html"
    path.write_text(made((ROOT / "tests/report/ptx/transpose.ptx").read_text(), "transpose.ptx"))
    browser.open(path)
    count = "return document.getElementById('count').textContent"
    assert browser.run(count) == "12 of 12 accesses"
    set_value = (
        "const e = document.getElementById('{0}'); e.value = '{1}'; "
        "e.dispatchEvent(new Event('{2}', {{bubbles: true}}))"
    )
    browser.run(set_value.format("find", "st.global", "input"))
    assert browser.run(count) == "4 of 12 accesses"
    browser.run(set_value.format("kernel", "straight", "change"))
    assert browser.run(count) == "1 of 12 accesses"
    assert browser.run(TITLE) == "straight"  # with the tables of the kernel
    browser.run(set_value.format("find", "", "input"))
    browser.click("#wasteful")
    assert browser.run(count) == "1 of 12 accesses"
    browser.click("#wasteful")
    browser.run(set_value.format("kernel", "", "change"))
    browser.run(set_value.format("space", "shared", "change"))
    assert browser.run(count) == "4 of 12 accesses"
    browser.run("document.querySelectorAll('#ranking th button')[1].click()")  # by line
    lines = browser.run(
        "return [...document.querySelectorAll('#ranking tr[data-line]')]"
        ".map((row) => Number(row.dataset.line))"
    )
    assert lines == sorted(lines) and len(lines) == 4
    assert browser.complaints() == []


def test_source_ptx_and_machine_code_side_by_side(browser: Browser, tmp_path: Path) -> None:
    """A line that is chosen in one of the three is marked in all."""
    path = tmp_path / "transpose.html"
    path.write_text(beside(ROOT / "tests/report/ptx/transpose.ptx", ROOT / "tests/report/cuda"))
    if not _data(path)["sass"]:
        pytest.skip("no ptxas with nvdisasm")
    browser.resize(1600, 1000)
    browser.open(path)
    linked = "return [...document.querySelectorAll('.{} .linked')].map((l) => l.innerText)"
    [ptx], [source], [sass] = (browser.run(linked.format(p)) for p in ("ptx", "source", "sass"))
    assert "ld.shared.f32" in ptx and "tile[x][y]" in source and "LDS" in sass
    browser.run("document.querySelector('#S0-7 code').click()")
    assert browser.run(TITLE).startswith("straight, line ")
    assert len(browser.run(linked.format("ptx"))) > 4
    assert any("STG" in line for line in browser.run(linked.format("sass")))
    browser.resize(500, 900)
    browser.wait("return document.querySelector('.sass').hidden")
    shown = "return [...document.querySelectorAll('.pane')].filter((p) => !p.hidden).length"
    assert browser.run(shown) == 1
    browser.run("document.querySelectorAll('#panes button')[2].click()")
    assert browser.run(shown) == 1
    assert browser.run("return document.querySelector('.sass').hidden") is False
    browser.resize(1500, 1000)
    assert browser.complaints() == []


WIDTHS = (
    "return [...document.querySelectorAll('{}')]"
    ".map((one) => Math.round(one.getBoundingClientRect().width))"
)


def test_columns_are_dragged(browser: Browser, tmp_path: Path) -> None:
    """By the mouse and by keys; what one column gains the next one loses."""
    path = tmp_path / "transpose.html"
    path.write_text(beside(ROOT / "tests/report/ptx/transpose.ptx", ROOT / "tests/report/cuda"))
    browser.resize(1600, 1000)
    browser.open(path)
    widths = WIDTHS.format(".pane:not([hidden])")
    source, ptx, *machine = before = browser.run(widths)
    assert source >= 600  # 75 characters of a line
    browser.drag(source, 500, -100)
    assert browser.run(widths) == pytest.approx([source - 100, ptx + 100, *machine], abs=1)
    browser.run("document.querySelector('.pane.ptx .splitter').focus()")
    browser.keys("\ue014")  # to the right
    assert browser.run(widths) == pytest.approx([source - 76, ptx + 76, *machine], abs=1)
    browser.drag(sum(before), 500, -200)
    assert browser.run(WIDTHS.format("#texts")) == pytest.approx([sum(before) - 200], abs=1)
    browser.drag(sum(before) - 200, 500, -3000)  # further than can be
    [texts] = browser.run(WIDTHS.format("#texts"))
    assert 100 < texts < 600
    browser.resize(1500, 1000)
    assert browser.complaints() == []


def test_on_a_phone_findings_stand_below_their_lines(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "transpose.html"
    path.write_text(beside(ROOT / "tests/report/ptx/transpose.ptx", ROOT / "tests/report/cuda"))
    shown = (
        "return [...document.querySelectorAll('.source .beside')].filter((b) => b.offsetHeight)"
        ".map((b) => [b.previousElementSibling.innerText, b.innerText, b.offsetWidth])"
    )
    try:
        browser.resize(1600, 1000)
        browser.open(path)
        assert browser.run(shown) == []  # there is a column for them
        browser.resize(400, 900)
        browser.open(path)
        [(text, width)] = [found[1:] for found in browser.run(shown) if "tile[x][y]" in found[0]]
        assert width <= 400
        assert text.startswith("! 32-way conflict (bank-conflicts)") and "Pad the rows" in text
    finally:
        browser.resize(1500, 1000)


def test_a_legend_and_what_is_missing(browser: Browser, tmp_path: Path) -> None:
    text = (KERNELGEN / "jacobi.ptx").read_text()
    result = pipeline.inspect(text, pipeline.Options(mode="force"), "jacobi.ptx")
    note = "no nvdisasm found; `pip install 'ptxsw[sass]'`"
    path = tmp_path / "jacobi.html"
    path.write_text(page(result.report, text, result.edits, {}, code=MachineCode(None, (), note)))
    browser.open(path)
    assert f"machine code\n{note}" in browser.run(
        "return document.getElementById('facts').innerText"
    )
    browser.click("#legend summary")
    legend = browser.run("return document.getElementById('legend').innerText")
    assert "passes through the 32 banks of shared memory; 1 is best" in legend
    assert browser.complaints() == []


def test_no_path_of_the_machine_is_told(tmp_path: Path) -> None:
    text = (ROOT / "tests/report/ptx/transpose.ptx").read_text()
    text = text.replace('"transpose.cu"', '"/home/somebody/work/transpose.cu"')
    assert "somebody" in text
    (tmp_path / "somewhere.ptx").write_text(text)
    page_text = beside(tmp_path / "somewhere.ptx", ROOT / "tests/report/cuda")
    assert "somebody" not in page_text and str(tmp_path) not in page_text
    assert "through_tile" in page_text and "tile[x][y]" in page_text  # found beside the PTX


def test_names_are_as_short_as_they_can_be() -> None:
    found = short_names(["/a/b/k.cu", "/a/c/k.cu", "/a/util.h", "plain.cu"])
    assert list(found.values()) == ["b/k.cu", "c/k.cu", "util.h", "plain.cu"]


def test_only_sources_are_read(tmp_path: Path) -> None:
    """A `.file` that names another kind of file does not bring it into a page."""
    (tmp_path / "secret.txt").write_text("the secret")
    text = (ROOT / "tests/report/ptx/transpose.ptx").read_text()
    module = parse(text.replace('"transpose.cu"', f'"{tmp_path / "secret.txt"}"'))
    assert [f.lines for f in read_sources(module, SourceFiles(str(tmp_path))).files] == [()]


def test_without_an_assembler_the_page_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ptxsw.cost import sass
    from ptxsw.toolchain.ptxas import NoPtxas

    def nothing(*_: object, **__: object) -> None:
        raise NoPtxas("no ptxas found")

    monkeypatch.setattr(sass, "read", nothing)
    found = machine_code((KERNELGEN / "jacobi.ptx").read_text(), "sm_80")
    assert found == MachineCode(None, (), "No ptxas was found: pip install nvidia-cuda-nvcc.")


def test_a_lane_is_chosen_by_keys(browser: Browser, jacobi: Path) -> None:
    browser.open(jacobi)
    choose(browser, 70)
    browser.run("document.querySelector('.chooser input').focus()")
    browser.keys("\ue014\ue014")  # right, right
    said = browser.run("return document.querySelector('.chooser output').textContent")
    assert said == "lane 2: bytes +12 to +15, sector 0"
    hot = "return [...document.querySelectorAll('#detail .hot')].map((m) => m.dataset.lane)"
    assert browser.run(hot) == ["2", "2"]
    browser.run(
        "document.querySelector('#detail .lane[data-lane=\"31\"]')"
        ".dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))"
    )
    said = browser.run("return document.querySelector('.chooser output').textContent")
    assert said == "lane 31: bytes +128 to +131, sector 4"


def test_keys_are_enough(browser: Browser, jacobi: Path) -> None:
    browser.open(jacobi)
    browser.run("document.querySelector('#L75 button').focus()")
    browser.keys("\ue007")  # Enter
    assert browser.run(TITLE) == "jacobi, line 75: ld.global.nc.f32"
    browser.keys("j")
    assert browser.run("return document.activeElement.closest('.line').id") == "L76"
    browser.keys("kk")
    assert browser.run(TITLE) == "jacobi, line 70: ld.global.nc.f32"
    browser.keys("n")  # the next in the list
    assert browser.run(TITLE) != "jacobi, line 70: ld.global.nc.f32"
    browser.keys("p")
    assert browser.run(TITLE) == "jacobi, line 70: ld.global.nc.f32"
    browser.keys("/")
    assert browser.run("return document.activeElement.id") == "find"
    visible = "return getComputedStyle(document.querySelector('.line.new')).display"
    assert browser.run(visible) == "flex"
    signs = (
        "return [...document.querySelectorAll('.new .sign')].every((s) => s.textContent === '+')"
    )
    assert browser.run(signs) is True
    browser.click("#diff")
    assert browser.run(visible) == "none"
    assert browser.complaints() == []


@pytest.mark.slow
def test_a_long_file_opens_quickly(browser: Browser, tmp_path: Path) -> None:
    ptx = tmp_path / "long.ptx"
    text = long_text(6000)
    assert text.count("\n") >= 6000
    ptx.write_text(text)
    path = tmp_path / "long.html"
    path.write_text(beside(ptx, tmp_path))
    assert path.stat().st_size < 5_000_000
    assert min(browser.open(path) for _ in range(3)) < 2
    last = _data(path)["report"]["kernels"][-1]["name"]
    browser.run(
        f"const k = document.getElementById('kernel'); k.value = '{last}';"
        "k.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    assert browser.run(TITLE) == last
    browser.click("#detail div:nth-of-type(3) tbody tr:nth-of-type(2) a")
    assert browser.run("return document.querySelectorAll('#detail .arrow').length") > 20
    assert browser.complaints() == []


def test_nothing_covers_the_details_on_a_narrow_screen(browser: Browser, tmp_path: Path) -> None:
    """There they are as long as they need to be, and the foot of the page stands below them."""
    path = tmp_path / "transpose.html"
    path.write_text(made((ROOT / "tests/report/ptx/transpose.ptx").read_text(), "transpose.ptx"))
    try:
        browser.resize(400, 900)
        browser.open(path)
        end, foot = browser.run(
            "const box = (one) => one.getBoundingClientRect();"
            "return [box(document.querySelector('#detail').lastElementChild).bottom,"
            "        box(document.querySelector('footer')).top]"
        )
        assert 900 < end <= foot
    finally:
        browser.resize(1500, 1000)


AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
CHECK = """;
  window.found = null;
  axe.run(document).then((result) => { window.found = {
    passes: result.passes.length,
    faults: result.violations.map((v) => [v.id, v.impact, v.nodes[0].html]) }; });"""


@pytest.mark.parametrize(("scheme", "width"), [("light", 400), ("dark", 900), ("dark", 1600)])
def test_everyone_can_read_it(browser: Browser, tmp_path: Path, scheme: str, width: int) -> None:
    """axe-core finds no fault. `npm install --no-save axe-core` brings it here."""
    if not AXE.exists():
        pytest.skip("no axe-core in node_modules")
    path = tmp_path / "transpose.html"
    path.write_text(beside(ROOT / "tests/report/ptx/transpose.ptx", ROOT / "tests/report/cuda"))
    try:
        browser.resize(width, 900)
        browser.prefer(scheme)
        browser.open(path)
        browser.run("document.getElementById('legend').open = true")
        browser.run(AXE.read_text() + CHECK)
        found = browser.wait("return window.found")
        assert found["faults"] == [] and found["passes"] > 15
    finally:
        browser.prefer("light")
        browser.resize(1500, 1000)


def test_marks_stand_out() -> None:
    """By 3:1 from what they are drawn on, letters by 4.5:1, in both schemes."""
    style = html._part("page.css")
    light, dark = (dict(re.findall(r"--(\w+): (#\w+)", part)) for part in style.split("@media")[:2])
    for colours in (light, dark):
        grounds = [colours[name] for name in ("bg", "mark", "linked", "new", "gone")]
        assert all(_contrast(colours["edge"], ground) >= 3 for ground in grounds[:2])
        for name in ("accent", "share", "own"):
            assert all(_contrast(colours[name], ground) >= 3 for ground in grounds), name
        for name in ("fg", "soft", "accent", "own", "directive", "register", "number"):
            assert all(_contrast(colours[name], ground) >= 4.5 for ground in grounds), name


def _contrast(one: str, other: str) -> float:
    """As WCAG 2.2 has it."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(f * p for f, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_a_halo_row_is_served_by_rotation(browser: Browser, tmp_path: Path) -> None:
    """Two lanes in the row's last load take what lies before the warp."""
    path = tmp_path / "halo.html"
    text = (KERNELGEN / "gaussblur.ptx").read_text()
    path.write_text(made(text, "gaussblur.ptx", "halo", "versioned"))
    browser.open(path)
    choose(browser, 108)
    count = "return document.querySelectorAll('#detail {}').length"
    assert browser.run(count.format(".arrow:not(.far)")) == 30
    assert browser.run(count.format(".arrow.far")) == 2
    assert browser.run(count.format(".own")) == 0
    detail = browser.run("return document.getElementById('detail').innerText")
    assert "one full load and one partial load" in detail and "versioned" in detail
    after = browser.run("return document.querySelector('.after').textContent").splitlines()
    assert after[-1].startswith("+ shfl.sync.idx.b32 %f29, ") and "selp.b32" in after[-2]
    assert sum("ld.global" in line and line.startswith("+ @") for line in after) == 1
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
    browser.run(
        "const k = document.getElementById('kernel'); k.selectedIndex = 1;"
        "k.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    assert browser.run(TITLE) == "app::jacobi<float, 4>"
    detail = browser.run("return document.querySelector('#detail').innerText")
    assert "9 global loads" in detail and mangled in detail
    choose(browser, 76)
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
    choose(browser, 76)
    assert "unsatisfiable" in browser.run(detail) and "too many" not in browser.run(detail)
    choose(browser, 92)
    assert "too many proofs for one page" in browser.run(detail)
    assert "unsatisfiable" not in browser.run(detail)

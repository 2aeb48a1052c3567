"""The documentation points at what is there: links, anchors, paths, modules, the index; README is short and exact."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from PIL import Image

import edgec
from edgec.exporter.report.style import STYLE

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "edgec"
README_BYTES, IMAGE_BYTES = 12_000, 200_000
# Everything else at the top of the repository is made by tools, or is a single file.
FOLDERS = (
    *("ir", "bundle", "passes", "devices", "backends", "runtime_py", "exporter", "cli"),
    *("examples", "benchmarks", "docs", "tests", "src"),
)
PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./*{{}},-]*")
FENCE = re.compile(r"^( *)```.*?^\1```[ \t]*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
MODULE = re.compile(r"(?<![\w./-])edgec(?:\.[A-Za-z_]\w*)+")
# Terms that the glossary of docs/architecture.md replaces, "is no X" for "is not an X", and "behind" for "after".
OLD_WORDS = re.compile(
    r"[Vv]ocabulary\s+matri|\b[Ff]or\s+ever\b|[Hh]alf turned|[Aa]ttend (?:few|many)"
    r"|\b(?<!there\s)(?<!There\s)(?:is|are|was|were)\s+no\s+(?!longer\b|better\b|more\b|less\b)[a-z]"
    r"|\b(?:begins?|stands?|comes?|follows?|right)\s+behind\b"
)
Problems = list[str]


def markdown_files(root: Path = ROOT) -> list[Path]:
    """Every document of the repository; not those in environments, builds and bundles."""
    files: list[Path] = []
    for folder, inside, names in os.walk(root):
        inside[:] = [d for d in inside if not re.match(r"\.|(?:build|dist|node_modules)$|.*\.(?:egg-info|edgec)$", d)]
        files += [Path(folder) / name for name in names if name.endswith(".md")]
    return sorted(files)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of a document's headings, and those written by hand."""
    made: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        twins = sum(1 for known in made if re.fullmatch(rf"{re.escape(slug)}(?:-\d+)?", known))
        made.add(f"{slug}-{twins}" if twins else slug)
    return made | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def broken_links(file: Path, root: Path = ROOT) -> Problems:
    """Relative links and pictures of a document that lead nowhere, outside the repository, or to no heading."""
    prose = FENCE.sub("", file.read_text())
    targets = [first or second for first, second in LINK.findall(prose)]
    return [target for target in targets if not re.match(r"[a-z]+:", target) and not _leads(file, target, root)]


def _leads(file: Path, target: str, root: Path) -> bool:
    path, _, anchor = target.partition("#")
    aim = (file.parent / path).resolve() if path else file
    if not aim.exists() or not aim.is_relative_to(root.resolve()):
        return False
    return not anchor or anchor in anchors(aim.read_text())


def missing_paths(text: str, root: Path = ROOT) -> Problems:
    """Words that begin with a top-level folder and do not name a file; placeholders in capitals are left out.

    In code any such word counts, in prose those with a suffix.
    """
    prose = FENCE.sub("", text)
    code = [*SPAN.findall(prose), *(match.group() for match in FENCE.finditer(text))]
    words = [word.strip("()[],;:\"'").partition("::")[0] for part in code for word in part.split()]
    words += [word for word in re.findall(r"[\w./-]+\w", SPAN.sub("", prose)) if "." in Path(word).name]
    named = dict.fromkeys(word for word in words if PATH.fullmatch(word))
    real = [word for word in named if not re.search(r"[A-Z]{4}|\.\.\.", word.replace("README", ""))]
    return [word for word in real if not all(_is_there(root, each) for each in _alternatives(word))]


def _alternatives(path: str) -> Iterator[str]:
    """``a/{b,c}.py`` as ``a/b.py`` and ``a/c.py``."""
    match = re.search(r"\{([^{}]*)\}", path)
    if match is None:
        yield path
        return
    for choice in match[1].split(","):
        yield from _alternatives(path[: match.start()] + choice + path[match.end() :])


def _is_there(root: Path, path: str) -> bool:
    return any(root.glob(path.rstrip("/"))) if "*" in path else (root / path).exists()


def unresolved_modules(text: str) -> Problems:
    """Dotted names below ``edgec`` that are neither a module nor something that a module defines."""
    return [
        name
        for name in dict.fromkeys(MODULE.findall(text))
        if name not in ("edgec.toml", "edgec.NAME") and not _resolves(name)
    ]


def _resolves(name: str) -> bool:
    """Whether modules lead to a file, and the names after them are defined in it, class by class."""
    parts, place = name.split(".")[1:], PACKAGE
    if parts[0] in edgec.__all__:
        return True
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if parts and (file := place / f"{parts[0]}.py").is_file():
        parts.pop(0)
    else:
        file = place / "__init__.py"
    return file.is_file() and _defines(ast.parse(file.read_text()).body, parts)


def _defines(body: list[ast.stmt], parts: list[str]) -> bool:
    if not parts:
        return True
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == parts[0]:
            return _defines(node.body, parts[1:])
    return len(parts) == 1 and parts[0] in {name for node in body for name in _bound(node)}


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)


def unlisted(index: Path) -> Problems:
    """Documents beside an index that it does not link to."""
    linked = {first for first, _ in LINK.findall(index.read_text())}
    return sorted(file.name for file in index.parent.glob("*.md") if file != index and file.name not in linked)


def strange_figures(table: str, source: str) -> Problems:
    """Cells of a table that its source does not have in the row of that model and case."""
    wrong = []
    for model, case, *cells in _rows(table):
        measured = _rows(source.partition(f"**{model}")[2].partition("\n**")[0])
        row = next((row for row in measured if row[0] == case), [])
        known = (*row, _ratio(source, model, case.rpartition(", ")[0]))
        wrong += [f"{model}, {case}: {cell}" for cell in cells if cell and cell not in known]
    return wrong


def _ratio(source: str, model: str, case: str) -> str:
    """A model's cell in the table of ratios, which has a column for each model; empty where there is none."""
    table = source.partition("**edgec against the best peer**")[2].partition("\n**")[0]
    heads, *rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")] or [[]]
    found = next((row for row in rows if row[0] == case), None)
    return found[heads.index(model) + 1] if found and model in heads else ""


def _rows(table: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    cells = [[cell.strip().strip("*") for cell in line.strip().strip("|").split("|")] for line in lines]
    return [row for row in cells[1:] if not set("".join(row)) <= set("-:")]


DOCUMENTS = markdown_files()


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def test_the_documents_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/architecture.md", "src/README.md"} <= set(map(name_of, DOCUMENTS))


@pytest.mark.parametrize("file", DOCUMENTS, ids=name_of)
def test_links_and_anchors_lead_somewhere(file: Path) -> None:
    assert broken_links(file) == []


@pytest.mark.parametrize("file", DOCUMENTS, ids=name_of)
def test_paths_exist(file: Path) -> None:
    assert missing_paths(file.read_text()) == []


@pytest.mark.parametrize("file", DOCUMENTS, ids=name_of)
def test_modules_exist(file: Path) -> None:
    assert unresolved_modules(file.read_text()) == []


@pytest.mark.parametrize("file", DOCUMENTS, ids=name_of)
def test_each_thing_has_one_name(file: Path) -> None:
    assert OLD_WORDS.findall(file.read_text()) == []


def test_each_thing_has_one_name_in_the_code() -> None:
    folders = [ROOT / name for name in (*FOLDERS[:8], "examples", "benchmarks", "tests")]
    files = [file for folder in folders for kind in ("*.py", "*.h", "*.cpp") for file in folder.rglob(kind)]
    texts = {file: file.read_text() for file in files if file != Path(__file__)}
    assert len(texts) > 1000
    assert [(file.name, words) for file, text in texts.items() if (words := OLD_WORDS.findall(text))] == []


def test_planted_old_words_are_found() -> None:
    right = "There is no key. It is no longer there, is not a key, and nothing is left behind. There are\nno keys."
    wrong = ["is no k", "are\nno k", "for ever", "comes behind"]
    assert OLD_WORDS.findall(right) == []
    assert OLD_WORDS.findall("It is no key. They are\nno keys for ever; x comes behind y.") == wrong


def test_the_index_names_every_document() -> None:
    assert unlisted(ROOT / "docs" / "README.md") == []


def test_the_readme_is_short_and_its_pictures_are_small() -> None:
    assert len((ROOT / "README.md").read_bytes()) < README_BYTES
    pictures = list((ROOT / "docs" / "images").iterdir())
    assert pictures
    assert sum(picture.stat().st_size for picture in pictures) < IMAGE_BYTES


# The report's colour of bars and dots (--c0), and how much of a picture of it they cover at least.
ACCENT = (0x2F, 0x6F, 0xDE)
ACCENT_SHARE, ACCENT_NEAR, REPORT_COLOURS = 2e-4, 24, 100


def report_faults(picture: Image.Image) -> Problems:
    """What makes a picture none of a report: few colours, or nothing in the colour of its bars and dots."""
    whole = picture.convert("RGB")
    colours = len(whole.getcolors(1 << 24) or ())
    faults = [f"{colours} colours"] if colours < REPORT_COLOURS else []
    drawn = float((np.abs(np.asarray(whole, dtype=int) - ACCENT).max(axis=2) < ACCENT_NEAR).mean())
    return faults if drawn >= ACCENT_SHARE else [*faults, f"{drawn:.1e} in the accent colour"]


def test_the_picture_of_the_report_shows_one() -> None:
    assert f"--c0: #{bytes(ACCENT).hex()}" in STYLE
    assert report_faults(Image.open(ROOT / "docs" / "images" / "report.png")) == []


def test_a_picture_of_an_error_page_is_noticed() -> None:
    page = Image.new("RGB", (1000, 1000), "white")
    for shade in range(90):  # grey letters, and a blue button in another blue
        page.putpixel((shade, 0), (shade, shade, shade))
    page.paste((0x0B, 0x57, 0xD0), (700, 700, 800, 740))
    assert report_faults(page) == ["92 colours", "0.0e+00 in the accent colour"]


def test_what_is_no_bundle_with_a_report_is_not_drawn(tmp_path: Path) -> None:
    report_of = run_path(str(ROOT / "docs" / "images" / "draw.py"))["report_of"]
    for name in ("manifest.json", "report.html"):
        with pytest.raises(SystemExit, match=f"error: Not an edgec bundle with a report: no {name} in "):
            report_of([str(tmp_path)])
        (tmp_path / name).write_text("{}")
    assert report_of([str(tmp_path)]) == tmp_path / "report.html"


def _drawn_answer(picture: str) -> str:
    """What the model writes in a picture of a sample: the lines at the left margin but the prompt and a button."""
    return " ".join(
        line for line in re.findall(r'<text x="24" [^>]*>([^<>]+)</text>', picture) if line[:3] not in ("Unl", "You")
    )


def test_the_picture_of_the_sample_has_the_labels_of_its_source() -> None:
    drawing = run_path(str(ROOT / "docs" / "images" / "draw.py"))
    source = drawing["SCREEN"].read_text()
    buttons, field = drawing["labels_of"](source)
    assert {"Unload", "New conversation", "Send"} <= set(buttons) and field == "Message"
    kept = (ROOT / "docs" / "images" / "sample.svg").read_text()
    answer = _drawn_answer(kept)
    assert len(answer.split()) > 20 and drawing["sample_picture"](source, answer) == kept
    assert drawing["sample_picture"](source.replace('"Send"', '"Send it"'), answer) != kept


def test_the_picture_of_the_sample_for_android_has_the_labels_of_its_source() -> None:
    drawing = run_path(str(ROOT / "docs" / "images" / "draw.py"))
    source = drawing["ANDROID_SCREEN"].read_text()
    assert {"Unload", "New conversation", "Send"} <= set(drawing["android_labels_of"](source))
    kept = (ROOT / "docs" / "images" / "sample-android.svg").read_text()
    answer = _drawn_answer(kept)
    assert answer == _drawn_answer((ROOT / "docs" / "images" / "sample.svg").read_text())
    assert drawing["android_picture"](source, answer) == kept
    assert drawing["android_picture"](source.replace('"Send"', '"Send it"'), answer) != kept


def test_the_readme_quotes_measured_figures() -> None:
    speed = (ROOT / "README.md").read_text().partition("## Speed")[2].partition("\n## ")[0]
    assert 0 < len(_rows(speed)) <= 12
    pages = (ROOT / "docs" / "speed.md", ROOT / "benchmarks" / "results" / "README.md")
    assert strange_figures(speed, "\n".join(page.read_text() for page in pages)) == []


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A repository with one good document, to plant faults in."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "good.md").write_text("# A `good` page, no. 1\n\n## Twice\n\n## Twice\n\n```sh\n# none\n```\n")
    return tmp_path


def test_planted_links_are_found(planted: Path) -> None:
    page = planted / "page.md"
    right = ("docs/good.md", "docs/good.md#a-good-page-no-1", "docs/good.md#twice-1", "#top", "https://example.org/x")
    wrong = ("docs/bad.md", "docs/good.md#none", "docs/good.md#thrice", "#bottom", "../outside.md")
    (planted.parent / "outside.md").write_text("")
    lines = [f"[x]({link})" for link in (*right, *wrong)]
    page.write_text("\n".join(["# Top", *lines, '<img src="gone.png">', "```", "[code](is.not)", "```"]))
    assert broken_links(page, planted) == [*wrong, "gone.png"]


def test_planted_paths_are_found(planted: Path) -> None:
    right = "`docs/good.md` `docs/*.md` `docs/NAME.md` docs/and `a/b`"
    text = f"{right} `docs/{{good,bad}}.md` `python docs/gone.py` see docs/no.md."
    assert missing_paths(f"{text}\n```\nsh docs/make.sh docs/good.md\n```\n", planted) == [
        "docs/{good,bad}.md",
        "docs/gone.py",
        "docs/make.sh",
        "docs/no.md",
    ]


def test_planted_modules_are_found() -> None:
    right = "edgec.load edgec.ir edgec.ir.program.Program.with_change edgec.passes.kv.kv_cache.KvCache edgec.toml"
    wrong = ["edgec.gone", "edgec.exporter.bundle", "edgec.ir.program.Gone", "edgec.ir.program.Program.gone"]
    assert unresolved_modules(f"{right} {' '.join(wrong)} x.edgec.gone NAME.edgec") == wrong


def test_a_planted_document_is_missed_in_the_index(planted: Path) -> None:
    index = planted / "docs" / "README.md"
    index.write_text("nothing")
    assert unlisted(index) == ["good.md"]
    index.write_text("[good](good.md)")
    assert unlisted(index) == []


def test_a_planted_figure_is_found() -> None:
    source = (
        "**a: one**\n\n| case | x |\n|---|---|\n| run | 1 / 2 |\n\n**b: two**\n\n| case | x |\n|---|---|\n| run | 3 |\n"
    )
    table = "| model | case | x |\n|---|---|---|\n| a | run | 1 / 2 |\n| b | run | **3** |\n"
    assert strange_figures(table, source) == []
    assert strange_figures(table.replace("3", "4"), source) == ["b, run: 4"]
    assert strange_figures(table.replace("| b |", "| a |"), source) == ["a, run: 3"]
    ratios = "**edgec against the best peer**\n\n|  | a | b |\n|---|---|---|\n| run | 1.5x | 2.5x |\n\n"
    timed = "| model | case | x | best |\n|---|---|---|---|\n| b | run, ms | 3 | 2.5x |\n"
    source = ratios + source.replace("| run |", "| run, ms |")
    assert strange_figures(timed, source) == []
    assert strange_figures(timed.replace("2.5x", "1.5x"), source) == ["b, run, ms: 1.5x"]

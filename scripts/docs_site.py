"""The documents as a site: a hook of mkdocs (mkdocs.yml).

Links in the documents are those of the repository, so that they work there:
to pages outside docs/, to sources, to folders. This hook lays out a copy for
mkdocs in build/site_source with the repository's layout, in which each linked
source is a page with its text and each linked folder a page with its list:

  docs/limits.md   [block.h](../runtime/memory/block.h)
  the copy         [block.h](../runtime/memory/block.h.md)

So nothing in the site leads out of it, and `mkdocs build --strict` finds each
link that leads nowhere. Needs no network.
Tested by: tests/setup/links_test.py
"""
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[1]
COPY = ROOT / "build" / "site_source"
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".def": "cpp", ".py": "python",
             ".sh": "bash", ".cmake": "cmake", ".json": "json", ".txt": "text"}
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def public_documents(root):
  """README.md, ARCHITECTURE.md, CONTRIBUTING.md, CHANGELOG.md, docs/**/*.md."""
  names = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
  found = [root / name for name in names if (root / name).exists()]
  return found + sorted((root / "docs").rglob("*.md"))


def without_code(text):
  """The text with blocks and spans of code blanked, line by line as before."""
  def blank(found):
    return re.sub(r"[^\n]", " ", found[0])
  text = re.sub(r"^( *)(```+|~~~+).*?^ *\2 *$", blank, text, flags=re.M | re.S)
  return re.sub(r"(`+)(?!`)[^`]*(?<!`)\1(?!`)", blank, text)


def is_external(target):
  return re.match(r"[a-z]+:", target) is not None


def page_of(target):
  """Where the page of a linked file or folder lies."""
  if target.is_dir():
    return target / "README.md"
  if target.suffix in (".md", ".svg", ".png"):
    return target
  return target.with_name(target.name.lstrip(".") + ".md")


def source_page(path, name):
  text = path.read_text(errors="replace")
  longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
  fence = "`" * max(3, longest + 1)
  language = LANGUAGES.get(path.suffix, "text")
  return f"# {name}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def folder_page(path, name):
  entries = sorted(entry.name + "/" * entry.is_dir()
                   for entry in path.iterdir() if entry.name[0] != ".")
  return f"# {name}\n\n" + "\n".join(f"- `{entry}`" for entry in entries) + "\n"


def lay_out(root, copy):
  """Fills `copy` anew; returns the paths of its pages, relative to it."""
  shutil.rmtree(copy, ignore_errors=True)
  waiting, done = list(public_documents(root)), set()
  while waiting:
    source = waiting.pop()
    name = source.relative_to(root)
    page = page_of(source).relative_to(root)
    if page in done:
      continue
    done.add(page)
    (copy / page).parent.mkdir(parents=True, exist_ok=True)
    if source.suffix in (".svg", ".png"):
      shutil.copy(source, copy / page)
      continue
    if source.is_dir() and not (source / "README.md").exists():
      text = folder_page(source, name)
    elif source.is_dir() or source.suffix == ".md":
      source = root / page
      text = source.read_text()
      text = rewrite(root, source, text, waiting)
    else:
      text = source_page(source, name)
    (copy / page).write_text(text)
  return done


def rewrite(root, source, text, waiting):
  """Makes links lead to pages, and what they lead to wait to be a page."""
  seen = without_code(text)

  def link(found):
    target = found[2]
    if is_external(target) or seen[found.start()] == " ":
      return found[0]
    file = (source.parent / target).resolve()
    if not file.exists() or root not in file.parents:
      return found[0]  # mkdocs says so
    waiting.append(file)
    new = str(page_of(file).relative_to(file.parent))
    if file.is_dir():
      new = target.rstrip("/") + "/README.md"
    else:
      new = target[:len(target) - len(file.name)] + new
    return found[1] + new + (found[3] or "") + found[4]

  return LINK.sub(link, text)


def design_pages(root):
  return [str(path.relative_to(root))
          for path in sorted((root / "docs" / "design").glob("*.md"))]


def on_config(config):
  lay_out(ROOT, COPY)
  config["docs_dir"] = str(COPY)
  for section in config["nav"]:
    for pages in section.values() if isinstance(section, dict) else ():
      if "ARCHITECTURE.md" in pages:
        at = pages.index("ARCHITECTURE.md") + 1
        pages[at:at] = design_pages(ROOT)
  return config

#!/usr/bin/env python3
"""Links in documents lead somewhere, and the site builds from them.

What it proves, of every *.md of the project: a relative link names a file or
folder that is there, and an anchor names a heading of the page (as GitHub makes
anchors). Every public document is in the nav of mkdocs.yml. Where mkdocs is
installed (in PATH or by scripts/docs.sh) the site builds strictly, and its
pages load nothing from elsewhere; where it is not, the test says so. A
self-test plants a dead link and a dead anchor.

Usage: links_test.py <project folder>
"""
import collections
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def docs_site(root):
  spec = importlib.util.spec_from_file_location(
      "docs_site", root / "scripts" / "docs_site.py")
  module = importlib.util.module_from_spec(spec)
  sys.dont_write_bytecode = True
  spec.loader.exec_module(module)
  return module


def documents(root):
  """Every *.md but in ignored folders, by relative name."""
  found = {}
  for folder, folders, files in os.walk(root):
    folders[:] = [name for name in folders
                  if name[0] != "." and (pathlib.Path(folder), name) !=
                  (root, "build")]
    for name in files:
      path = pathlib.Path(folder) / name
      if path.suffix == ".md":
        found[str(path.relative_to(root))] = path.read_text()
  return found


def anchors_of(text):
  """The anchors of a page's headings, as GitHub makes them."""
  text = re.sub(r"^( *)(```+).*?^ *\2 *$", "", text, flags=re.M | re.S)
  result, counts = set(), collections.Counter()
  for heading in re.findall(r"^#{1,6} +(.*?) *#* *$", text, re.M):
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    anchor = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
    count = counts[anchor]
    counts[anchor] += 1
    result.add(f"{anchor}-{count}" if count else anchor)
  return result


def dead_links(site, texts, exists):
  """Links of `texts` (name -> text) that lead nowhere, one line each."""
  result = []
  for name, text in texts.items():
    # Targets may stand in code for a reader, links do not.
    for number, line in enumerate(site.without_code(text).splitlines(), 1):
      for target, anchor in re.findall(r"\]\(([^)\s#]*)(#[^)\s]*)?\)", line):
        if site.is_external(target):
          continue
        where = os.path.normpath(
            os.path.join(os.path.dirname(name), target)) if target else name
        if not exists(where):
          result.append(f"{name}:{number}: {target} is not there")
        elif anchor and where in texts and (
            anchor[1:] not in anchors_of(texts[where])):
          result.append(f"{name}:{number}: {where} has no heading {anchor}")
  return result


def self_test(site):
  page = "# A page\n\n## A `part` of it\n\n## Twice\n\n## Twice\n\n"
  links = ("[a](b.md) [a](#twice-1) [a](../x.h) [a](b.md#a-part-of-it) "
           "`[a](no.md)` [a](https://a.b/c)\n")
  texts = {"docs/a.md": page + links, "docs/b.md": page}

  def dead():
    return dead_links(site, texts, {"docs/a.md", "docs/b.md", "x.h"}.__contains__)

  problems = [f"self-test: told off for nothing: {line}" for line in dead()]
  for plant in ("[a](c.md)", "[a](b.md#parts)", "[a](#a-part)"):
    texts["docs/a.md"] = page + links + "\n" + plant
    if [line.split(": ")[0] for line in dead()] != ["docs/a.md:11"]:
      problems.append(f"self-test: {plant} in line 11, found {dead()}")
  return problems


def not_in_nav(site, root):
  nav = (root / "mkdocs.yml").read_text().split("\nnav:\n")[1]
  listed = re.findall(r"- (\S+\.md)", nav) + site.design_pages(root)
  names = [str(path.relative_to(root)) for path in site.public_documents(root)]
  return ([f"{name} is not in the nav of mkdocs.yml"
           for name in names if name not in listed] +
          [f"the nav of mkdocs.yml has {name}, which is not there"
           for name in listed if name not in names])


def builds(root):
  """Builds the site; what is wrong with it, one line each."""
  own = root / "build" / "docs_venv" / "bin" / "mkdocs"
  mkdocs = str(own) if own.exists() else shutil.which("mkdocs")
  if mkdocs is None:
    print("the site: not built, as mkdocs is not installed (scripts/docs.sh)")
    return []
  with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", folder],
        cwd=root, text=True, capture_output=True, check=False,
        env=dict(os.environ, NO_MKDOCS_2_WARNING="1"))
    if done.returncode != 0:
      return ["the site does not build:\n" + done.stdout + done.stderr]
    result = []
    for page in pathlib.Path(folder).rglob("*.html"):
      loads = re.findall(r'<(?:script|img|iframe)[^>]*\bsrc="(https?:[^"]*)"|'
                         r'<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*'
                         r'href="(https?:[^"]*)"', page.read_text())
      result += [f"{page.relative_to(folder)} of the site loads {''.join(load)}"
                 for load in loads]
    print("the site: built by", mkdocs)
    return result


def main():
  root = pathlib.Path(sys.argv[1]).resolve()
  site = docs_site(root)
  texts = documents(root)
  problems = (self_test(site) + not_in_nav(site, root) + builds(root) +
              dead_links(site, texts, lambda name: (root / name).exists()))
  for line in problems:
    print(f"FAILED: {line}")
  if not problems:
    print(f"links of {len(texts)} documents: ok")
  return 1 if problems else 0


if __name__ == "__main__":
  sys.exit(main())

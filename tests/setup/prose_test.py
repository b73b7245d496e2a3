#!/usr/bin/env python3
"""Public documents can be read aloud: short paragraphs, cells and sentences.

What it proves, of README.md, ARCHITECTURE.md, CONTRIBUTING.md, CHANGELOG.md
and docs/**/*.md, without their blocks of code:
- a paragraph, or an item of a list, has at most 80 words,
- a cell of a table has at most 25 words,
- an item of a list in docs/limits.md has at most 60 words,
- no paragraph is nothing but links,
- no sentence lacks a finite verb.

How words count: a span of `code` is one word, a link counts by its text and
not by its target, what has no letter or digit is no word.

What it can see of verbs: a sentence is told off if none of its words could be
a finite verb. A word could be one if it is an auxiliary, ends in -ed, ends in
-s (unless PLURALS lists it), stands in VERBS, or stands behind "they", "you"
or "we"; none behind "to", and no noun right behind a word of BEFORE_NOUNS. So
it sees "The loops for sums." and misses "Exact loops for sums.", as "loops" may
be a verb. It looks at paragraphs and items that end in a full stop, never at
headings, cells or what ends in a colon. A verb that it does not know is added
to VERBS.

tests/setup/prose_todo.txt lists documents that are not rewritten yet. A listed
document that passes fails the test until it is taken out, so the list shrinks.

Usage: prose_test.py <project folder>
"""
import dataclasses
import pathlib
import re
import sys

PARAGRAPH_WORDS = 80
CELL_WORDS = 25
LIMIT_WORDS = 60
LIMITS = "docs/limits.md"
TODO = "tests/setup/prose_todo.txt"
# Fewer words are a label, such as "Yes." or "Not yet."
SENTENCE_WORDS = 3

AUXILIARIES = set("""
am is are was were be been has have had do does did can cannot could may might
must shall should will would need dare let
""".split())

# Forms that are the same as the infinitive, or a past without -ed.
VERBS = set("""
accept access act add adds agree allow answer appear apply arrive ask assume
avoid beat became become began begin behave believe belong bind bless bound
branch break bring broke brought build built call came care carry cast catch
cause change check choose chose claim clear close collect come compare compile
complete compute consist contain continue convert copy cost count cover create cross cut
decide declare defer define delete depend describe differ disable discard divide
draw drop edit emit enable end enter equal exceed exclude execute exist exit
expect explain export fail fall fell fetch fill find finish fit fix flush follow
forget forgot fork found free gain gave generate get give go goes got grew grow
guard handle happen held help hide hit hold hope ignore imply import improve
include increase inherit insert install intercept join jump keep kept kill knew
know label last lead learn leave left lend lie lies like limit link list live
load lock log look lose lost lower made make mark match matter mean measure meet
mention merge miss modify move multiply name note obey occur offer omit open
order override own paint pass pay permit pick pin place plan play point prefer
preload prepare prevent print prove provide publish push put quit raise ran
reach read rebuild receive record reduce refer refuse register release rely
remain remember remove rename repeat replace replay report request require reset
rest return reuse rewrite round run said sat save saw say scale search see seem
send sent serve set share shift show shrink sit skip slow sort speed spend split
stand start state stay stem step stood stop store subtract suffice suggest
support swap switch take talk tell test think threw throw time told took touch
trace train translate trust try tune turn unset update use vary visit wait walk
want warn watch went widen win wish won work wrap write wrote yield
""".split())

# Words in -s that are no verbs.
PLURALS = set("""
across address always as basis bias bits bytes class columns compass
counters cycles dims dtypes elements errors ess figures gradients its
integers kernels less libraries megabytes microseconds milliseconds minus
nanoseconds numbers ops options others ours perhaps plus processes products
programs roots rows seconds segments sequences series sizes streams sums tensors
this thus thousands threads times traces unless values variables various versions
was words whereas yes
""".split()) - AUXILIARIES

# A word right behind one of these is a noun or an adjective.
BEFORE_NOUNS = set("""
a an the my your our its their of for with without no in on by at from between
""".split())

SUBJECTS = {"they", "you", "we", "i"}
JOINERS = {"and", "or", "see", "also", "the", "in", "then"}
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|approx|No|Fig)\.$")


@dataclasses.dataclass
class Block:
  kind: str  # "paragraph", "item" or "cell"
  line: int
  text: str


def plain(text):
  """Without markup: links by their text, spans of code as one word."""
  text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "CODE", text)
  text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
  text = re.sub(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)", r"\1", text)
  text = re.sub(r"</?[a-zA-Z][^>]*>|<!--.*?-->", "", text)
  return text.replace("**", "")


def words(text):
  return [word for word in plain(text).split() if re.search(r"\w", word)]


def cells_of(line):
  body = re.sub(r"`[^`]*`", lambda span: span[0].replace("|", "\0"), line)
  body = body.strip().strip("|").replace("\\|", "\0")
  return [cell.strip().replace("\0", "|") for cell in body.split("|")]


def blocks_of(text):
  """The paragraphs, items and cells of a document, in order."""
  blocks, current, fence, comment = [], None, None, False
  in_list = False
  for number, line in enumerate(text.splitlines(), 1):
    stripped = line.strip()
    if fence:
      if stripped.startswith(fence) and not stripped.strip(fence[0]):
        fence = None
      continue
    if comment or stripped.startswith("<!--"):
      comment = "-->" not in stripped
      current = None
      continue
    opening = re.match(r"(```+|~~~+)", stripped)
    if opening:
      fence, current = opening[1], None
      continue
    if not stripped:
      current = None
      continue
    if re.match(r"#{1,6} ", stripped) or re.fullmatch(r"[-=*_]{3,}", stripped):
      current, in_list = None, False
      continue
    if stripped.startswith("|"):
      current, in_list = None, False
      if not re.fullmatch(r"[|:\- ]+", stripped):
        blocks += [Block("cell", number, cell) for cell in cells_of(stripped)]
      continue
    item = re.match(r"\s*(?:[-*+]|\d+[.)])\s+(.*)", line)
    if item:
      current, in_list = Block("item", number, item[1]), True
      blocks.append(current)
      continue
    stripped = re.sub(r"^>\s?", "", stripped)
    if current:
      current.text += " " + stripped
      continue
    indent = len(line) - len(line.lstrip())
    if indent >= 4 and not in_list:
      continue  # indented code
    in_list = in_list and indent > 0
    current = Block("item part" if in_list else "paragraph", number, stripped)
    blocks.append(current)
  return blocks


def sentences_of(text):
  """Those that end in a full stop, a question mark or an exclamation mark."""
  result, start = [], 0
  text = plain(text)
  for stop in re.finditer(r"[.!?][\"')\]*_]*(?=\s+[A-Z(\"'\[*_]|\s*$)", text):
    if ABBREVIATION.search(text[:stop.start() + 1]):
      continue
    result.append(text[start:stop.end()].strip())
    start = stop.end()
  return result


def could_be_verb(word, previous):
  if previous == "to":
    return False
  if previous in SUBJECTS or word in AUXILIARIES:
    return True
  if previous in BEFORE_NOUNS:
    return False
  if word in VERBS:
    return True
  if re.search(r"('s|'re|'ve|'ll|n't)$", word):
    return True
  if word in PLURALS:
    return False
  return len(word) > 2 and (word.endswith("ed") or word.endswith("s"))


def has_verb(sentence):
  previous = ""
  for word in re.findall(r"[a-z]+(?:['’][a-z]+)?", sentence.lower()):
    if could_be_verb(word.replace("’", "'"), previous):
      return True
    previous = word
  return False


def is_only_links(text):
  links = re.findall(r"\[[^\]]*\]\([^)]*\)", text)
  rest = re.sub(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\([^)]*\)", " ", text)
  left = set(re.findall(r"\w+", rest.lower())) - JOINERS
  return bool(links) and not text.startswith("!") and not left


def shown(text):
  text = " ".join(text.split())
  return text if len(text) <= 60 else text[:57] + "..."


def offences(name, text):
  """What is wrong with a document, one line of text each."""
  result = []

  def too_long(block, what, count, limit):
    if count > limit:
      result.append(f"{name}:{block.line}: {what} of {count} words, at most "
                    f"{limit}: {shown(block.text)}")

  item, item_words = None, 0
  for block in blocks_of(text):
    count = len(words(block.text))
    if block.kind == "cell":
      too_long(block, "a cell", count, CELL_WORDS)
      continue
    if block.kind == "item":
      item, item_words = block, 0
    if name == LIMITS and block.kind != "paragraph":
      if item_words <= LIMIT_WORDS:
        too_long(item, "an item", item_words + count, LIMIT_WORDS)
      item_words += count
    else:
      what = "a paragraph" if block.kind == "paragraph" else "an item"
      too_long(block, what, count, PARAGRAPH_WORDS)
    links = len(re.findall(r"\]\(", block.text))
    if is_only_links(block.text) and (block.kind == "paragraph" or links > 1):
      result.append(f"{name}:{block.line}: nothing but links ({links}): "
                    f"{shown(block.text)}")
      continue
    for sentence in sentences_of(block.text):
      if len(words(sentence)) >= SENTENCE_WORDS and not has_verb(sentence):
        result.append(f"{name}:{block.line}: no verb in {len(words(sentence))} "
                      f"words: {shown(sentence)}")
  return result


def documents(root):
  names = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
  found = [root / name for name in names if (root / name).exists()]
  return found + sorted((root / "docs").rglob("*.md"))


def read_todo(root):
  path = root / TODO
  lines = path.read_text().splitlines() if path.exists() else []
  return [line.strip() for line in lines
          if line.strip() and not line.startswith("#")]


def check(texts, todo):
  """All that is wrong. texts: name -> text of each document."""
  result = []
  for name, text in texts.items():
    found = offences(name, text)
    if name not in todo:
      result += found
    elif not found:
      result.append(f"{name} passes: take it out of {TODO}")
  result += [f"{TODO} lists {name}, which is not there"
             for name in todo if name not in texts]
  return result


def self_test():
  """Each kind of offence is found where it is, and nothing else is."""
  def words_of(count):
    return " ".join(["It is"] + ["so"] * (count - 2)) + "."

  good = f"""# A heading of any length

{words_of(80)}

Run `a b c` first. See [a page](limits.md), which explains it. They frob it.

- {words_of(80)}

| a | {words_of(25)} |
|---|---|
| `a | b` | short |

```sh
{words_of(200)}
```
"""
  plants = [
      ("a paragraph of 81 words", "docs/a.md", words_of(81)),
      ("an item of 81 words", "docs/a.md", "- " + words_of(81)),
      ("an item of 61 words", LIMITS, "- " + words_of(61)),
      ("an item of 65 words", LIMITS,
       "- " + words_of(30) + "\n\n  " + words_of(35)),
      ("a cell of 26 words", "docs/a.md", f"| a | {words_of(26)} |\n|--|--|"),
      ("nothing but links (2)", "docs/a.md", "[a](a.md), [b c](b.md)."),
      ("no verb in 5 words", "docs/a.md", "A way to find bits."),
      ("no verb in 4 words", "docs/a.md", "It is. The loops for sums."),
  ]
  problems = [f"told off for nothing: {line}"
              for line in offences("docs/a.md", good)]
  for wanted, name, text in plants:
    found = offences(name, "# Title\n\n" + text + "\n")
    if len(found) != 1 or not found[0].startswith(f"{name}:3: {wanted}"):
      problems.append(f"planted '{wanted}' at line 3 of {name}, found {found}")
  texts = {"docs/good.md": good, "docs/bad.md": words_of(81)}
  if check(texts, ["docs/bad.md"]):
    problems.append("a document of the list is told off")
  if len(check(texts, ["docs/bad.md", "docs/good.md"])) != 1:
    problems.append("a document of the list that passes is not told off")
  if len(check(texts, ["docs/bad.md", "docs/gone.md"])) != 1:
    problems.append("a document of the list that is gone is not told off")
  return problems


def main():
  root = pathlib.Path(sys.argv[1])
  problems = [f"self-test: {line}" for line in self_test()]
  texts = {str(path.relative_to(root)): path.read_text()
           for path in documents(root)}
  if "--all" in sys.argv:  # also what the list excuses
    problems += [line for name, text in texts.items()
                 for line in offences(name, text)]
  else:
    problems += check(texts, read_todo(root))
  for line in problems:
    print(f"FAILED: {line}")
  if not problems:
    print(f"prose of {len(texts)} documents: ok")
  return 1 if problems else 0


if __name__ == "__main__":
  sys.exit(main())

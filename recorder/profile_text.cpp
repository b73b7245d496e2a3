#include "recorder/profile_text.h"

#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "recorder/trace_parse.h"
#include "support/text_cursor.h"

namespace tjit {
namespace {

constexpr std::string_view kContext = "context", kTrace = "trace",
                           kSegment = "segment";

std::string Numbers(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (const std::uint32_t n : numbers) {
    absl::StrAppend(&text, text.empty() ? " " : ",", n);
  }
  return text;
}

std::string ToText(const KnownPath& path) {
  ParsedTrace trace;
  trace.has_header = true;
  trace.starts_at_boundary = path.at_boundary;
  trace.steps = path.steps;
  trace.slots = path.slots;
  std::string text = tjit::ToText(trace);
  for (std::size_t end = 0; end < path.segments.size(); ++end) {
    for (const ProfileSegment& s : path.segments[end]) {
      absl::StrAppend(&text, std::string(kSegment), " ", s.begin, " ", end,
                      " live", Numbers(s.live), " dropped", Numbers(s.dropped),
                      "\n");
    }
  }
  return text;
}

class Parser {
 public:
  Parser(std::string_view text,
         const std::function<std::uint32_t(const ContextWords&)>& context_of,
         Profile* profile, const std::atomic<bool>* stop)
      : text_(text), context_of_(context_of), profile_(*profile), stop_(stop) {}

  std::string Run() {
    std::string error;
    while (error.empty() && !text_.empty()) {
      const std::string_view line = text_.substr(0, text_.find('\n'));
      if (line.starts_with(kContext)) {
        error = Context(ConsumeLines(1));
      } else if (line.starts_with(kTrace)) {
        error = Trace();
      } else if (line.starts_with(kSegment)) {
        error = Segment(ConsumeLines(1));
      } else {
        error = "expected context, trace or segment";
      }
    }
    if (error.empty()) error = AddPath();
    return error.empty() ? "" : absl::StrCat(begun_, ": ", error);
  }

 private:
  // The next lines of the text, so many of them.
  std::string_view ConsumeLines(std::size_t count) {
    std::size_t end = 0;
    begun_ = line_;
    for (; count > 0 && end < text_.size(); --count, ++line_) {
      const std::size_t newline = text_.find('\n', end);
      end = newline == std::string_view::npos ? text_.size() : newline + 1;
    }
    const std::string_view lines = text_.substr(0, end);
    text_.remove_prefix(end);
    return lines;
  }

  // context 1 0,40000000
  std::string Context(std::string_view line) {
    TextCursor c(line);
    std::uint64_t number = 0;
    ContextWords words;
    if (!c.Consume(kContext) || !c.ConsumeUnsigned(&number)) return c.error();
    do {
      std::uint64_t word = 0;
      c.SkipBlanks();
      if (!c.ConsumeHex(&word)) return c.error();
      words.push_back(word);
    } while (c.Try(","));
    if (c.ConsumeEndOfLine()) contexts_[number] = context_of_(words);
    return c.error();
  }

  // The header and all lines that are indented below it.
  std::string Trace() {
    if (stop_ != nullptr && stop_->load()) return "reading was stopped";
    std::string error = AddPath();
    if (!error.empty()) return error;
    std::size_t lines = 1;
    for (std::size_t at = text_.find('\n');
         at != std::string_view::npos && text_.substr(at + 1, 1) == " ";
         at = text_.find('\n', at + 1)) {
      ++lines;
    }
    ParsedTrace trace;
    if (!ParseTrace(ConsumeLines(lines), &trace, &error)) return error;
    has_path_ = true;
    is_foreign_ = false;
    path_ = KnownPath();
    path_.at_boundary = trace.starts_at_boundary;
    path_.steps = std::move(trace.steps);
    path_.slots = std::move(trace.slots);
    path_.segments.resize(path_.steps.size());
    return MapContexts();
  }

  std::string MapContexts() {
    for (StepRecord& step : path_.steps) {
      if (step.context == 0) continue;  // runs at the call, wherever
      const auto found = contexts_.find(step.context);
      if (found == contexts_.end()) {
        return absl::StrCat("context ", step.context, " is not there");
      }
      step.context = found->second;
      is_foreign_ |= found->second == 0;
    }
    return "";
  }

  // segment 0 8 live 0,2 dropped 3
  std::string Segment(std::string_view line) {
    TextCursor c(line);
    ProfileSegment segment;
    std::uint64_t begin = 0, end = 0;
    if (!c.Consume(kSegment) || !c.ConsumeUnsigned(&begin) ||
        !c.ConsumeUnsigned(&end) || !c.Consume("live") ||
        !List(&c, path_.slots.size(), &segment.live) || !c.Consume("dropped") ||
        !List(&c, path_.steps.size(), &segment.dropped) ||
        !c.ConsumeEndOfLine()) {
      return c.error();
    }
    if (!has_path_ || begin > end || end >= path_.steps.size()) {
      return absl::StrCat("no steps ", begin, " to ", end);
    }
    segment.begin = static_cast<std::uint32_t>(begin);
    path_.segments[end].push_back(std::move(segment));
    return "";
  }

  // Ascending numbers below `limit`, or none.
  static bool List(TextCursor* c, std::size_t limit,
                   std::vector<std::uint32_t>* numbers) {
    if (c->Sees("dropped") ||
        c->rest().find_first_not_of(" \n") == std::string_view::npos) {
      return true;
    }
    do {
      std::uint64_t number = 0;
      if (!c->ConsumeUnsigned(&number)) return false;
      if (number >= limit || (!numbers->empty() && number <= numbers->back())) {
        return c->Fail("a number that is not there, or not ascending");
      }
      numbers->push_back(static_cast<std::uint32_t>(number));
    } while (c->Try(","));
    return true;
  }

  std::string AddPath() {
    if (!has_path_ || is_foreign_) return "";
    has_path_ = false;
    return profile_.Add(std::move(path_));
  }

  std::string_view text_;
  std::size_t line_ = 1, begun_ = 1;
  const std::function<std::uint32_t(const ContextWords&)>& context_of_;
  Profile& profile_;
  const std::atomic<bool>* const stop_;  // may be null
  absl::flat_hash_map<std::uint64_t, std::uint32_t> contexts_;
  bool has_path_ = false, is_foreign_ = false;
  KnownPath path_;
};

}  // namespace

std::string ToText(
    const Profile& profile,
    const std::function<ContextWords(std::uint32_t context)>& words_of) {
  std::string text, traces;
  std::set<std::uint32_t> contexts;
  for (const KnownNode* end : profile.ends()) {
    const KnownPath path = Profile::PathTo(end);
    for (const StepRecord& step : path.steps) contexts.insert(step.context);
    traces += ToText(path);
  }
  for (const std::uint32_t context : contexts) {
    if (context == 0) continue;
    absl::StrAppend(&text, std::string(kContext), " ", context);
    const char* before = " ";
    for (const std::uint64_t word : words_of(context)) {
      absl::StrAppend(&text, before, absl::Hex(word));
      before = ",";
    }
    text += "\n";
  }
  return text + traces;
}

bool ParsesBack(const KnownPath& path) {
  ParsedTrace trace;
  std::string error;
  const std::string text =
      ToText({path.at_boundary, path.steps, path.slots, {}});
  if (!ParseTrace(text, &trace, &error)) return false;
  for (std::size_t i = 0; i < path.steps.size(); ++i) {
    if (!Resembles(path.steps[i], trace.steps[i])) return false;
  }
  return trace.slots.size() == path.slots.size();
}

std::string ParseProfile(
    std::string_view text,
    const std::function<std::uint32_t(const ContextWords&)>& context_of,
    Profile* profile, const std::atomic<bool>* stop) {
  return Parser(text, context_of, profile, stop).Run();
}

}  // namespace tjit

#include "tools/tjit/attached_process.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "tools/tjit/process_log.h"

namespace tjit::tools {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(std::uint32_t pid) { return absl::StrCat("/proc/", pid); }

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The number of a process as it sees itself: in a container it is another one.
std::uint32_t OwnPidOf(std::uint32_t pid) {
  std::istringstream words(StatusOf(pid, "NSpid"));
  std::uint32_t own = pid;
  for (std::uint32_t number = 0; words >> number;) own = number;
  return own;
}

bool IsPageLink(const fs::path& link) {
  std::error_code error;
  return fs::read_symlink(link, error) == kAttachPageLink && !error;
}

// A child of the process that has a page; 0 if there is none.
std::uint32_t ChildWithPage(std::uint32_t pid) {
  std::istringstream children(
      TextOf(absl::StrCat(FolderOf(pid), "/task/", pid, "/children")));
  for (std::uint32_t child = 0; children >> child;) {
    std::error_code error;
    fs::directory_iterator files(FolderOf(child) + "/fd", error);
    for (; !error && files != fs::directory_iterator();
         files.increment(error)) {
      if (IsPageLink(files->path())) return child;
    }
    if (const std::uint32_t below = ChildWithPage(child)) return below;
  }
  return 0;
}

// Another one each time.
std::uint32_t NewToken() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return static_cast<std::uint32_t>(now) | 1;
}

}  // namespace

AttachedProcess::~AttachedProcess() {
  if (page_ != nullptr) {
    if (token_ != 0) Withdraw();
    munmap(page_, sizeof(AttachPage));
  }
  if (file_ >= 0) close(file_);
  if (folder_ >= 0) close(folder_);
}

bool AttachedProcess::Open(const std::string& link) {
  const int fd = open(link.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  // The head of a page, which every version has.
  alignas(AttachPage) char head[offsetof(AttachPage, token)] = {};
  const auto* const page = reinterpret_cast<const AttachPage*>(head);
  const bool is_page =
      pread(fd, head, sizeof(head), 0) == sizeof(head) &&
      std::memcmp(page->magic, kAttachMagic, sizeof(kAttachMagic)) == 0;
  struct stat is{};
  if (is_page && page->version != kAttachVersion) {
    other_version_ = page->version;
  } else if (is_page && page->pid == OwnPidOf(pid_) && fstat(fd, &is) == 0 &&
             is.st_size == sizeof(AttachPage)) {
    void* const made = mmap(nullptr, sizeof(AttachPage), PROT_READ | PROT_WRITE,
                            MAP_SHARED, fd, 0);
    if (made != MAP_FAILED) {
      page_ = static_cast<AttachPage*>(made);
      file_ = fd;
      return true;
    }
  }
  close(fd);
  return false;
}

std::string AttachedProcess::Find(std::uint32_t pid) {
  pid_ = pid;
  const std::string process = absl::StrCat("process ", pid);
  folder_ = open(FolderOf(pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) {
    return absl::StrCat("there is no ", process,
                        "; give the number of one that runs now");
  }
  std::error_code error;
  fs::directory_iterator files(FolderOf(pid) + "/fd", error);
  if (error) {
    return absl::StrCat("cannot see the files of ", process, ": ",
                        error.message(),
                        "; attach as the user whose process it is");
  }
  for (; files != fs::directory_iterator() && page_ == nullptr;
       files.increment(error)) {
    if (error) break;
    if (IsPageLink(files->path())) Open(files->path());
  }
  if (page_ == nullptr) return WhyNoPage();
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    return absl::StrCat("another `tjit attach` has ", process,
                        "; wait for its end, or end it");
  }
  return {};
}

// Of a process without a page that could be used.
std::string AttachedProcess::WhyNoPage() const {
  const std::string process = absl::StrCat("process ", pid_);
  if (other_version_ != 0) {
    return absl::StrCat(
        process, " runs with another tjit: its page is of version ",
        other_version_, ", this command knows version ", kAttachVersion,
        "; use the `tjit` that lies beside that libtjit.so");
  }
  const std::string maps = TextOf(FolderOf(pid_) + "/maps");
  if (maps.find(kAttachPageLink) != std::string::npos) {
    return absl::StrCat(process, " has closed the descriptor by which it is ",
                        "reached, as daemons do that close all: start it with ",
                        "`tjit run --log=FILE`");
  }
  const std::string disabled = VariableOf(pid_, "TJIT_DISABLE");
  if (!disabled.empty() && disabled != "0") {
    return absl::StrCat("tjit is off in ", process,
                        ", by TJIT_DISABLE=", disabled,
                        "; start it without that");
  }
  if (maps.find("/libtjit.so") == std::string::npos) {
    const std::uint32_t child = ChildWithPage(pid_);
    if (child != 0) {
      return absl::StrCat("there is no tjit in ", process,
                          ", but in its child ", child, ": tjit attach ",
                          child);
    }
    return absl::StrCat("there is no tjit in ", process,
                        "; start it with `tjit run -- program`");
  }
  return absl::StrCat(
      "tjit is loaded in ", process,
      " and not on, or has no memory to share; switch it on ",
      "(TJIT_AUTO_COMPILE=1, tjit::enable()), or start it with ",
      "`tjit run --log=FILE`");
}

std::string AttachedProcess::OwnLog() const {
  return page_->answer.load(std::memory_order_acquire).state ==
                 AttachState::kOwnLog
             ? Text()
             : "";
}

void AttachedProcess::Ask(const Wanted& wanted) {
  page_->request.exchange(
      AttachRequest::kNone);  // of a command that was killed
  token_ = page_->token = NewToken();
  page_->length_ms = wanted.length_ms;
  page_->mb = wanted.mb;
  std::strncpy(page_->path, wanted.path.c_str(), sizeof(page_->path) - 1);
  page_->request.store(AttachRequest::kStart, std::memory_order_release);
  page_->word.fetch_or(kAttachAsked);
}

bool AttachedProcess::Withdraw() {
  AttachRequest start = AttachRequest::kStart;
  return page_->request.compare_exchange_strong(start, AttachRequest::kNone);
}

void AttachedProcess::Stop() {
  page_->request.store(AttachRequest::kStop, std::memory_order_release);
  page_->word.fetch_or(kAttachAsked);
}

AttachState AttachedProcess::State() const {
  const AttachAnswer answer = page_->answer.load(std::memory_order_acquire);
  return answer.token == token_ ? answer.state : AttachState::kNone;
}

std::string AttachedProcess::Text() const {
  return {page_->text, strnlen(page_->text, sizeof(page_->text))};
}

bool AttachedProcess::IsOn() const { return page_->is_on.load() != 0; }

bool AttachedProcess::HasEnded() const {
  const int fd = openat(folder_, "stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  char text[512] = {};
  const ssize_t bytes = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (bytes <= 0) return true;
  // "12 (a program) Z ..."
  const std::string_view all(text, static_cast<std::size_t>(bytes));
  const std::size_t name = all.rfind(") ");
  return name == std::string_view::npos || name + 2 >= all.size() ||
         all[name + 2] == 'Z' || all[name + 2] == 'X';
}

}  // namespace tjit::tools

#include "compiler/cache/object_cache.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/cache/entry.h"
#include "compiler/cache/folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tjit::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ObjectCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/object_cache_test.XXXXXX";
    top_ = mkdtemp(name);
    folder_ = top_ + "/a/tjit";
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  ObjectCache Open(std::uint64_t max_bytes = kMaxBytes) {
    return ObjectCache(
        folder_, [this](const std::string& text) { said_.push_back(text); },
        max_bytes);
  }
  std::string PathOf(std::string_view key) {
    return absl::StrCat(folder_, "/", FileNameOf(key));
  }
  // "": there is none.
  std::string Found(std::string_view key) {
    ObjectCache cache = Open();
    std::string object;
    return cache.Find(key, &object) ? object : "";
  }
  static std::string Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void SetBytes(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  void SetUsed(std::string_view key, int days_ago) {
    const timespec then = {time(nullptr) - 86400 * days_ago, 0};
    const timespec times[2] = {then, then};
    ASSERT_EQ(utimensat(AT_FDCWD, PathOf(key).c_str(), times, 0), 0);
  }

  std::string top_, folder_;
  std::vector<std::string> said_;
};

const std::string kObject("ab\0\n\xff", 5);

TEST_F(ObjectCacheTest, WhatIsStoredIsFoundByAnotherProcess) {
  EXPECT_EQ(Found("key"), "");
  ObjectCache cache = Open();
  cache.Store("key", kObject);
  cache.Store("empty", "");
  std::string object;
  EXPECT_TRUE(cache.Find("key", &object));
  EXPECT_EQ(object, kObject);
  EXPECT_TRUE(cache.Find("empty", &object));
  EXPECT_FALSE(cache.Find("kez", &object));
  EXPECT_EQ(cache.hits(), 2);
  EXPECT_EQ(cache.misses(), 1);
  EXPECT_EQ(cache.writes(), 2);
  EXPECT_EQ(Found("key"), kObject);
  EXPECT_THAT(said_, IsEmpty());
  struct stat info;
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u) << "for the user alone";
}

TEST_F(ObjectCacheTest, DamagedEntriesAreRemovedAndSaidOnce) {
  ObjectCache cache = Open();
  std::string object;
  cache.Store("key", kObject);
  const std::string good = Bytes(PathOf("key"));
  for (std::size_t at = 0; at <= good.size(); ++at) {
    std::string bad = good;
    if (at < good.size()) bad[at] = static_cast<char>(bad[at] ^ 0x40);
    if (at == good.size()) bad.push_back('x');
    SetBytes(PathOf("key"), bad);
    EXPECT_FALSE(cache.Find("key", &object)) << at;
    EXPECT_NE(access(PathOf("key").c_str(), F_OK), 0) << at;
    SetBytes(PathOf("key"), good.substr(0, at < good.size() ? at : 0));
    EXPECT_FALSE(cache.Find("key", &object)) << at;
  }
  EXPECT_THAT(said_, ElementsAre(HasSubstr(PathOf("key"))));
  cache.Store("key", kObject);
  EXPECT_TRUE(cache.Find("key", &object));
}

TEST_F(ObjectCacheTest, AForeignEntryIsRemoved) {
  Open().Store("key", kObject);
  // A file that was renamed, or a hash that two keys have.
  ASSERT_EQ(rename(PathOf("key").c_str(), PathOf("other").c_str()), 0);
  EXPECT_EQ(Found("other"), "");
  EXPECT_THAT(said_, ElementsAre(HasSubstr("of another key")));
  EXPECT_NE(access(PathOf("other").c_str(), F_OK), 0);
  SetBytes(PathOf("text"), std::string(100, 'x'));
  EXPECT_EQ(Found("text"), "");
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_THAT(said_[1], HasSubstr("no entry of tjit's cache"));
}

TEST_F(ObjectCacheTest, AnEntryOfAnotherFormatIsRemoved) {
  Open().Store("key", kObject);
  std::string bytes = Bytes(PathOf("key"));
  bytes[24] = 9;  // magic, checksum, then the format
  SetBytes(PathOf("key"), bytes);
  EXPECT_EQ(Found("key"), "");
  EXPECT_THAT(said_, ElementsAre(HasSubstr("it has format 9, not 1")));
}

TEST_F(ObjectCacheTest, WhatIsNoFileIsNotRead) {
  ObjectCache cache = Open();
  cache.Store("key", kObject);
  ASSERT_EQ(mkfifo(PathOf("pipe").c_str(), 0600), 0);
  EXPECT_EQ(Found("pipe"), "");  // and does not wait for a writer
  ASSERT_EQ(symlink(PathOf("key").c_str(), PathOf("link").c_str()), 0);
  EXPECT_EQ(Found("link"), "");
  EXPECT_EQ(said_.size(), 2u);
}

TEST_F(ObjectCacheTest, AFolderThatIsNotOursIsNotUsed) {
  Open().Store("key", kObject);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(Found("key"), "");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_THAT(said_[0], HasSubstr("every user may write to it"));
  ObjectCache cache = Open();
  cache.Store("new", kObject);
  cache.Store("newer", kObject);
  EXPECT_EQ(cache.writes(), 0);
  EXPECT_EQ(said_.size(), 2u) << "once";
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  EXPECT_EQ(Found("key"), kObject);
  if (geteuid() != 0) return;  // only root gives files away
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(Found("key"), "");
  EXPECT_THAT(said_.back(), HasSubstr("belongs to another user"));
}

TEST_F(ObjectCacheTest, WithoutAFolderNothingIsKept) {
  SetBytes(top_ + "/a", "a file");
  ObjectCache cache = Open();
  cache.Store("key", kObject);
  cache.Store("key", kObject);
  std::string object;
  EXPECT_FALSE(cache.Find("key", &object));
  ASSERT_FALSE(said_.empty());
  EXPECT_LE(said_.size(), 2u);
  EXPECT_THAT(said_[0], HasSubstr("TJIT_CACHE_DIR"));
}

// Runs `test` in a child and passes on its failures.
template <class Test>
void InChild(const Test& test) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    test();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(ObjectCacheTest, AFolderForReadingOnlyIsRead) {
  Open().Store("key", kObject);
  ASSERT_EQ(chmod(folder_.c_str(), 0500), 0);
  ASSERT_EQ(chmod(top_.c_str(), 0755), 0);
  InChild([&] {
    // Root may write anywhere.
    if (geteuid() == 0) {
      ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
      ASSERT_EQ(chown(PathOf("key").c_str(), 12345, 12345), 0);
      ASSERT_EQ(chmod((top_ + "/a").c_str(), 0755), 0);
      ASSERT_EQ(setuid(12345), 0);
    }
    ObjectCache cache = Open();
    std::string object;
    EXPECT_TRUE(cache.Find("key", &object));
    cache.Store("new", kObject);
    cache.Store("newer", kObject);
    EXPECT_EQ(cache.writes(), 0);
    EXPECT_TRUE(cache.Find("key", &object));
    EXPECT_THAT(said_, ElementsAre(HasSubstr("Permission denied")));
  });
}

TEST_F(ObjectCacheTest, AFullDiskIsSaidOnce) {
  InChild([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit small = {1000, 1000};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    ObjectCache cache = Open();
    cache.Store("small", kObject);
    EXPECT_EQ(cache.writes(), 1);
    cache.Store("large", std::string(5000, 'x'));
    cache.Store("larger", std::string(6000, 'x'));
    std::string object;
    EXPECT_FALSE(cache.Find("large", &object));
    EXPECT_TRUE(cache.Find("small", &object));
    EXPECT_THAT(said_, ElementsAre(HasSubstr("File too large")));
  });
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    EXPECT_TRUE(IsFileName(file.path().filename().string())) << file.path();
    ++count;
  }
  EXPECT_EQ(count, 1) << "nothing half written stays";
}

TEST_F(ObjectCacheTest, WhatWasNotUsedForLongestGoesFirst) {
  const std::string object(10000, 'x');  // three blocks of the disk
  ObjectCache cache = Open();
  for (int i = 0; i < 8; ++i) cache.Store(absl::StrCat("key", i), object);
  for (int i = 0; i < 8; ++i) SetUsed(absl::StrCat("key", i), 30 - i);
  EXPECT_EQ(Found("key0"), object);  // a use, now
  SetBytes(folder_ + "/.writing-1-1", "of a writer that was killed");
  SetBytes(folder_ + "/notes.txt", "not ours");
  const timespec old[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(
      utimensat(AT_FDCWD, (folder_ + "/.writing-1-1").c_str(), old, 0), 0);
  Open(8 * 12288).Store("new", object);
  EXPECT_EQ(Found("key0"), object);
  EXPECT_EQ(Found("new"), object);
  EXPECT_EQ(Found("key7"), object);
  EXPECT_EQ(Found("key1"), "");
  EXPECT_EQ(Found("key2"), "");
  EXPECT_NE(access((folder_ + "/.writing-1-1").c_str(), F_OK), 0);
  EXPECT_EQ(access((folder_ + "/notes.txt").c_str(), F_OK), 0);
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(ObjectCacheTest, ItStaysWithinItsBytes) {
  ObjectCache cache = Open(100000);
  for (int i = 0; i < 200; ++i) {
    cache.Store(absl::StrCat("key", i), std::string(3000, 'x'));
  }
  std::vector<FileInfo> files;
  ASSERT_EQ(List(folder_, &files), "");
  EXPECT_LE(files.size() * 4096, 100000u);
  EXPECT_GT(files.size(), 10u);
}

TEST_F(ObjectCacheTest, ManyProcessesAtOnce) {
  const auto object_of = [](int key) {
    return std::string(20000 + static_cast<std::size_t>(key),
                       static_cast<char>('a' + key));
  };
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    children.push_back(fork());
    ASSERT_GE(children.back(), 0);
    if (children.back() != 0) continue;
    ObjectCache cache = Open(200000);  // ten objects: some are thrown out
    bool good = true;
    for (int i = 0; i < 200; ++i) {
      const int key = (i + 3 * child) % 16;
      std::string object;
      if (cache.Find(absl::StrCat(key), &object)) {
        good = good && object == object_of(key);
      } else {
        cache.Store(absl::StrCat(key), object_of(key));
      }
    }
    _exit(good && said_.empty() && cache.hits() > 0 ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace tjit::cache

// What an interpreter runs, by its command line.
#include "recorder/script.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tjit {
namespace {

using ::testing::MatchesRegex;

class ScriptTest : public ::testing::Test {
 protected:
  ScriptTest() {
    folder_ = std::filesystem::canonical(::testing::TempDir()) /
              ("script_test." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_ / "sub" / "app");
    for (const char* name : {"train.py", "eval.py", "sub/train.py",
                             "sub/app/__init__.py", "sub/tool.py"}) {
      std::ofstream(folder_ / name) << "pass\n";
    }
    std::filesystem::create_symlink("train.py", folder_ / "link.py");
  }
  ~ScriptTest() override { std::filesystem::remove_all(folder_); }

  // What `command` runs, started in `sub` of the folder.
  std::string Of(std::vector<std::string> command,
                 const std::string& sub = "") const {
    return ScriptOf("/usr/bin/" + command[0], command,
                    (folder_ / sub).string());
  }
  std::string In(const std::string& name) const { return folder_ / name; }

  std::filesystem::path folder_;
};

TEST_F(ScriptTest, AScriptIsItsFileHoweverItIsNamed) {
  const std::string train = "script " + In("train.py");
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{
           {"python3", "train.py"},
           {"python", "./train.py", "eval.py"},
           {"python3.11", In("train.py"), "--data", "eval.py"},
           {"python3", "-u", "-W", "ignore", "link.py"},
           {"python3", "-uWeval.py", "-X", "eval.py", "sub/../train.py"},
           {"pypy3.10", "--check-hash-based-pycs", "always", "train.py"}}) {
    EXPECT_EQ(Of(command), train) << command.back();
  }
  EXPECT_EQ(Of({"python3", "../train.py"}, "sub"), train);
  EXPECT_EQ(Of({"python3", "train.py"}, "sub"), "script " + In("sub/train.py"));
  EXPECT_EQ(Of({"python3", "eval.py", "train.py"}), "script " + In("eval.py"));
  // A folder or an archive may be run, too.
  EXPECT_EQ(Of({"python3", "sub"}), "script " + In("sub"));
  // It has gone, or the program has left its folder.
  EXPECT_EQ(Of({"python3", "gone.py", "train.py"}), "script gone.py");
}

TEST_F(ScriptTest, AModuleIsItsNameAndItsPlaceIfThatIsHere) {
  EXPECT_EQ(Of({"python3", "-m", "app.train", "train.py"}),
            "module app.train");
  EXPECT_EQ(Of({"python3", "-um", "app.train"}, "sub"),
            "module app.train in " + In("sub/app"));
  EXPECT_EQ(Of({"python3", "-mtool"}, "sub"),
            "module tool in " + In("sub/tool.py"));
  EXPECT_EQ(Of({"python3", "-m"}), "");
}

TEST_F(ScriptTest, CodeIsItsText) {
  const std::string one = Of({"python3", "-c", "print(1)", "train.py"});
  EXPECT_THAT(one, MatchesRegex("code [0-9a-f]+"));
  EXPECT_EQ(Of({"python3", "-Ic", "print(1)"}), one);
  EXPECT_EQ(Of({"python3", "-cprint(1)"}), one);
  EXPECT_NE(Of({"python3", "-c", "print(2)"}), one);
  // A child of multiprocessing is told numbers of its own.
  const auto spawn = [&](const char* fd) {
    return Of({"python3", "-c",
               std::string("from multiprocessing.spawn import spawn_main; "
                           "spawn_main(pipe_handle=") +
                   fd + ")",
               "--multiprocessing-fork"});
  };
  EXPECT_EQ(spawn("7"), spawn("12"));
}

TEST_F(ScriptTest, NothingIsSaidOfStandardInput) {
  EXPECT_EQ(Of({"python3"}), "");
  EXPECT_EQ(Of({"python3", "-"}), "");
  EXPECT_EQ(Of({"python3", "-i"}), "");
  EXPECT_EQ(Of({"bash"}), "");
}

TEST_F(ScriptTest, OtherInterpreters) {
  EXPECT_EQ(Of({"bash", "-e", "x", "train.py"}), Of({"sh", "-c", "x"}));
  EXPECT_EQ(Of({"ruby", "-w", "eval.py", "train.py"}),
            "script " + In("eval.py"));
  EXPECT_EQ(Of({"R", "--no-echo", "--file=eval.py"}),
            "script " + In("eval.py"));
}

TEST_F(ScriptTest, AProgramIsNoInterpreter) {
  EXPECT_EQ(Of({"train", "train.py"}), "");
  EXPECT_EQ(Of({"pythonic", "train.py"}), "");
  for (const char* name : {"python", "python3", "/opt/x/python3.13t", "lua5.4",
                           "Rscript", "node"}) {
    EXPECT_TRUE(IsInterpreter(name)) << name;
  }
}

TEST_F(ScriptTest, ALineStaysOne) {
  EXPECT_EQ(Of({"python3", "a\nb.py"}), "script a b.py");
}

TEST_F(ScriptTest, ThisProcess) {
  EXPECT_EQ(ScriptOfProcess("/bin/recorder_test"), "");
  // As python, the first argument that is no option; there is none, mostly.
  EXPECT_EQ(ScriptOfProcess("/usr/bin/python3").find('\n'), std::string::npos);
}

}  // namespace
}  // namespace tjit

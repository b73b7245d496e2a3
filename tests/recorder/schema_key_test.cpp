#include "recorder/schema_key.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tjit {
namespace {

TEST(SchemaKeyTest, NamesAndOverloadsAreInterned) {
  const OpId add = InternOp("aten::add.Tensor");
  EXPECT_NE(add, kNoOp);
  EXPECT_EQ(InternOp(std::string("aten::add") + ".Tensor"), add);
  EXPECT_NE(InternOp("aten::add.Scalar"), add);
  EXPECT_NE(InternOp("aten::add"), add);
  EXPECT_EQ(OpName(add), "aten::add.Tensor");
}

TEST(SchemaKeyTest, UnknownIdsHaveNoName) {
  EXPECT_EQ(OpName(kNoOp), "?");
  EXPECT_EQ(OpName(1u << 30), "?");
}

TEST(SchemaKeyTest, ThreadsAgree) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the mutex of the installed Abseil is not instrumented";
#endif
  std::vector<std::vector<OpId>> ids(4);
  std::vector<std::thread> threads;
  for (auto& mine : ids) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 500; ++i) {
        mine.push_back(InternOp("test::op" + std::to_string(i)));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& mine : ids) EXPECT_EQ(mine, ids[0]);
  EXPECT_EQ(OpName(ids[0][123]), "test::op123");
}

}  // namespace
}  // namespace tjit

#include "fabric/collection.h"

#include <gtest/gtest.h>

#include <numeric>

#include "fabric/flat.h"
#include "fabric/json.h"
#include "fabric/object.h"
#include "tests/fabric/ranks.h"

namespace weft {
namespace {

using test::expect_failure;

Collection sample() {
  return Collection::map({{"weights", Tensor(std::vector<float>{1, 2, 3, 4}, {2, 2})},
                          {"step", int64_t{7}},
                          {"name", "adam"},
                          {"nothing", {}},
                          {"pair", Collection::tuple({1.5, true})},
                          {"layers", Collection::list({Tensor::of({1, 2}), Tensor::of({3.0})})}});
}

TEST(Collection, DescribesItselfInOrderOfKeys) {
  const std::vector<std::string> expected = {"map",
                                             "layers: list",
                                             "layers[0]: int32[2]",
                                             "layers[1]: float64[1]",
                                             "name: text",
                                             "nothing: null",
                                             "pair: tuple",
                                             "pair[0]: float64[]",
                                             "pair[1]: boolean[]",
                                             "step: int64[]",
                                             "weights: float32[2, 2]"};
  EXPECT_EQ(sample().describe(), expected);
  EXPECT_EQ(Collection(2.5).describe(), std::vector<std::string>{"float64[]"});
}

TEST(Collection, IsReadByKeyAndIndex) {
  const Collection c = sample();
  EXPECT_EQ(c["step"].item<int>(), 7);
  EXPECT_EQ(c["layers"][1].tensor().to_string(), "[3]");
  EXPECT_EQ(c["name"].text(), "adam");
  EXPECT_TRUE(c["pair"][1].item<bool>());
  EXPECT_TRUE(c.contains("nothing"));
  EXPECT_FALSE(c.contains("else"));
  EXPECT_EQ(c.size(), 6u);
  expect_failure(Code::invalid_argument, {"\"loss\" is not in this map", "\"layers\", \"name\""},
                 [&] { (void)c["loss"]; });
  expect_failure(Code::invalid_argument, {"index is 2", "tuple has 2"},
                 [&] { (void)c["pair"][2]; });
  expect_failure(Code::invalid_argument, {"but this is a map"}, [&] { (void)c.tensor(); });
  expect_failure(Code::invalid_argument, {"but this is a float64[]"},
                 [&] { (void)c["pair"][0].text(); });
}

TEST(Collection, Prints) {
  EXPECT_EQ(sample().to_string(),
            "{\"layers\": [[1, 2], [3]], \"name\": \"adam\", \"nothing\": null, \"pair\": (1.5, "
            "true), \"step\": 7, \"weights\": [[1, 2], [3, 4]]}");
}

TEST(Collection, AsksForATensorForEachLeaf) {
  const Collection two = Collection::list({1, 2});
  for (const size_t given : {0, 1, 3}) try {
      (void)two.with_tensors(std::vector<Tensor>(given));
      ADD_FAILURE() << given;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(given) + " tensors were given"),
                std::string::npos)
          << error.what();
    }
}

// Trees that are not the same, in families that paths alone would not tell apart.
TEST(Collection, OtherTreesHaveOtherLines) {
  const auto list = [](std::vector<Collection> items) { return Collection::list(items); };
  const auto tuple = [](std::vector<Collection> items) { return Collection::tuple(items); };
  const auto map = [](std::map<std::string, Collection> items) { return Collection::map(items); };
  const std::vector<Collection> trees = {
      {},
      1,
      list({}),
      tuple({}),
      map({}),
      list({1}),
      tuple({1}),
      list({list({1})}),
      list({tuple({1})}),
      list({1, list({})}),
      list({1, {}}),
      map({{"", 1}}),
      map({{"\"\"", 1}}),
      map({{"[0]", 1}}),
      map({{"a", 1}}),
      map({{"a: int32[]", 1}}),
      map({{"a.b", 1}}),
      map({{"a", map({{"b", 1}})}}),
      map({{"a", map({{"b.c", 1}})}}),
      map({{"a.b", map({{"c", 1}})}}),
      map({{"a[0]", 1}}),
      map({{"a", list({1})}}),
      map({{"a", tuple({1})}}),
      map({{"a\nb", 1}}),
      map({{"a\\nb", 1}}),
      map({{"a", 1}, {"b", list({})}}),
      map({{"a", 1}, {"b", map({})}}),
  };
  std::map<std::vector<std::string>, std::string> seen;
  for (const Collection& tree : trees) {
    const auto [it, is_new] = seen.emplace(tree.describe(), tree.to_string());
    EXPECT_TRUE(is_new) << tree << " reads as " << it->second;
    for (const std::string& line : tree.describe())
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
}

TEST(Collection, TensorsCanBeExchanged) {
  std::vector<Tensor> tensors = sample().tensors();
  ASSERT_EQ(tensors.size(), 6u);
  tensors[4] = Tensor(int64_t{8});
  const Collection changed = sample().with_tensors(tensors);
  EXPECT_EQ(changed["step"].item<int>(), 8);
  EXPECT_EQ(changed["name"].text(), "adam");
}

TEST(Flat, OneBufferPerDtype) {
  const Tensor whole(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
  const std::vector<Tensor> tensors = {whole.slice(1, 0, 2), Tensor(3), Tensor(2.5f), Tensor(4)};
  const std::vector<FlatBuffer> buffers = flatten(tensors);
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].memory.to_string(), "[0, 1, 3, 4, 2.5]");
  EXPECT_EQ(buffers[1].memory.to_string(), "[3, 4]");
  const Tensor results[] = {buffers[0].memory, buffers[1].memory};
  const std::vector<Tensor> again = unflatten(buffers, results);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(again[i].type_text(), tensors[i].type_text());
    EXPECT_EQ(again[i].to_string(), tensors[i].to_string());
  }
}

TEST(Flat, OneContiguousTensorIsNotCopied) {
  const Tensor t(std::vector<float>{1, 2, 3, 4}, {2, 2});
  const Tensor tensors[] = {t};
  EXPECT_EQ(flatten(tensors)[0].memory.data(), t.data());
}

TEST(Object, IsTheSameCollectionAgain) {
  const Tensor bytes = object_of(sample());
  const Collection again = from_object(bytes);
  EXPECT_EQ(again.to_string(), sample().to_string());
  EXPECT_EQ(again.describe(), sample().describe());
  const Tensor strided = Tensor(std::vector<int>{1, 2, 3, 4}, {2, 2}).slice(1, 1, 2);
  EXPECT_EQ(from_object(object_of(strided)).tensor().to_string(), "[[2], [4]]");
  EXPECT_EQ(from_object(object_of({})).kind(), Collection::Kind::null);
}

TEST(Object, ItsTensorsKeepItAlive) {
  Tensor part;
  {
    const Tensor bytes = object_of(sample());
    part = from_object(bytes)["weights"].tensor();
  }
  EXPECT_EQ(part.to_string(), "[[1, 2], [3, 4]]");
}

TEST(Object, BytesThatAreNoneAreRefused) {
  const Tensor bytes = object_of(sample());
  EXPECT_THROW((void)from_object(bytes.slice(0, 0, 4)), Error);
  EXPECT_THROW((void)from_object(bytes.slice(0, 0, 40)), Error);
  EXPECT_THROW((void)from_object(Tensor::zeros(DataType::uint8, {64})), Error);
}

TEST(Json, IsTheSameValueAgain) {
  const auto value = nlohmann::json::parse(
      R"({"lr": 0.001, "batch": 32, "big": 18446744073709551615, "neg": -1, "deep": {"on": true,
          "list": [1, 2.5, "x", null, []]}, "empty": {}})");
  EXPECT_EQ(json_of(collection_of(value)), value);
  EXPECT_EQ(json_of(Tensor(std::vector<int>{1, 2, 3, 4}, {2, 2})).dump(), "[[1,2],[3,4]]");
  EXPECT_THROW((void)collection_of(nlohmann::json::binary({1})), Error);
}

// Positive numbers are unsigned to the parser, which must not make ranks differ.
TEST(Json, IntegersAreOfOneType) {
  EXPECT_EQ(collection_of(nlohmann::json::parse("5")).describe(),
            collection_of(nlohmann::json::parse("-5")).describe());
}

}  // namespace
}  // namespace weft

#include "fabric/collection.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/text.h"
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

// What reads them may be a terminal, or a string that ends at a zero.
TEST(Collection, ControlCharactersAreNotPrinted) {
  EXPECT_EQ(quoted(std::string_view("a\0\x1b[31m\x7f\n\t", 10)), R"("a\x00\x1b[31m\x7f\n\x09")");
  EXPECT_EQ(quoted("ä\\x00"), R"("ä\\x00")");
  EXPECT_EQ(Collection::map({{"a\x1b", 1}}).describe()[1], R"("a\x1b": int32[])");
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
  const Collection again = from_object(bytes, 0);
  EXPECT_EQ(again.to_string(), sample().to_string());
  EXPECT_EQ(again.describe(), sample().describe());
  const Tensor strided = Tensor(std::vector<int>{1, 2, 3, 4}, {2, 2}).slice(1, 1, 2);
  EXPECT_EQ(from_object(object_of(strided), 0).tensor().to_string(), "[[2], [4]]");
  EXPECT_EQ(from_object(object_of({}), 0).kind(), Collection::Kind::null);
}

TEST(Object, ItsTensorsKeepItAlive) {
  Tensor part;
  {
    const Tensor bytes = object_of(sample());
    part = from_object(bytes, 0)["weights"].tensor();
  }
  EXPECT_EQ(part.to_string(), "[[1, 2], [3, 4]]");
}

// Of what rank 3 sent.
void expect_refused(const std::function<void()>& read, const std::string& words) {
  const Status status = test::failure_of(read);
  EXPECT_EQ(status.peer(), 3);
  EXPECT_TRUE(status.message().starts_with("rank 3 sent a collection ")) << status.to_string();
  EXPECT_NE(status.message().find(words), std::string::npos) << status.to_string();
}

void expect_refused(const Tensor& object, const std::string& words) {
  expect_refused([&] { (void)from_object(object, 3); }, words);
}

void expect_refused(const std::string& layout, const std::string& words) {
  const auto none = [](DataType, const Shape&) -> Tensor {
    ADD_FAILURE() << "a tensor was made";
    return {};
  };
  expect_refused([&] { (void)from_layout(layout, 3, none); }, words);
}

// JSON as a layout.
std::string layout(const std::string& text) {
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json::parse(text), bytes);
  return bytes;
}

Tensor object_with(const std::string& layout) {
  Tensor object = Tensor::zeros(DataType::uint8, {128});
  object.data()[0] = static_cast<std::byte>(layout.size());
  std::memcpy(object.data() + 8, layout.data(), layout.size());
  return object;
}

TEST(Object, BytesThatAreNoneAreRefused) {
  const Tensor bytes = object_of(sample());
  for (const int64_t size : {int64_t{0}, int64_t{4}, bytes.count() - 1})
    expect_refused(bytes.slice(0, 0, size), "its size is none");
  expect_refused(bytes.slice(0, 0, 64), "it is cut short");
  expect_refused(Tensor::zeros(DataType::uint8, {64}), "cannot be read");
}

TEST(Object, ItsTensorsFillItsBytes) {
  const Tensor bytes = object_of(sample());
  expect_refused(bytes.slice(0, 0, bytes.count() - 64), "its tensors are cut short");
  const Tensor parts[] = {bytes, Tensor::zeros(DataType::uint8, {64})};
  expect_refused(concatenate(parts, 0), "more bytes than its tensors");
}

TEST(Object, ShapesThatCannotBeAreRefused) {
  for (const char* sizes :
       {"[-1]", "[2, -3]", "[-1, -1]", "[2147483648, 2147483648]", "[0, 2147483648, 2147483648]",
        "[4294967296, 4294967296]", "[18446744073709551615]"}) {
    const std::string tensor = concat(R"({"d": 0, "s": )", sizes, "}");
    expect_refused(layout(tensor), "shape is [");
    expect_refused(layout(concat(R"({"l": [)", tensor, "]}")), "shape is [");
    expect_refused(object_with(layout(tensor)), "shape is [");
  }
  for (const char* sizes : {"1", "\"x\"", "[1.5]", "[true]", "[null]", "[[1]]", "{\"a\": 1}"})
    expect_refused(layout(concat(R"({"d": 0, "s": )", sizes, "}")), "cannot be read");
  for (const char* dtype : {"-1", "100", "1.0", "true", "\"f\"", "4294967296"})
    expect_refused(layout(concat(R"({"d": )", dtype, R"(, "s": [1]})")), "no known dtype");
}

TEST(Object, LayoutsOfNoTreeAreRefused) {
  for (const char* tree : {"5", "\"text\"", "true", "[1, 2]", "{}", R"({"l": 5})", R"({"l": null})",
                           R"({"t": {"x": null}})", R"({"l": [1]})", R"({"k": ["a"]})"})
    expect_refused(layout(tree), "cannot be read");
  for (const char* keys :
       {R"(["a"])", R"(["a", "a"])", R"(["a", "b", "c"])", R"(["a", 1])", R"("ab")", "null"})
    expect_refused(layout(concat(R"({"m": [null, null], "k": )", keys, "}")), "cannot be read");
  const std::string good = layout_of(Collection::list({"text", Collection()}));
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    expect_refused(good.substr(0, bytes), "cannot be read");
  expect_refused(good + '\xf6', "cannot be read");
}

// A million levels would need more stack than there is, and so do texts in parts.
TEST(Object, LayoutsThatNestTooDeepAreRefused) {
  Collection tree = Tensor(7);
  for (int level = 0; level < 64; ++level)
    tree = level % 2 ? Collection::list({tree}) : Collection::map({{"x", tree}});
  EXPECT_EQ(from_object(object_of(tree), 3).describe(), tree.describe());
  for (int level = 0; level < 2; ++level) tree = Collection::tuple({tree});
  expect_refused(object_of(tree), "more than 64 deep");
  const std::string list = "\x81", map = "\xa1\x61l";
  for (const std::string& begin : {list, map, list + map}) {
    std::string deep;
    for (int i = 0; i < 1'000'000; ++i) deep += begin;
    expect_refused(deep, "more than 64 deep");
  }
  for (const char open : {'\x5f', '\x7f', '\x9f', '\xbf', '\xc0', '\xd9'})
    expect_refused(std::string(1'000'000, open), "cannot be read");
  std::string endless;  // lists whose length is not said; what would be one is 0
  for (int i = 0; i < 10'000; ++i) endless += std::string(121, '\x9f') + std::string(8, '\0');
  expect_refused(endless, "cannot be read");
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

TEST(Collection, VisitsItsLeavesInOrder) {
  std::string told;
  sample().visit([&](const Collection::Place& place, const Collection& leaf) {
    told += concat(place.path(), ": ", leaf.describe()[0], "; ");
  });
  EXPECT_EQ(told,
            "layers[0]: int32[2]; layers[1]: float64[1]; name: text; nothing: null; "
            "pair[0]: float64[]; pair[1]: boolean[]; step: int64[]; weights: float32[2, 2]; ");
  Collection(5.0).visit(
      [](const Collection::Place& place, const Collection&) { EXPECT_EQ(place.path(), ""); });
}

}  // namespace
}  // namespace weft

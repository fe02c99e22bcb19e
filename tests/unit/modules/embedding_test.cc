#include <nestor/modules/error.h>
#include <nestor/modules/llm/embedding.h>

#include "layer_testing.h"

namespace nestor::modules::testing {
namespace {

constexpr std::int64_t kImage = 3, kOther = 4;

Tensor ids(std::vector<std::int64_t> values, at::IntArrayRef shape) {
  return torch::tensor(values).view(shape);
}

struct Fixture {
  explicit Fixture(std::vector<Splice> splices)
      : embedding(shaken(TokenEmbedding({8, 2, std::move(splices)}, Seed(1)))), weight(embedding->parameters().at(0)) {}
  Tensor run(const Tensors& inputs, const Microbatch& microbatch) {
    return embedding->forward(inputs, Context{microbatch, Seed(2), "llm.layers.0"})[0];
  }
  std::shared_ptr<TokenEmbedding> embedding;
  Tensor weight;
};

TEST(TokenEmbedding, PutsImageRowsAtPlaceholdersInOrderOfSamples) {
  Fixture f({{kImage, "pixels"}});
  auto tokens = ids({1, kImage, kImage, 5, 2, 6, 7, 0, kImage, 1, kImage, 0}, {3, 4});
  auto seen = torch::arange(8).to(torch::kFloat64).view({2, 2, 2});
  auto microbatch = microbatch_of({{{"tokens", 4}, {"pixels", 1}}, {{"tokens", 3}}, {{"tokens", 3}, {"pixels", 1}}});
  auto out = f.run({tokens, seen}, microbatch);
  ASSERT_EQ(out.sizes(), (std::vector<std::int64_t>{3, 4, 2}));
  EXPECT_TRUE(out[0][1].equal(seen[0][0]));
  EXPECT_TRUE(out[0][2].equal(seen[0][1]));
  EXPECT_TRUE(out[2][0].equal(seen[1][0]));
  EXPECT_TRUE(out[2][2].equal(seen[1][1]));
  EXPECT_TRUE(out[0][3].equal(f.weight[5]));
  EXPECT_TRUE(out[1][2].equal(f.weight[7]));
}

TEST(TokenEmbedding, KeepsThePlaceholderOfASampleWithoutAPicture) {
  Fixture f({{kImage, "pixels"}});
  auto tokens = ids({kImage, 1, kImage, 1}, {2, 2});
  auto seen = random_tensor({1, 1, 2}, 9);
  auto out = f.run({tokens, seen}, microbatch_of({{{"tokens", 2}}, {{"tokens", 2}, {"pixels", 1}}}));
  EXPECT_TRUE(out[0][0].equal(f.weight[kImage]));
  EXPECT_TRUE(out[1][0].equal(seen[0][0]));
  auto text_only = f.run({tokens, Tensor()}, microbatch_of({{{"tokens", 2}}, {{"tokens", 2}}}));
  EXPECT_TRUE(text_only[1][0].equal(f.weight[kImage]));
}

TEST(TokenEmbedding, JoinsEncodersOfOnePlaceholderAndSeparatesOthers) {
  Fixture f({{kImage, "pixels"}, {kImage, "pixels"}, {kOther, "sound"}});
  auto tokens = ids({kImage, kImage, kImage, 1, 1, 1, kOther, 1}, {2, 4});
  auto first = random_tensor({1, 1, 2}, 1), second = random_tensor({1, 2, 2}, 2), sound = random_tensor({1, 1, 2}, 3);
  auto microbatch = microbatch_of({{{"tokens", 4}, {"pixels", 1}}, {{"tokens", 4}, {"sound", 1}}});
  auto out = f.run({tokens, first, second, sound}, microbatch);
  EXPECT_TRUE(out[0][0].equal(first[0][0]));
  EXPECT_TRUE(out[0][1].equal(second[0][0]));
  EXPECT_TRUE(out[0][2].equal(second[0][1]));
  EXPECT_TRUE(out[1][2].equal(sound[0][0]));
}

TEST(TokenEmbedding, PassesGradientsToWeightAndPictures) {
  Fixture f({{kImage, "pixels"}});
  auto tokens = ids({1, kImage, 1, 2}, {1, 4});
  auto seen = random_tensor({1, 1, 2}, 1).requires_grad_(true);
  auto microbatch = microbatch_of({{{"tokens", 4}, {"pixels", 1}}});
  Context context{microbatch, Seed(2), "llm.layers.0"};
  expect_gradients(*f.embedding, {tokens, seen}, context);
}

TEST(TokenEmbedding, SaysWhenPlaceholdersAndPicturesDisagree) {
  Fixture f({{kImage, "pixels"}});
  auto tokens = ids({1, kImage, 1, 2}, {1, 4});
  auto microbatch = microbatch_of({{{"tokens", 4}, {"pixels", 1}}});
  try {
    f.run({tokens, random_tensor({1, 3, 2}, 1)}, microbatch);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "module llm.layers.0: the text has 1 image tokens, the encoders gave 3 embeddings "
                 "(a sample needs one image token per patch of its images)");
  }
}

}  // namespace
}  // namespace nestor::modules::testing

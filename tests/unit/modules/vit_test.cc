#include <nestor/modules/encoder/vit.h>

#include "layer_testing.h"

namespace nestor::modules::testing {
namespace {

VitOptions tiny() {
  VitOptions options;
  options.patch = 2;
  options.width = 8;
  options.layers = 2;
  options.heads = 2;
  options.ffn = 10;
  options.llm_width = 6;
  options.image_size = 4;
  return options;
}

TEST(VisionTransformer, HasRightGradients) {
  auto vit = shaken(VisionTransformer(tiny(), Seed(1)));
  auto pixels = random_tensor({2, 3, 4, 4}, 1).requires_grad_(true);
  auto microbatch = microbatch_of({{{"pixels", 1}}, {{"pixels", 1}}});
  expect_gradients(*vit, {pixels}, Context{microbatch, Seed(2), "vision"});
}

TEST(VisionTransformer, TakesImagesOfAnySizeOneAfterAnother) {
  VisionTransformer vit(tiny(), Seed(1));
  auto microbatch = microbatch_of({{{"pixels", 1}}});
  Context context{microbatch, Seed(2), "vision"};
  auto first = vit.forward({torch::ones({1, 3, 4, 4})}, context)[0];
  for (auto [height, width, patches] : {std::tuple{8, 6, 12}, {2, 2, 1}, {5, 3, 6}}) {
    auto out = vit.forward({torch::ones({1, 3, height, width})}, context)[0];
    EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{1, patches, 6})) << height << 'x' << width;
  }
  EXPECT_TRUE(vit.forward({torch::ones({1, 3, 4, 4})}, context)[0].equal(first));
}

TEST(VisionTransformer, KnowsWhereAPatchStands) {
  VisionTransformer vit(tiny(), Seed(1));
  auto microbatch = microbatch_of({{{"pixels", 1}}});
  auto same_everywhere = vit.forward({torch::ones({1, 3, 4, 4})}, Context{microbatch, Seed(2), "vision"})[0][0];
  for (int i = 1; i < 4; ++i) EXPECT_GT(max_difference(same_everywhere[0], same_everywhere[i]), 1e-3);
}

TEST(VisionTransformer, NamesItsParametersSoThatPatternsSelectParts) {
  VisionTransformer vit(tiny(), Seed(1));
  auto parameters = vit.named_parameters();
  for (auto name : {"patch.weight", "blocks.0.qkv.weight", "blocks.1.fc2.bias", "norm.weight", "projector.fc1.weight",
                    "projector.fc2.bias"}) {
    EXPECT_TRUE(parameters.contains(name)) << name;
  }
}

TEST(VisionTransformer, CountsTheFlopsOfItsImages) {
  VisionTransformer vit(tiny(), Seed(1));
  auto one = microbatch_of({{{"pixels", 1}}, {{"tokens", 3}}}),
       three = microbatch_of({{{"pixels", 2}}, {{"pixels", 1}}});
  const double image = 4 * 2 * (12 * 8 + 8 * 6 + 6 * 6) + 2 * (4 * 2 * (4 * 8 * 8 + 2 * 8 * 10) + 4 * 4 * 4 * 8);
  EXPECT_EQ(vit.forward_flops(one), image);
  EXPECT_EQ(vit.forward_flops(three), 3 * image);
}

}  // namespace
}  // namespace nestor::modules::testing

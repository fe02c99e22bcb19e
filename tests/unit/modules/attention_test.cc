#include <cmath>

#include <nestor/modules/layers/attention.h>
#include <nestor/modules/layers/basic.h>

#include "layer_testing.h"

namespace nestor::modules::testing {
namespace {

TEST(RmsNorm, NormsTheLastDimensionAndHasTheRightGradient) {
  auto x = random_tensor({3, 4, 6}, 1).requires_grad_(true);
  auto weight = random_tensor({6}, 2).requires_grad_(true);
  auto expected = x / (x.square().mean(-1, true) + 1e-6).sqrt() * weight;
  EXPECT_LT(max_difference(rms_norm(x, weight), expected), 1e-12);
  auto projection = random_tensor({3, 4, 6}, 3);
  auto function = [&] { return (rms_norm(x, weight) * projection).sum(); };
  expect_gradient("x", x, function);
  expect_gradient("weight", weight, function);
}

TEST(RmsNorm, TakesAWeightPerHeadAndComputesShortTypesInFloat32) {
  auto x = random_tensor({2, 5, 3, 4}, 1);
  auto weight = random_tensor({3, 4}, 2).requires_grad_(true);
  expect_gradient("weight", weight, [&] { return rms_norm(x, weight).square().sum(); });
  auto large = torch::full({1, 256}, 3.0, torch::kBFloat16);
  auto normed = rms_norm(large, torch::ones({256}, torch::kBFloat16));
  EXPECT_EQ(normed.scalar_type(), torch::kBFloat16);
  EXPECT_NEAR(normed[0][7].item<double>(), 1.0, 1e-2);
}

TEST(Attention, EqualsTheFormulaHeadByHead) {
  auto q = random_tensor({2, 5, 3, 4}, 1), k = random_tensor({2, 6, 3, 4}, 2), v = random_tensor({2, 6, 3, 4}, 3);
  auto mask = random_tensor({2, 1, 6}, 4);
  auto out = attention(q, k, v, mask).view({2, 5, 3, 4});
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 3; ++h) {
      auto scores = q[b].select(1, h).mm(k[b].select(1, h).t()) / 2.0 + mask[b];
      auto expected = torch::softmax(scores, -1).mm(v[b].select(1, h));
      EXPECT_LT(max_difference(out[b].select(1, h), expected), 1e-12);
    }
  }
  EXPECT_LT(max_difference(attention(q, k, v, {}), attention(q, k, v, torch::zeros({1, 1, 6}, torch::kFloat64))),
            1e-12);
}

TEST(Attention, GroupedQueriesEqualRepeatedKeysAndValues) {
  auto q = random_tensor({2, 5, 6, 4}, 1), k = random_tensor({2, 5, 2, 4}, 2), v = random_tensor({2, 5, 2, 4}, 3);
  CausalMask mask;
  auto causal = mask.get(5, q.options());
  auto repeated = attention(q, k.repeat_interleave(3, 2), v.repeat_interleave(3, 2), causal);
  EXPECT_LT(max_difference(attention(q, k, v, causal), repeated), 1e-12);
}

TEST(CausalMask, HidesWhatComesLaterAndServesShorterLengths) {
  CausalMask mask;
  for (std::int64_t length : {4, 2, 6}) {
    auto m = mask.get(length, torch::kFloat32);
    ASSERT_EQ(m.sizes(), (std::vector<std::int64_t>{1, length, length}));
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t j = 0; j < length; ++j) EXPECT_EQ(m[0][i][j].item<float>() == 0, j <= i) << i << ' ' << j;
    }
  }
}

TEST(Rotary, ScoresDependOnDistanceAlone) {
  Rotary rotary(8, 100);
  auto q = random_tensor({8}, 1).expand({1, 12, 1, 8}), k = random_tensor({8}, 2).expand({1, 12, 1, 8});
  auto scores = rotary.apply(q).squeeze(2)[0].mm(rotary.apply(k).squeeze(2)[0].t());
  for (int distance = -5; distance <= 5; ++distance) {
    EXPECT_NEAR(scores[5][5 + distance].item<double>(), scores[6][6 + distance].item<double>(), 1e-12);
  }
  EXPECT_GT(std::abs((scores[5][5] - scores[5][9]).item<double>()), 1e-3);
}

TEST(Rotary, TurnsPairsByPositionTimesFrequency) {
  Rotary rotary(4, 100);  // frequencies 1 and 1/10
  auto x = torch::zeros({1, 3, 1, 4}, torch::kFloat64);
  x.select(3, 0).fill_(1);
  x.select(3, 1).fill_(1);
  auto turned = rotary.apply(x)[0][2][0];
  EXPECT_NEAR(turned[0].item<double>(), std::cos(2.0), 1e-12);
  EXPECT_NEAR(turned[1].item<double>(), std::cos(0.2), 1e-12);
  EXPECT_NEAR(turned[2].item<double>(), std::sin(2.0), 1e-12);
  EXPECT_NEAR(turned[3].item<double>(), std::sin(0.2), 1e-12);
}

TEST(Rotary, KeepsItsTablesRightWhenTypeOrLengthChanges) {
  Rotary rotary(4, 100);
  auto x = random_tensor({1, 9, 2, 4}, 1);
  auto first = rotary.apply(x.narrow(1, 0, 3));
  {
    c10::InferenceMode inference;
    (void)rotary.apply(x.to(torch::kFloat32));
  }
  auto leaf = x.clone().requires_grad_(true);
  auto whole = rotary.apply(leaf);
  whole.sum().backward();  // a table made in inference mode could not be saved for this
  EXPECT_LT(max_difference(whole.narrow(1, 0, 3), first), 1e-12);
}

TEST(GridPositions, DifferForEveryPatchAndDependOnPlaceAlone) {
  auto small = grid_positions(3, 5, 16).view({3, 5, 16}), large = grid_positions(7, 9, 16).view({7, 9, 16});
  EXPECT_EQ(max_difference(small, large.narrow(0, 0, 3).narrow(1, 0, 5)), 0);
  auto flat = large.view({63, 16});
  auto distances = torch::cdist(flat, flat) + 10 * torch::eye(63);
  EXPECT_GT(distances.min().item<double>(), 0.1);
}

TEST(Patches, ComeRowByRowAndGoBack) {
  auto images = torch::arange(2 * 3 * 4 * 6).to(torch::kFloat32).view({2, 3, 4, 6});
  auto patches = to_patches(images, 2);
  ASSERT_EQ(patches.sizes(), (std::vector<std::int64_t>{2, 6, 12}));
  auto fourth = images[1].narrow(1, 2, 2).narrow(2, 0, 2).reshape({12});  // row 1, column 0 of the grid
  EXPECT_TRUE(patches[1][3].equal(fourth));
  EXPECT_TRUE(from_patches(patches, 2, 3, 4, 6).equal(images));
}

TEST(Patches, OddSidesAreContinued) {
  auto images = torch::arange(15).to(torch::kFloat32).view({1, 1, 3, 5});
  auto patches = to_patches(images, 2);
  ASSERT_EQ(patches.sizes(), (std::vector<std::int64_t>{1, 6, 4}));
  EXPECT_EQ(patch_count(3, 5, 2), 6);
  EXPECT_TRUE(patches[0][5].equal(torch::full({4}, 14.f)));  // the last corner, four times
  EXPECT_TRUE(from_patches(patches, 2, 1, 3, 5).equal(images));
}

}  // namespace
}  // namespace nestor::modules::testing

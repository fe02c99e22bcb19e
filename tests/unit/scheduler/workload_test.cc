#include <gmock/gmock.h>

#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/workload.h>
#include <nestor/tests/tools/random_workload.h>

namespace nestor::scheduler {
namespace {

std::string error_of(const std::string& text) {
  try {
    read_workload(text, "w.yaml");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const std::string kHead =
    "format: nestor.workload/1\n"
    "pipeline: {stages: 4, chunks: 1, microbatches: 8}\n";
const std::string kLlmPart = "llm: {forward: 1.0, backward: 2.0}\n";

TEST(ReadWorkload, Defaults) {
  const Workload w = read_workload(
      "format: nestor.workload/1\n"
      "pipeline: {stages: 2, microbatches: 3}\n"
      "llm: {forward: 1, backward: 2}\n"
      "encoders:\n  vision: {forward: 1.5, backward: 3}\n"
      "generators:\n  image: {forward: [1, 2, 3], backward: 4, inputs: [llm, vision], lanes: [3], absent: [1]}\n",
      "w.yaml");
  EXPECT_EQ(w.chunks, 1);
  EXPECT_EQ(w.llm.forward, (std::vector<double>{1, 1}));
  EXPECT_EQ(w.llm.lanes, (std::vector<LaneId>{LaneId{0}, LaneId{1}}));
  EXPECT_TRUE(w.llm.trainable);
  ASSERT_EQ(w.pools.size(), 2u);
  EXPECT_EQ(w.pools[0].owner, (std::vector<std::int32_t>{0, 1, 0}));
  EXPECT_EQ(w.pools[1].owner, (std::vector<std::int32_t>{0, 0, 0}));
  EXPECT_EQ(w.pools[1].forward, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(w.pools[1].inputs, (std::vector<ModuleId>{kLlm, ModuleId{1}}));
  EXPECT_EQ(w.pools[1].absent, (std::vector<std::uint8_t>{0, 1, 0}));
  EXPECT_EQ(w.lane_count(), 4);
}

TEST(ReadWorkload, ANumberIsALanesWholeShare) {
  const Workload w =
      read_workload("format: nestor.workload/1\npipeline: {stages: 2, chunks: 2, microbatches: 1}\n" + kLlmPart, "w");
  EXPECT_EQ(w.llm.forward, (std::vector<double>{0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(w.llm.backward, (std::vector<double>{1, 1, 1, 1}));
}

TEST(ReadWorkload, WrittenAndReadAgainIsTheSame) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const std::string written = write_workload(tests::random_workload(seed));
    EXPECT_EQ(write_workload(read_workload(written, "plan")), written);
  }
}

TEST(ReadWorkload, AnyNameSurvives) {
  const Workload w = read_workload(
      kHead + kLlmPart + "encoders:\n  \"a.b[0] \\\"c\\\" \xc3\xa9\": {forward: 1, backward: 1}\n", "w.yaml");
  EXPECT_EQ(w.pools[0].name, "a.b[0] \"c\" \xc3\xa9");
  EXPECT_EQ(read_workload(write_workload(w), "again").pools[0].name, w.pools[0].name);
}

struct Broken {
  const char* name;
  std::string text;
  std::string error;  ///< how it begins or what it holds
};

TEST(ReadWorkload, BrokenOnesAreOneErrorWithItsPlace) {
  auto encoder = [](const std::string& keys) { return kHead + kLlmPart + "encoders:\n  vision: {" + keys + "}\n"; };
  auto generator = [](const std::string& keys) { return kHead + kLlmPart + "generators:\n  image: {" + keys + "}\n"; };
  const std::string deep(100000, '[');
  const std::vector<Broken> cases = {
      {"empty", "", "w.yaml: is empty"},
      {"blank", "\n\n", "w.yaml"},
      {"comment only", "# nothing\n", "w.yaml"},
      {"scalar", "hello", "w.yaml:1: is no map"},
      {"list", "[1, 2]", "w.yaml:1: is no map"},
      {"no format", "pipeline: {}\n", "has no 'format'"},
      {"other format", "format: nestor.workload/2\n" + kLlmPart, "w.yaml:1: format: is not nestor.workload/1"},
      {"no pipeline", "format: nestor.workload/1\n" + kLlmPart, "has no 'pipeline'"},
      {"no llm", kHead, "has no 'llm'"},
      {"no forward", kHead + "llm: {backward: 1}\n", "w.yaml:3: llm: has no 'forward'"},
      {"unknown key", kHead + kLlmPart + "speed: 3\n", "w.yaml:4: 'speed': is no key here"},
      {"unknown inner key", kHead + "llm: {forward: 1, backward: 1, forwards: 2}\n", "llm.'forwards': is no key here"},
      {"duplicate key", kHead + kLlmPart + kLlmPart, "w.yaml:4: 'llm' stands twice"},
      {"duplicate key in JSON", R"({"format": "nestor.workload/1", "format": "x"})", "'format' stands twice"},
      {"negative", kHead + "llm: {forward: -1, backward: 1}\n", "w.yaml:3: llm.forward[0]: is negative"},
      {"nan", kHead + "llm: {forward: nan, backward: 1}\n", "w.yaml:3: llm.forward: 'nan' is not finite"},
      {"yaml nan", kHead + "llm: {forward: .nan, backward: 1}\n", "'.nan' is no number"},
      {"inf", kHead + "llm: {forward: 1, backward: inf}\n", "w.yaml:3: llm.backward: 'inf' is not finite"},
      {"overflow", kHead + "llm: {forward: 1e999, backward: 1}\n", "'1e999' is out of range"},
      {"huge", kHead + "llm: {forward: 1e300, backward: 1}\n", "llm.forward[0]: is more than 1e9 seconds"},
      {"text for number", kHead + "llm: {forward: fast, backward: 1}\n", "llm.forward: 'fast' is no number"},
      {"quoted number", kHead + "llm: {forward: \"1\", backward: 1}\n", "llm.forward: is no number"},
      {"hex", kHead + "llm: {forward: 0x10, backward: 1}\n", "'0x10' is no number"},
      {"trailing text", kHead + "llm: {forward: 1.0s, backward: 1}\n", "'1.0s' is no number"},
      {"map for number", kHead + "llm: {forward: {a: 1}, backward: 1}\n", "llm.forward: is no number"},
      {"null for number", kHead + "llm: {forward: , backward: 1}\n", "llm.forward: is no number"},
      {"short list", kHead + "llm: {forward: [1, 1], backward: 1}\n", "llm.forward: has 2 entries, needs 4"},
      {"long scale", kHead + "llm: {forward: 1, backward: 1, scale: [1,1,1,1,1,1,1,1,1]}\n",
       "llm.scale: has 9 entries"},
      {"scale no list", kHead + "llm: {forward: 1, backward: 1, scale: 2}\n", "llm.scale: is no list"},
      {"short lanes", kHead + "llm: {forward: 1, backward: 1, lanes: [0]}\n", "llm.lanes: has 1 entries, needs 4"},
      {"negative lane", kHead + "llm: {forward: 1, backward: 1, lanes: [0, 1, 2, -1]}\n",
       "llm.lanes[3]: -1 is no lane"},
      {"far lane", kHead + "llm: {forward: 1, backward: 1, lanes: [0, 1, 2, 65536]}\n",
       "llm.lanes[3]: 65536 is no lane"},
      {"lane of 2^40", kHead + "llm: {forward: 1, backward: 1, lanes: [0, 1, 2, 1099511627776]}\n", "out of range"},
      {"trainable number", kHead + "llm: {forward: 1, backward: 1, trainable: 1}\n", "llm.trainable: is neither"},
      {"negative bytes", kHead + "llm: {forward: 1, backward: 1, stash_bytes: -1}\n", "llm.stash_bytes: is negative"},
      {"fractional bytes", kHead + "llm: {forward: 1, backward: 1, message_bytes: 1.5}\n", "'1.5' is no whole number"},
      {"P of 0", "format: nestor.workload/1\npipeline: {stages: 0, microbatches: 1}\n" + kLlmPart,
       "w.yaml:2: pipeline.stages: must be at least 1"},
      {"V of 0", "format: nestor.workload/1\npipeline: {stages: 1, chunks: 0, microbatches: 1}\n" + kLlmPart,
       "w.yaml:2: pipeline.chunks: must be at least 1"},
      {"M of 0", "format: nestor.workload/1\npipeline: {stages: 1, microbatches: 0}\n" + kLlmPart,
       "w.yaml:2: pipeline.microbatches: must be at least 1"},
      {"fractional P", "format: nestor.workload/1\npipeline: {stages: 2.5, microbatches: 1}\n" + kLlmPart,
       "'2.5' is no whole number"},
      {"too many operators",
       "format: nestor.workload/1\npipeline: {stages: 1024, chunks: 1024, microbatches: 1024}\n" + kLlmPart,
       "w.yaml:2: pipeline: more than 2^28 operators"},
      {"too many lanes", "format: nestor.workload/1\npipeline: {stages: 65537, microbatches: 1}\n" + kLlmPart,
       "w.yaml:2: pipeline.stages: more than 65536 lanes"},
      {"M of 2^31", "format: nestor.workload/1\npipeline: {stages: 1, microbatches: 2147483648}\n" + kLlmPart,
       "out of range"},
      {"M of 2^31 - 1", "format: nestor.workload/1\npipeline: {stages: 1, microbatches: 2147483647}\n" + kLlmPart,
       "more than 2^28 operators"},
      {"pool named llm", kHead + kLlmPart + "encoders:\n  llm: {forward: 1, backward: 1}\n",
       "w.yaml:5: encoders.llm: a pool cannot be named llm"},
      {"one name twice", encoder("forward: 1, backward: 1") + "generators:\n  vision: {forward: 1, backward: 1}\n",
       "w.yaml:7: generators.vision: two pools are named so"},
      {"empty name", kHead + kLlmPart + "encoders:\n  \"\": {forward: 1, backward: 1}\n", "needs a name"},
      {"a name of brackets", kHead + kLlmPart + "encoders:\n  \"[x\": {forward: -1, backward: 1}\n",
       "w.yaml:5: encoders.[x.forward[0]: is negative"},
      {"a name of dots",
       kHead + kLlmPart + "encoders:\n  a: {forward: 1, backward: 1}\n  a.b: {forward: 1, backward: -1}\n",
       "w.yaml:6: encoders.a.b.backward[0]: is negative"},
      {"encoders a list", kHead + kLlmPart + "encoders: [vision]\n", "w.yaml:4: encoders: is no map"},
      {"encoder a number", kHead + kLlmPart + "encoders: {vision: 3}\n", "encoders.vision: is no map"},
      {"encoder with inputs", encoder("forward: 1, backward: 1, inputs: [llm]"), "'inputs': is no key here"},
      {"no members", encoder("forward: 1, backward: 1, lanes: []"), "encoders.vision.lanes: is empty"},
      {"owner no member", encoder("forward: 1, backward: 1, lanes: [0, 1], owner: [0,1,2,0,0,0,0,0]"),
       "encoders.vision.owner[2]: 2 is no member"},
      {"owner too short", encoder("forward: 1, backward: 1, owner: [0]"), "owner: has 1 entries, needs 8"},
      {"absent out of range", encoder("forward: 1, backward: 1, absent: [8]"),
       "encoders.vision.absent[0]: is no microbatch"},
      {"absent twice", encoder("forward: 1, backward: 1, absent: [1, 1]"), "absent[1]: is listed twice"},
      {"absent no list", encoder("forward: 1, backward: 1, absent: 3"), "absent: is no list"},
      {"cap of 0", encoder("forward: 1, backward: 1, in_flight_cap: 0"), "in_flight_cap: must be at least 1"},
      {"costs too short", encoder("forward: [1], backward: 1"), "encoders.vision.forward: has 1 entries, needs 8"},
      {"negative cost in a list", encoder("forward: [1,1,1,-2,1,1,1,1], backward: 1"),
       "encoders.vision.forward[3]: is negative"},
      {"generator reads nothing", generator("forward: 1, backward: 1, inputs: []"),
       "generators.image.inputs: a generator reads"},
      {"generator reads unknown", generator("forward: 1, backward: 1, inputs: [audio]"),
       "generators.image.inputs[0]: is neither llm nor an encoder"},
      {"generator reads twice", generator("forward: 1, backward: 1, inputs: [llm, llm]"), "is listed twice"},
      {"negative latency", kHead + kLlmPart + "transfer: {latency: -1}\n", "w.yaml:4: transfer.latency: is negative"},
      {"negative rate", kHead + kLlmPart + "transfer: {bytes_per_second: -1}\n", "transfer.bytes_per_second"},
      {"transfer unknown key", kHead + kLlmPart + "transfer: {delay: 1}\n", "transfer.'delay': is no key here"},
      {"negative memory", kHead + kLlmPart + "memory: {bytes_per_lane: -5}\n",
       "w.yaml:4: memory.bytes_per_lane: is negative"},
      {"alias", kHead + "llm: &a {forward: 1, backward: 1}\nencoders: {v: *a}\n", "w.yaml:4: aliases are not read"},
      {"alias bomb", "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", "aliases are not read"},
      {"tag", kHead + "llm: !!python/object {forward: 1, backward: 1}\n", "w.yaml:3: tags are not read"},
      {"two documents", kHead + kLlmPart + "---\n" + kHead + kLlmPart, "a second document begins"},
      {"tab indentation", kHead + "llm:\n\tforward: 1\n\tbackward: 1\n", "w.yaml:"},
      {"unclosed bracket", kHead + "llm: {forward: [1, backward: 1\n", "w.yaml:"},
      {"unclosed quote", kHead + "llm: \"\n", "w.yaml:"},
      {"torn JSON", R"({"format": "nestor.workload/1", "pipeline": {)", "w.yaml:"},
      {"deep list", "a: " + deep + std::string(deep.size(), ']'), "w.yaml:1:"},
      {"deep unclosed list", "a: " + deep, "w.yaml:1:"},
      {"a list of 40 levels", "a: " + std::string(40, '[') + std::string(40, ']'),
       "w.yaml:1: is nested deeper than 32"},
      {"deep JSON", std::string(100, '[') + std::string(100, ']'), "nested deeper"},
      {"deep block",
       [] {
         std::string s;
         for (int i = 0; i < 200; ++i) s += std::string(i, ' ') + "a:\n";
         return s;
       }(),
       "nested deeper"},
      {"key that is a list", "[a, b]: 3\n", "a key is no text"},
      {"binary", std::string("\x00\x01\x02\xff", 4), "w.yaml:1: holds bytes that are no text"},
      {"a picture", "\x89PNG\r\n\x1a\n", "holds bytes that are no text"},
      {"utf-16",
       std::string("\xff\xfe"
                   "f\0o\0",
                   6),
       "holds bytes that are no text"},
  };
  for (const Broken& broken : cases) {
    const std::string error = error_of(broken.text);
    EXPECT_THAT(error, testing::HasSubstr(broken.error)) << broken.name;
    EXPECT_TRUE(error.starts_with("w.yaml")) << broken.name << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << broken.name << ": " << error;
  }
}

TEST(ReadWorkload, JsonNamesTheField) {
  EXPECT_EQ(error_of(R"({"format": "nestor.workload/1", "pipeline": {"stages": 2, "microbatches": 2},
                         "llm": {"forward": -1, "backward": 1}})"),
            "w.yaml:llm.forward[0]: is negative");
}

TEST(Validate, ChecksWhatAProgramBuilt) {
  Workload w = make_workload(2, 1, 4, 1, 2);
  w.pools.push_back(make_pool(w, "image", PoolKind::generator, 1, 1));
  w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, 1, 1));
  EXPECT_THROW(validate(w, "w"), Error);  // encoders come first
  std::swap(w.pools[0], w.pools[1]);
  EXPECT_NO_THROW(validate(w, "w"));
  w.llm.forward[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(make_plan(w, {}), Error);
  EXPECT_THROW(make_workload(0, 1, 1, 1, 1), Error);
  EXPECT_THROW(make_workload(1 << 15, 1 << 10, 1 << 10, 1, 1), Error);
}

TEST(Workload, BackwardsExistWhereSomethingUpstreamLearns) {
  Workload w = make_workload(2, 1, 2, 1, 2);
  w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, 1, 1));
  w.pools.push_back(make_pool(w, "image", PoolKind::generator, 1, 1));
  const MicrobatchId plain{0}, textual{1};
  w.pools[0].absent[1] = 1;
  w.llm.trainable = false;
  w.pools[1].trainable = false;
  EXPECT_TRUE(w.has_backward(kLlm, plain));
  EXPECT_TRUE(w.has_backward(ModuleId{1}, plain));
  EXPECT_TRUE(w.has_backward(ModuleId{2}, plain));
  EXPECT_FALSE(w.has_backward(kLlm, textual));
  EXPECT_FALSE(w.has_backward(ModuleId{1}, textual));
  EXPECT_FALSE(w.has_backward(ModuleId{2}, textual));
}

}  // namespace
}  // namespace nestor::scheduler

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/interrupts.h>
#include <nestor/launch/metrics.h>
#include <nestor/launch/report/chart.h>
#include <nestor/launch/report/markup.h>
#include <nestor/launch/report/report.h>
#include <nestor/launch/run_folder.h>

namespace fs = std::filesystem;

namespace nestor::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Folder : public ::testing::Test {
 protected:
  Folder() {
    std::string name = (fs::temp_directory_path() / "nestor_launch_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() override { fs::remove_all(path_); }
  void checkpoint(std::int64_t step) const {
    fs::create_directories(path_ / "checkpoints" / ("step-" + std::to_string(step)));
  }
  fs::path path_;
};

StepMetrics metrics(std::int64_t step, double loss) {
  StepMetrics line;
  line.report.step = step;
  line.report.loss = loss;
  line.report.losses = {{"text", loss / 3}};
  line.report.in_flight = {{"llm", {2, 0.5}}};
  return line;
}

using Open = RunFolder::Open;

TEST_F(Folder, FreshRefusesAnEarlierRun) {
  write_aside(path_ / "metrics.jsonl", "");
  EXPECT_THROW(RunFolder(path_, Open::fresh), InputError);
  EXPECT_THROW(RunFolder(path_, Open::resume), InputError);  // without a checkpoint
  checkpoint(3);
  RunFolder(path_, Open::resume);
  write_aside(path_ / "mine.txt", "kept");
  RunFolder(path_, Open::overwrite);
  EXPECT_FALSE(fs::exists(path_ / "metrics.jsonl"));
  EXPECT_FALSE(fs::exists(path_ / "checkpoints"));
  EXPECT_TRUE(fs::exists(path_ / "mine.txt"));
  RunFolder(path_, Open::fresh);
}

TEST_F(Folder, OneTrainingAtATime) {
  RunFolder first(path_, Open::fresh);
  try {
    RunFolder second(path_, Open::fresh);
    FAIL() << "two trainings in one folder";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("process " + std::to_string(::getpid())));
  }
}

TEST_F(Folder, KeepsTheNewestCheckpointsByNumber) {
  for (auto step : {2, 10, 9, 100}) checkpoint(step);
  fs::create_directories(path_ / "checkpoints" / "step-200.partial");
  fs::create_directories(path_ / "checkpoints" / "step-x");
  RunFolder folder(path_, Open::resume);
  folder.prune_checkpoints(2);
  auto left = list_checkpoints(path_);
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].first, 10);
  EXPECT_EQ(left[1].first, 100);
}

TEST_F(Folder, MetricsHoldEachStepOnceAfterAResume) {
  auto path = path_ / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    for (int step = 1; step <= 5; ++step) file.append(metrics(step, 0.1 * step));
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 6, \"lo";
  MetricsFile file(path, 3);
  auto fourth = metrics(4, std::nan(""));
  fourth.eval = Evaluation{1.5, {{"text", 1.5}}};
  EXPECT_EQ(file.after(0).size(), 3u);
  file.append(fourth);
  ASSERT_EQ(file.after(3).size(), 1u);
  EXPECT_EQ(file.after(3)[0].report.step, 4);
  EXPECT_EQ(file.after(1).size(), 3u);
  EXPECT_EQ(file.after(1)[0].report.step, 2);
  EXPECT_TRUE(file.after(4).empty());
  auto lines = read_metrics(read_text(path));
  ASSERT_EQ(lines.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(lines[i].report.step, static_cast<std::int64_t>(i) + 1);
  EXPECT_EQ(lines[2].report.loss, 0.1 * 3);  // to the last digit
  EXPECT_TRUE(std::isnan(lines[3].report.loss));
  ASSERT_TRUE(lines[3].eval);
  EXPECT_EQ(lines[3].eval->losses.at("text"), 1.5);
  EXPECT_EQ(lines[0].report.in_flight.at("llm")[1], 0.5);
}

TEST_F(Folder, FilesAppearWholeOrNotAtAll) {
  write_aside(path_ / "a", "one");
  write_aside(path_ / "a", "two");
  EXPECT_EQ(read_text(path_ / "a"), "two");
  EXPECT_THROW(write_aside(path_ / "none" / "a", "x"), InputError);
  EXPECT_THROW(write_aside(path_, "x"), InputError);
  EXPECT_THROW(read_text(path_), InputError);
  EXPECT_THROW(read_text(path_ / "a", 2), InputError);
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 1);
}

TEST(Interrupts, FirstAsksSecondActs) {
  Interrupts interrupts;
  std::promise<void> first, second;
  interrupts.on_first([&] { first.set_value(); });
  interrupts.on_second([&] { second.set_value(); });
  EXPECT_EQ(interrupts.requested(), 0);
  ::kill(::getpid(), SIGTERM);
  first.get_future().wait();
  EXPECT_EQ(interrupts.requested(), SIGTERM);
  ::kill(::getpid(), SIGINT);
  second.get_future().wait();
  EXPECT_EQ(interrupts.requested(), SIGTERM);
  EXPECT_EQ(interrupts.count(), 2);
}

TEST(Text, StaysOneLineAndEscaped) {
  EXPECT_EQ(one_line("a\n  b\tc\x01"), "a b c?");
  EXPECT_EQ(one_line(std::string(10, 'x'), 4), "xxxx ...");
  EXPECT_EQ(readable("a\xC3\xA9\xE2\x82\xAC"), "a\xC3\xA9\xE2\x82\xAC");
  EXPECT_EQ(readable("\x94|\xC0\x80|\xED\xA0\x80|\n"),
            "\xEF\xBF\xBD|\xEF\xBF\xBD\xEF\xBF\xBD|\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD|\xEF\xBF\xBD");
  EXPECT_EQ(readable("\xF0\x9F"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escape_html("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(data_uri("M", "t/x"), "data:t/x;base64,TQ==");
  EXPECT_EQ(data_uri("Ma", "t/x"), "data:t/x;base64,TWE=");
  EXPECT_EQ(data_uri("Man", "t/x"), "data:t/x;base64,TWFu");
}

TEST(Chart, KeepsPeaksAndSkipsWhatIsNoNumber) {
  Series series{"loss", {}, Series::Style::line, 1};
  for (int i = 0; i < 20000; ++i) series.points.emplace_back(i, i == 7777 ? 99.0 : 1.0);
  auto svg = line_chart({"Loss", "step", ""}, {series});
  EXPECT_THAT(svg, HasSubstr("[7777,99,"));
  EXPECT_LT(svg.size(), 100'000u);
  series.points = {{1, std::nan("")}};
  EXPECT_EQ(line_chart({"Loss", "step", ""}, {series}), "");
  series.points = {{1, 2.0}};
  EXPECT_THAT(line_chart({"Loss", "step", ""}, {series}), Not(HasSubstr("nan")));
}

TEST(Report, ShowsTextAsText) {
  ReportData data;
  data.title = "<script>";
  data.metrics = {metrics(1, 3), metrics(2, 2)};
  data.drawings = {{"<b>", "png", "png"}};
  auto page = write_report(data);
  EXPECT_THAT(page, Not(HasSubstr("<title><script>")));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;"));
  EXPECT_THAT(page, HasSubstr("Loss: text"));
}

}  // namespace
}  // namespace nestor::launch

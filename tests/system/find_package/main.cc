// A user's own binary: every subcommand of the program, by nestor::run.
#include <nestor/launch/run.h>

int main(int argc, char** argv) {
  return nestor::run(argc, argv);
}

#include <nestor/launch/run.h>

int main(int argc, char** argv) {
  return nestor::run(argc, argv);
}

#include <nestor/launch/run.h>

namespace nestor {

int run(int, char**, ModelBuilder) {
  return 2;
}

}  // namespace nestor

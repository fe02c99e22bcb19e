#include <nestor/actors/error.h>

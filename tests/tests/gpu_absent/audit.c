// For LD_AUDIT: wherever the dynamic loader looks for a CUDA driver, there is none.
#define _GNU_SOURCE
#include <link.h>
#include <string.h>

unsigned la_version(unsigned version) { return version; }

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned where) {
  (void)cookie;
  return where != LA_SER_ORIG && strstr(name, "libcuda.so") ? NULL : (char *)name;
}

/* Preloaded into a program: the call of this number that makes, writes, moves or flushes a file fails, with each of the
   errors of a full, broken or read-only disk in turn, and the wall clock is set to and fro.

   FAULT_CALL is that number, from 0 on; FAULT_HIT a file that is made when the call comes, with its name in it. Calls
   count where they are for a folder that FAULT_FOLDER begins, or for a file in it. FAULT_CLOCK=1 sets the clock.
   FAULT_ALIEN=NAME gives another user what has a name that ends so. FAULT_PRIVILEGED=1 makes the program one that has
   rights which its user lacks, as the C library tells it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int is_meant(const char *path) {
  const char *folder = getenv("FAULT_FOLDER");
  return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

/* The path of an open file. */
static const char *path_of(int file, char *path, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, size - 1);
  path[length < 0 ? 0 : length] = 0;
  return path;
}

static int is_meant_file(int file) {
  char path[4096];
  return is_meant(path_of(file, path, sizeof path));
}

/* Whether this is the call that fails; then errno is set. */
static int fails(const char *name) {
  static atomic_long calls;
  static const int errors[] = {ENOSPC, EIO, EDQUOT, EROFS, EACCES};
  const char *number = getenv("FAULT_CALL"), *hit = getenv("FAULT_HIT");
  long call = atomic_fetch_add(&calls, 1);
  if (!number || !hit || call != atol(number)) return 0;
  int file = syscall(SYS_openat, AT_FDCWD, hit, O_WRONLY | O_CREAT | O_APPEND, 0600);
  syscall(SYS_write, file, name, strlen(name));
  syscall(SYS_close, file);
  errno = errors[call % 5];
  return 1;
}

#define NEXT(name) \
  static __typeof__(name) *next; \
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name)

#define ON_FILE(type, name, parameters, arguments) \
  type name parameters { \
    NEXT(name); \
    return is_meant_file(file) && fails(#name) ? -1 : next arguments; \
  }
ON_FILE(ssize_t, write, (int file, const void *from, size_t bytes), (file, from, bytes))
ON_FILE(ssize_t, writev, (int file, const struct iovec *from, int count), (file, from, count))
ON_FILE(ssize_t, pwrite, (int file, const void *from, size_t bytes, off_t at), (file, from, bytes, at))
ON_FILE(ssize_t, pwrite64, (int file, const void *from, size_t bytes, off64_t at), (file, from, bytes, at))
ON_FILE(int, ftruncate, (int file, off_t length), (file, length))
ON_FILE(int, ftruncate64, (int file, off64_t length), (file, length))
ON_FILE(int, fsync, (int file), (file))
ON_FILE(int, fdatasync, (int file), (file))
ON_FILE(int, fchmod, (int file, mode_t mode), (file, mode))

#define ON_PATH(name, parameters, arguments) \
  int name parameters { \
    NEXT(name); \
    return is_meant(path) && fails(#name) ? -1 : next arguments; \
  }
ON_PATH(rename, (const char *path, const char *to), (path, to))
ON_PATH(link, (const char *path, const char *to), (path, to))
ON_PATH(mkdir, (const char *path, mode_t mode), (path, mode))

#define OPENS(name) \
  int name(const char *path, int flags, ...) { \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    NEXT(name); \
    return (flags & O_ACCMODE) != O_RDONLY && is_meant(path) && fails(#name) ? -1 : next(path, flags, mode); \
  }
OPENS(open)
OPENS(open64)

int clock_gettime(clockid_t clock, struct timespec *now) {
  static atomic_long readings;
  NEXT(clock_gettime);
  int refused = next(clock, now);
  if (clock == CLOCK_REALTIME && getenv("FAULT_CLOCK"))
    now->tv_sec += atomic_fetch_add(&readings, 1) % 2 ? 3600 : -3600;
  return refused;
}

int statx(int folder, const char *path, int flags, unsigned wanted, struct statx *found) {
  char of_file[4096];
  const char *alien = getenv("FAULT_ALIEN");
  NEXT(statx);
  int refused = next(folder, path, flags, wanted, found);
  if (refused || !alien) return refused;
  if (!*path) path = path_of(folder, of_file, sizeof of_file);
  size_t length = strlen(path), end = strlen(alien);
  if (length >= end && !strcmp(path + length - end, alien)) found->stx_uid += 1000;
  return 0;
}

unsigned long getauxval(unsigned long kind) {
  NEXT(getauxval);
  return kind == AT_SECURE && getenv("FAULT_PRIVILEGED") ? 1 : next(kind);
}

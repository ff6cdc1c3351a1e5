/* Scales on so many threads as the argument says, so often each. Prints how long that took on all threads together, in
 * nanoseconds. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIZE = 1 << 24, TIMES = 20, MOST_THREADS = 16 };

void scale(volatile float *x, int n);

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *work(void *took) {
  float *x = malloc(SIZE * sizeof *x);
  for (int i = 0; i < SIZE; i++) x[i] = 1;
  long long start = now();
  for (int i = 0; i < TIMES; i++) scale(x, SIZE);
  *(long long *)took = now() - start;
  free(x);
  return NULL;
}

int main(int count, char **arguments) {
  int threads = count > 1 ? atoi(arguments[1]) : 1;
  pthread_t others[MOST_THREADS];
  long long took[MOST_THREADS], sum = 0;
  static float y[1000];
#pragma acc enter data copyin(y) /* enter */
  for (int i = 1; i < threads; i++) pthread_create(&others[i], NULL, work, &took[i]);
  work(&took[0]);
  for (int i = 1; i < threads; i++) pthread_join(others[i], NULL);
#pragma acc exit data delete(y) /* exit */
  for (int i = 0; i < threads; i++) sum += took[i];
  printf("%lld\n", sum);
}

/* Work on the device, or on the host where there is none. The tests look for the lines by the comments on them. */

void scale(volatile float *x, int n) {
#pragma acc data copy(x[0 : n]) /* data */
  {
#pragma acc parallel loop /* parallel */
    for (int i = 0; i < n; i++) x[i] = x[i] * 2;
#pragma acc update host(x[0 : n]) /* update */
#pragma acc kernels loop /* kernels */
    for (int i = 0; i < n; i++) x[i] = x[i] + 1;
  } /* end of data */
}

// The source of the images beside it, compiled by the NVRTC of their names with --gpu-architecture=sm_90.
struct Pair { char c; double d; };
extern "C" __device__ int counter = 7;
extern "C" __device__ int *pointer = &counter;
extern "C" __constant__ float scale;
extern "C" __global__ void __launch_bounds__(256) axpy(float a, Pair p, const float *x, float *y, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x % 64] = x[i % n];
    __syncthreads();
    if (i < n) y[i] += scale * a * tile[i % 64] + p.d + *pointer;
}
extern "C" __global__ void nothing() { counter++; }

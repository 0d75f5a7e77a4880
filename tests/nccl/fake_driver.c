/* A CUDA driver that takes addresses below 4096 for a GPU's, and those below 8192 for managed
 * memory: what a test needs where there is no GPU. Built as libcuda.so.1. */
int cuPointerGetAttribute(void* data, int attribute, unsigned long long pointer);

int cuPointerGetAttribute(void* data, int attribute, unsigned long long pointer) {
  if (pointer >= 8192) return 1;
  if (attribute == 2) *(unsigned*)data = 2; /* CU_MEMORYTYPE_DEVICE */
  if (attribute == 8) *(unsigned*)data = pointer >= 4096;
  return 0;
}

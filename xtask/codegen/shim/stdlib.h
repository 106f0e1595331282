/* cuda.h includes <stdlib.h> for size_t alone. */
#include <stddef.h>

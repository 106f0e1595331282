/* The few names of <stddef.h> that cuda.h needs, so that no system header is read. */
#ifndef CUHOLD_SHIM_STDDEF
#define CUHOLD_SHIM_STDDEF
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __WCHAR_TYPE__ wchar_t;
#define NULL ((void *)0)
#endif

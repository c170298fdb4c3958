/* WASI's C library does not declare these; for tests of the WebAssembly build (tests/wasi.c). */
#ifndef ATTN_TESTS_WASI_H
#define ATTN_TESTS_WASI_H

int mkstemp(char *path);
char *mkdtemp(char *path);

#endif

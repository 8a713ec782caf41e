/* kernels.h: the kernels of the GPU programs, as text that the driver compiles: no toolkit is needed.
 *
 * PTX ISA 6.0 for compute capability 5.0: every driver that weir supports (11.0 and later) compiles it for its own
 * device. The grid is one-dimensional; the step between two words of a thread is the number of threads in the grid.
 */
#ifndef WEIR_BENCHMARKS_GPU_KERNELS_H
#define WEIR_BENCHMARKS_GPU_KERNELS_H

/* Registers and code that weir_write and weir_verify share: %at is the start of the memory, %n the number of words, %v
 * the value, %i this thread's first word, %step the distance to its next one. */
#define KERNEL_PROLOGUE                                                                                                \
    "    .reg .pred %test;\n"                                                                                          \
    "    .reg .b32 %block, %size, %thread, %blocks, %v, %w, %r;\n"                                                     \
    "    .reg .b64 %i, %step, %n, %at, %word, %count;\n"                                                               \
    "    ld.param.u64 %at, [address];\n"                                                                               \
    "    ld.param.u64 %n, [words];\n"                                                                                  \
    "    ld.param.u32 %v, [value];\n"                                                                                  \
    "    cvta.to.global.u64 %at, %at;\n"                                                                               \
    "    mov.u32 %block, %ctaid.x;\n"                                                                                  \
    "    mov.u32 %size, %ntid.x;\n"                                                                                    \
    "    mov.u32 %thread, %tid.x;\n"                                                                                   \
    "    mov.u32 %blocks, %nctaid.x;\n"                                                                                \
    "    mul.wide.u32 %i, %block, %size;\n"                                                                            \
    "    cvt.u64.u32 %word, %thread;\n"                                                                                \
    "    add.u64 %i, %i, %word;\n"                                                                                     \
    "    mul.wide.u32 %step, %size, %blocks;\n"

/* The address of word %i in %word, and its expected contents in %w. */
#define KERNEL_WORD                                                                                                    \
    "    shl.b64 %word, %i, 2;\n"                                                                                      \
    "    add.u64 %word, %at, %word;\n"                                                                                 \
    "    cvt.u32.u64 %w, %i;\n"                                                                                        \
    "    add.u32 %w, %w, %v;\n"

/* clang-format off */
static const char gpu_kernels[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    "\n"
    ".visible .entry weir_write(.param .u64 address, .param .u64 words, .param .u32 value)\n"
    "{\n" KERNEL_PROLOGUE
    "next:\n"
    "    setp.ge.u64 %test, %i, %n;\n"
    "    @%test bra done;\n" KERNEL_WORD
    "    st.global.u32 [%word], %w;\n"
    "    add.u64 %i, %i, %step;\n"
    "    bra next;\n"
    "done:\n"
    "    ret;\n"
    "}\n"
    "\n"
    ".visible .entry weir_verify(.param .u64 address, .param .u64 words, .param .u32 value, .param .u64 mismatches)\n"
    "{\n" KERNEL_PROLOGUE
    "    ld.param.u64 %count, [mismatches];\n"
    "    cvta.to.global.u64 %count, %count;\n"
    "next:\n"
    "    setp.ge.u64 %test, %i, %n;\n"
    "    @%test bra done;\n" KERNEL_WORD
    "    ld.volatile.global.u32 %r, [%word];\n"
    "    setp.ne.u32 %test, %r, %w;\n"
    "    @%test red.global.add.u32 [%count], 1;\n"
    "    add.u64 %i, %i, %step;\n"
    "    bra next;\n"
    "done:\n"
    "    ret;\n"
    "}\n"
    "\n"
    ".visible .entry weir_delay(.param .u64 ns)\n"
    "{\n"
    "    .reg .pred %test;\n"
    "    .reg .b64 %start, %now, %ns;\n"
    "    ld.param.u64 %ns, [ns];\n"
    "    mov.u64 %start, %globaltimer;\n"
    "next:\n"
    "    mov.u64 %now, %globaltimer;\n"
    "    sub.u64 %now, %now, %start;\n"
    "    setp.lt.u64 %test, %now, %ns;\n"
    "    @%test bra next;\n"
    "    ret;\n"
    "}\n";
/* clang-format on */

#endif

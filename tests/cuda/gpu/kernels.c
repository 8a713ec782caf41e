/* kernels.c: prints the text of the kernels, for an assembler to read (kernels.sh). */
#include "kernels.h"

#include <stdio.h>

int main(void)
{
    return fputs(gpu_kernels, stdout) < 0;
}

/* process.c: see process.h. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <unistd.h>

/* Opens closed standard descriptors in the wrong direction, so that their use still fails. Without this, the first file
 * that is opened would become standard output and receive the printed lines. */
static void fill_closed_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            (void)open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        }
    }
}

static struct sigaction file_size_before;

void process_begin(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    fill_closed_descriptors();
    (void)sigaction(SIGXFSZ, &ignore, &file_size_before);
}

const struct sigaction *process_usual_file_size_action(void)
{
    return &file_size_before;
}

bool process_close_output(void)
{
    const bool failed = ferror(stdout) != 0;
    const bool pending = __fpending(stdout) != 0;
    errno = 0;
    return (fclose(stdout) == 0 || (!pending && errno == EBADF)) && !failed;
}

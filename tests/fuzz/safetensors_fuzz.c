/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints from strangers: open, walk over all tensors, read them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const shoali_safetensors *file)
{
    const char *name;
    size_t count = 0;
    for (size_t i = 0; (name = shoali_safetensors_name(file, i, &count)) != NULL; i++) {
        float *values = malloc(count * sizeof *values + 1);
        if (values != NULL)
            (void)!shoali_safetensors_read(file, name, values, count);
        free(values);
        count = 0;
    }
    (void)shoali_safetensors_metadata(file, "step");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    shoali_safetensors *file = NULL;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (shoali_safetensors_open(path, &file) == SHOAL_OK)
        walk(file);
    shoali_safetensors_close(file);
    close(fd);
    return 0;
}

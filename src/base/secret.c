#include "base/secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

static const char *read_line(FILE *file, char *out, size_t size)
{
    struct stat st;
    size_t len;

    if (fstat(fileno(file), &st) < 0)
        return strerror(errno);
    if (!S_ISREG(st.st_mode))
        return "not a regular file";
    if (st.st_mode & (S_IWGRP | S_IRWXO))
        return "other users may read or change it; run chmod 0600 (or 0640) on it, and replace the "
               "secret if they might have seen it";
    if (!fgets(out, (int)size, file))
        return ferror(file) ? strerror(errno) : "it is empty";
    len = strlen(out);
    if (len + 1 == size && out[len - 1] != '\n' && fgetc(file) != EOF)
        return "its first line is too long";
    while (len > 0 && strchr(" \t\r\n", out[len - 1]))
        out[--len] = '\0';
    return NULL;
}

int hf_secret_read(const char *path, char *out, size_t size, const char **reason)
{
    FILE *file = fopen(path, "re");

    *reason = file ? read_line(file, out, size) : strerror(errno);
    if (file)
        (void)fclose(file);
    if (*reason)
        out[0] = '\0';
    return *reason ? HF_EINVAL : 0;
}

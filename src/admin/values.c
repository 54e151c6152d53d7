#include "admin/values.h"
#include "base/text.h"

#include <stdio.h>
#include <time.h>

json_t *value_id(uint64_t id)
{
    char text[24];

    hf_format(text, sizeof(text), "%llu", (unsigned long long)id);
    return json_string(text);
}

json_t *value_time(int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    char text[64];
    size_t len;

    if (wall_ms <= 0 || !gmtime_r(&seconds, &utc))
        return json_null();
    len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    hf_format(text + len, sizeof(text) - len, ".%03dZ", (int)(wall_ms % 1000));
    return json_string(text);
}

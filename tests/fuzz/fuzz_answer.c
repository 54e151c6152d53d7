/* Lines from a namer (NAM-01): an accepted line has an absolute path in its only quoted form. */
#include "fuzz.h"

#include "admin/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct hf_name_answer answer;
    static char bytes[HF_PATH_BYTES_MAX + 1];
    static char again[HF_PATH_QUOTED_MAX];
    /* A copy of exactly this size, so that AddressSanitizer sees a read beyond it. */
    uint8_t *copy = malloc(size ? size : 1);
    int len;

    memcpy(copy, data, size);
    if (hf_name_answer_read(hf_bytes(copy, size), &answer) && answer.status == HF_NAME_KNOWN) {
        HF_ASSERT(answer.path[0] == '/' && strlen(answer.path) == answer.len);
        for (size_t i = 0; i < answer.len; i++)
            HF_ASSERT((uint8_t)answer.path[i] >= 0x20 && answer.path[i] != 0x7f);
        len = hf_path_unquote(hf_bytes(answer.path, answer.len), bytes, sizeof(bytes));
        HF_ASSERT(len > 0);
        HF_ASSERT(hf_path_quote(hf_bytes(bytes, (size_t)len), again, sizeof(again)) ==
                  (int)answer.len);
        HF_ASSERT(memcmp(again, answer.path, answer.len) == 0);
    }
    free(copy);
    return 0;
}

/* tools/bench_shape.c: shapes as text. Called by bench_case.c, facts_shape.c and probe/probe.c, which has no
 * library behind it. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const bench_dtypes[3] = { [CLATTN_F32] = "f32", [CLATTN_F16] = "f16", [CLATTN_BF16] = "bf16" };

static bool read_number(const char *word, int64_t least, int64_t *value, const char **end, tool_error *error)
{
    char *stop;
    const char *digits = *end;
    errno = 0;
    long long number = strtoll(digits, &stop, 10);
    if (stop == digits || errno || number < least || number > INT32_MAX)
        return tool_fail(error, "%s: a whole number from %lld to %d is wanted", word, (long long)least,
                         INT32_MAX);
    *value = number;
    *end = stop;
    return true;
}

static bool read_window(const char *word, const char *at, bench_case *made, tool_error *error)
{
    if (!read_number(word, -1, &made->window_left, &at, error))
        return false;
    if (*at++ != ',')
        return tool_fail(error, "%s: window=LEFT,RIGHT is wanted", word);
    if (!read_number(word, -1, &made->window_right, &at, error))
        return false;
    return !*at || tool_fail(error, "%s: window=LEFT,RIGHT is wanted", word);
}

static bool read_dtype(const char *word, bench_case *made, tool_error *error)
{
    for (int dtype = 0; dtype < 3; dtype++) {
        made->dtype = (clattn_dtype)dtype;
        if (strcmp(word + 6, bench_dtypes[dtype]) == 0)
            return true;
    }
    return tool_fail(error, "%s: dtype=f32, f16 or bf16 is wanted", word);
}

static bool read_word(const char *word, bench_case *made, tool_error *error)
{
    const struct {
        const char *key;
        int64_t *value;
    } sizes[] = { { "b=", &made->batch },  { "hq=", &made->heads_q }, { "hkv=", &made->heads_kv },
                  { "lq=", &made->len_q }, { "lk=", &made->len_kv },  { "d=", &made->d_qk },
                  { "dv=", &made->d_v } };
    for (size_t index = 0; index < sizeof sizes / sizeof sizes[0]; index++) {
        const char *at = word + strlen(sizes[index].key);
        if (strncmp(word, sizes[index].key, strlen(sizes[index].key)) != 0)
            continue;
        return read_number(word, 1, sizes[index].value, &at, error) &&
               (!*at || tool_fail(error, "%s: a whole number is wanted", word));
    }
    if (strncmp(word, "window=", 7) == 0)
        return read_window(word, word + 7, made, error);
    if (strncmp(word, "dtype=", 6) == 0)
        return read_dtype(word, made, error);
    if (strcmp(word, "module") == 0)
        return made->is_module = true;
    made->causal = true;
    made->alignment = strcmp(word, "causal=top-left") == 0 ? CLATTN_TOP_LEFT : CLATTN_BOTTOM_RIGHT;
    if (strcmp(word, "causal") == 0 || strncmp(word, "causal=", 7) == 0) {
        if (made->alignment == CLATTN_TOP_LEFT || !word[6] || strcmp(word + 7, "bottom-right") == 0)
            return true;
    }
    return tool_fail(error,
                     "%s: one of b= hq= hkv= lq= lk= d= dv= dtype= window=LEFT,RIGHT causal "
                     "causal=top-left module is wanted",
                     word);
}

static bool judge(const bench_case *made, tool_error *error)
{
    if (!made->len_q || !made->d_qk)
        return tool_fail(error, "%s is missing", made->len_q ? "d=" : "lq=");
    if (made->heads_q % made->heads_kv != 0)
        return tool_fail(error, "hq=%lld is not a multiple of hkv=%lld", (long long)made->heads_q,
                         (long long)made->heads_kv);
    bool windowed = made->window_left >= 0 || made->window_right >= 0;
    if (made->is_module && (made->heads_kv != made->heads_q || made->len_kv != made->len_q ||
                            made->d_v != made->d_qk || windowed))
        return tool_fail(error, "a module has neither hkv, lk, dv nor window");
    if (made->is_module && made->heads_q * made->d_qk > INT32_MAX)
        return tool_fail(error, "hq=%lld d=%lld: more than %d columns", (long long)made->heads_q,
                         (long long)made->d_qk, INT32_MAX);
    return true;
}

bool bench_shape_read(const char *text, bench_case *made, tool_error *error)
{
    char word[64];
    *made = (bench_case){ .name = "shape", .batch = 1, .heads_q = 1, .window_left = -1, .window_right = -1 };
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), at);
        if (!read_word(word, made, error))
            return false;
        at += length;
    }
    if (!made->heads_kv)
        made->heads_kv = made->heads_q;
    if (!made->len_kv)
        made->len_kv = made->len_q;
    if (!made->d_v)
        made->d_v = made->d_qk;
    return judge(made, error);
}

void bench_shape_text(const bench_case *of, char text[BENCH_TEXT])
{
    int used = snprintf(text, BENCH_TEXT, "%sb=%lld hq=%lld", of->is_module ? "module " : "",
                        (long long)of->batch, (long long)of->heads_q);
    const struct {
        const char *key;
        int64_t value, otherwise;
    } sizes[] = { { "hkv", of->heads_kv, of->heads_q },
                  { "lq", of->len_q, 0 },
                  { "lk", of->len_kv, of->is_module ? of->len_q : 0 },
                  { "d", of->d_qk, 0 },
                  { "dv", of->d_v, of->d_qk } };
    for (size_t index = 0; index < sizeof sizes / sizeof sizes[0]; index++) {
        if (sizes[index].value != sizes[index].otherwise)
            used += snprintf(text + used, BENCH_TEXT - (size_t)used, " %s=%lld", sizes[index].key,
                             (long long)sizes[index].value);
    }
    if (of->causal)
        used += snprintf(text + used, BENCH_TEXT - (size_t)used, " causal=%s",
                         of->alignment == CLATTN_TOP_LEFT ? "top-left" : "bottom-right");
    if (of->window_left >= 0 || of->window_right >= 0)
        snprintf(text + used, BENCH_TEXT - (size_t)used, " window=%lld,%lld", (long long)of->window_left,
                 (long long)of->window_right);
}

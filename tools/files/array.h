/* tools/files/array.h: an array in host memory with its type and shape, and the one-line errors of the file
 * readers. Every reader makes one, every writer takes one. */
#ifndef TOOLS_FILES_ARRAY_H
#define TOOLS_FILES_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TOOL_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TOOL_PRINTF(text, first)
#endif

/* ---- Errors
 * ------------------------------------------------------------------------------------------------- */

/* One line without a newline that names the file, the value and the rule. */
typedef struct tool_error {
    char text[1024];
    bool usage; /* the command line is at fault, whatever the files hold */
} tool_error;

/* Writes the message and returns false. Control characters, which a hostile file may bring, become '?'. */
bool tool_fail(tool_error *error, const char *format, ...) TOOL_PRINTF(2, 3);
bool tool_fail_usage(tool_error *error, const char *format, ...) TOOL_PRINTF(2, 3);

/* ---- Types
 * -------------------------------------------------------------------------------------------------- */

/* X(name, bytes, text, numpy's code or NULL, safetensors' name). Numbers are in the host's byte order. */
#define TOOL_TYPE_LIST(X)                                                                                    \
    X(F16, 2, "f16", "f2", "F16")                                                                            \
    X(BF16, 2, "bf16", NULL, "BF16")                                                                         \
    X(F32, 4, "f32", "f4", "F32")                                                                            \
    X(F64, 8, "f64", "f8", "F64")                                                                            \
    X(I32, 4, "i32", "i4", "I32")                                                                            \
    X(I64, 8, "i64", "i8", "I64")                                                                            \
    X(U8, 1, "u8", "u1", "U8")                                                                               \
    X(BOOL, 1, "bool", "b1", "BOOL")

typedef enum tool_type {
#define TOOL_TYPE_ENUM(name, bytes, text, numpy, safetensors) TOOL_##name,
    TOOL_TYPE_LIST(TOOL_TYPE_ENUM)
#undef TOOL_TYPE_ENUM
        TOOL_TYPES
} tool_type;

typedef struct tool_type_facts {
    size_t bytes;
    const char *text;
    const char *numpy;
    const char *safetensors;
} tool_type_facts;

/* Indexed by tool_type. */
extern const tool_type_facts tool_types[TOOL_TYPES];

bool tool_type_is_float(tool_type type);

float tool_f16_to_f32(uint16_t half);
float tool_bf16_to_f32(uint16_t half);
/* To nearest, ties to even; NaN stays NaN. */
uint16_t tool_f32_to_f16(float value);
uint16_t tool_f32_to_bf16(float value);

/* ---- Arrays
 * ------------------------------------------------------------------------------------------------- */

enum { TOOL_MAX_RANK = 8, TOOL_SHAPE_BYTES = 24 * TOOL_MAX_RANK };

/* C order. `data` is page-aligned, so that a device can use it where it lies. All zero is a valid empty
 * value. */
typedef struct tool_array {
    tool_type type;
    int rank;
    int64_t shape[TOOL_MAX_RANK];
    size_t elements;
    void *data;
} tool_array;

/* Number of elements; false when a size is negative, or the product (zeros left out) times the element's
 * bytes does not fit size_t or int64_t. */
bool tool_count(int rank, const int64_t *shape, size_t element_bytes, size_t *elements);

/* Room for an array, contents undefined. `name` is what messages call it. On failure *array is all zero. */
bool tool_array_create(tool_type type, int rank, const int64_t *shape, const char *name, tool_array *array,
                       tool_error *error);
void tool_array_free(tool_array *array); /* an all-zero array is allowed */

double tool_array_get(const tool_array *array, size_t index);

/* The same numbers as F32, F16 or BF16. Refuses a finite number that the type can only hold as infinity. */
bool tool_array_convert(const tool_array *from, tool_type type, const char *name, tool_array *to,
                        tool_error *error);

/* "(2, 3)", "(3,)", "()". */
const char *tool_shape_text(int rank, const int64_t *shape, char text[TOOL_SHAPE_BYTES]);

#endif

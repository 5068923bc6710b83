/* tests/tools/test_safetensors.c: .safetensors files, good and hostile.
 * Run by ctest and tests/run.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "files/load.h"
#include "files/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char path[] = "test_safetensors.safetensors";

static void write_file(const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static size_t make(const char *header, const void *data, size_t data_bytes, unsigned char *out)
{
    size_t length = strlen(header);
    for (size_t byte = 0; byte < 8; byte++)
        out[byte] = (unsigned char)(length >> (8 * byte));
    for (size_t byte = 0; byte < length; byte++)
        out[8 + byte] = (unsigned char)header[byte];
    memcpy(out + 8 + length, data, data_bytes);
    return 8 + length + data_bytes;
}

static void store(const char *header, const void *data, size_t data_bytes)
{
    unsigned char file[4096];
    write_file(file, make(header, data, data_bytes, file));
}

static void assert_refused(const char *part)
{
    tool_safetensors *file;
    tool_error error = { .text = "" };
    assert_false(tool_safetensors_open(path, &file, &error));
    assert_null(file);
    assert_null(strchr(error.text, '\n'));
    if (!strstr(error.text, part) || !strstr(error.text, path))
        fail_msg("\"%s\" does not name %s and %s", error.text, path, part);
}

static const char good_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"half\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[8,12]},"
    "\"single\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
    "\"brain\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[12,14]},"
    "\"other\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[14,15]}}   ";
static const unsigned char good_data[15] = {
    0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0x3c, 0, 0xc0, 0x40, 0x40, 1
};

static void reads_f32_f16_and_bf16(void **state)
{
    (void)state;
    tool_safetensors *file;
    tool_error error;
    tool_array array;
    store(good_header, good_data, sizeof good_data);
    assert_true(tool_safetensors_open(path, &file, &error));
    assert_int_equal(tool_safetensors_count(file), 4);
    assert_string_equal(tool_safetensors_name(file, 0), "brain");
    assert_true(tool_safetensors_has(file, "single"));
    assert_false(tool_safetensors_has(file, "__metadata__"));

    assert_true(tool_safetensors_read(file, "single", &array, &error));
    assert_int_equal(array.type, TOOL_F32);
    assert_int_equal(array.rank, 2);
    assert_int_equal(array.shape[1], 2);
    assert_true(tool_array_get(&array, 0) == 1 && tool_array_get(&array, 1) == -2);
    tool_array_free(&array);
    assert_true(tool_safetensors_read(file, "half", &array, &error));
    assert_int_equal(array.type, TOOL_F16);
    assert_true(tool_array_get(&array, 0) == 1 && tool_array_get(&array, 1) == -2);
    tool_array_free(&array);
    assert_true(tool_safetensors_read(file, "brain", &array, &error));
    assert_int_equal(array.rank, 0);
    assert_true(tool_array_get(&array, 0) == 3);
    tool_array_free(&array);
    tool_safetensors_close(file);
}

static void names_the_nearest_tensor(void **state)
{
    (void)state;
    tool_safetensors *file;
    tool_error error;
    tool_array array;
    store(good_header, good_data, sizeof good_data);
    assert_true(tool_safetensors_open(path, &file, &error));
    assert_false(tool_safetensors_read(file, "singel", &array, &error));
    assert_null(array.data);
    assert_string_equal(error.text,
                        "test_safetensors.safetensors: no tensor singel; the nearest of its 4 is single");
    tool_safetensors_close(file);
}

static void refuses_a_type_only_when_it_is_asked_for(void **state)
{
    (void)state;
    tool_safetensors *file;
    tool_error error;
    tool_array array;
    store(good_header, good_data, sizeof good_data);
    assert_true(tool_safetensors_open(path, &file, &error));
    assert_false(tool_safetensors_read(file, "other", &array, &error));
    assert_non_null(strstr(error.text, "other: type F8_E4M3"));
    tool_safetensors_close(file);
}

static void loads_by_file_and_name(void **state)
{
    (void)state;
    tool_error error;
    tool_array array;
    store(good_header, good_data, sizeof good_data);
    assert_true(tool_load("test_safetensors.safetensors:single", &array, &error));
    assert_int_equal(array.elements, 2);
    tool_array_free(&array);
    assert_false(tool_load(path, &array, &error));
    assert_non_null(strstr(error.text, "name the tensor, as in test_safetensors.safetensors:NAME"));
    assert_false(tool_load("absent.safetensors:x", &array, &error));
    assert_string_equal(error.text, "absent.safetensors: No such file or directory");
}

static void reads_a_file_without_tensors(void **state)
{
    (void)state;
    tool_safetensors *file;
    tool_error error;
    tool_array array;
    store("{}", "", 0);
    assert_true(tool_safetensors_open(path, &file, &error));
    assert_int_equal(tool_safetensors_count(file), 0);
    assert_false(tool_safetensors_read(file, "x", &array, &error));
    tool_safetensors_close(file);
}

#define ENTRY(name, type, shape, offsets)                                                                    \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void refuses_hostile_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header, *part;
    } cases[] = {
        { "{" ENTRY("a", "F32", "[2]", "[4,12]") "}", "[4, 12] do not lie within the 8 bytes" },
        { "{" ENTRY("a", "F32", "[0]", "[8,4]") "}", "[8, 4] do not lie" },
        { "{" ENTRY("a", "F32", "[3]", "[0,8]") "}", "takes 12 bytes" },
        { "{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("b", "F32", "[1]", "[2,6]") "}",
          "b: begins at 2, inside a" },
        { "{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("b", "F16", "[1]", "[6,8]") "}", "bytes 4 to 6" },
        { "{" ENTRY("a", "F32", "[1]", "[0,4]") "}", "take 4 bytes, 8 follow" },
        { "{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("a", "F32", "[1]", "[4,8]") "}",
          "a is there twice" },
        { "{" ENTRY("a", "F32", "[4294967296,4294967296]", "[0,8]") "}", "too large to express" },
        { "{" ENTRY("a", "F32", "[-2]", "[0,8]") "}", "size 0 of its shape" },
        { "{" ENTRY("a", "F32", "[1.5]", "[0,8]") "}", "size 0 of its shape" },
        { "{" ENTRY("a", "F32", "[2]", "[0,1e400]") "}", "not two whole numbers" },
        { "{" ENTRY("a", "F32", "[2]", "[0,1e17]") "}", "not two whole numbers" },
        { "{" ENTRY("a", "F32", "[2]", "[0,NaN]") "}", "not a JSON object" },
        { "{" ENTRY("a", "F32", "[2]", "[0]") "}", "not two whole numbers" },
        { "{" ENTRY("a", "F32", "2", "[0,8]") "}", "shape is not a list" },
        { "{" ENTRY("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", "more than 8 axes" },
        { "{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", "dtype is not a text" },
        { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,8]}}",
          "not an object of" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "not an object of dtype" },
        { "{\"a\":[]}", "not an object of dtype" },
        { "{\"__metadata__\":5}", "__metadata__: not an object of texts" },
        { "{\"__metadata__\":{\"format\":5}}", "__metadata__: not an object of texts" },
        { "{\"__metadata__\":[\"pt\"]}", "__metadata__: not an object of texts" },
        { "[]", "not a JSON object" },
        { " {}", "not a JSON object" },
        { "{} {}", "not a JSON object" },
        { "{\"a\":", "not a JSON object" },
        { "", "not a JSON object" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        store(cases[index].header, "12345678", 8);
        assert_refused(cases[index].part);
    }
}

static void refuses_a_header_longer_than_the_file(void **state)
{
    (void)state;
    unsigned char file[4096];
    size_t bytes = make("{}", "", 0, file);
    file[0] = 3;
    write_file(file, bytes);
    assert_refused("header of 3 bytes is longer than the file");
    memset(file, 0xff, 8);
    write_file(file, bytes);
    assert_refused("header of 18446744073709551615 bytes");
}

static void refuses_deep_json(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    char *header = calloc(DEPTH + 16, 1);
    unsigned char *file = malloc(DEPTH + 64);
    assert_true(header && file);
    memcpy(header, "{\"a\":", 6);
    memset(header + 5, '[', DEPTH);
    write_file(file, make(header, "", 0, file));
    assert_refused("not a JSON object");
    free(header);
    free(file);
}

static void refuses_every_truncation(void **state)
{
    (void)state;
    unsigned char file[4096];
    size_t bytes = make(good_header, good_data, sizeof good_data, file);
    for (size_t length = 0; length < bytes; length++) {
        write_file(file, length);
        assert_refused("");
    }
}

static void survives_every_byte_flip(void **state)
{
    (void)state;
    unsigned char data[4096];
    size_t bytes = make(good_header, good_data, sizeof good_data, data);
    static const unsigned char flips[] = { 0x01, 0x08, 0x80, 0xff };
    for (size_t at = 0; at < bytes; at++) {
        for (size_t flip = 0; flip < sizeof flips; flip++) {
            tool_safetensors *file;
            tool_array array;
            tool_error error = { .text = "" };
            data[at] ^= flips[flip];
            write_file(data, bytes);
            data[at] ^= flips[flip];
            bool ok = tool_safetensors_open(path, &file, &error);
            assert_true(ok == (error.text[0] == 0));
            for (size_t index = 0; ok && index < tool_safetensors_count(file); index++) {
                if (tool_safetensors_read(file, tool_safetensors_name(file, index), &array, &error))
                    assert_true(array.elements <= sizeof good_data);
                tool_array_free(&array);
            }
            tool_safetensors_close(file);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_f32_f16_and_bf16),
        cmocka_unit_test(names_the_nearest_tensor),
        cmocka_unit_test(refuses_a_type_only_when_it_is_asked_for),
        cmocka_unit_test(loads_by_file_and_name),
        cmocka_unit_test(reads_a_file_without_tensors),
        cmocka_unit_test(refuses_hostile_headers),
        cmocka_unit_test(refuses_a_header_longer_than_the_file),
        cmocka_unit_test(refuses_deep_json),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(survives_every_byte_flip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tests/tools/test_npy.c: .npy files, good and hostile.
 * Run by ctest and tests/run.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "files/npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char path[] = "test_npy.npy";

static void write_file(const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* A file of `version` with this header and these data; returns its size. */
static size_t make(int version, const char *header, const void *data, size_t data_bytes, unsigned char *out)
{
    size_t length = strlen(header), at = 8;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    for (size_t byte = 0; byte < (version == 1 ? 2u : 4u); byte++)
        out[at++] = (unsigned char)(length >> (8 * byte));
    memcpy(out + at, header, length);
    memcpy(out + at + length, data, data_bytes);
    return at + length + data_bytes;
}

static void store(int version, const char *header, const void *data, size_t data_bytes)
{
    unsigned char file[4096];
    write_file(file, make(version, header, data, data_bytes, file));
}

static void assert_reads(const char *header, const void *data, size_t bytes, tool_type type, size_t count,
                         const double *values)
{
    tool_array array;
    tool_error error = { .text = "" };
    store(1, header, data, bytes);
    if (!tool_npy_read(path, &array, &error))
        fail_msg("%s", error.text);
    assert_int_equal(array.type, type);
    assert_int_equal(array.elements, count);
    for (size_t index = 0; index < count; index++)
        assert_true(tool_array_get(&array, index) == values[index]);
    tool_array_free(&array);
}

static void assert_refused(const char *part)
{
    tool_array array;
    tool_error error = { .text = "" };
    assert_false(tool_npy_read(path, &array, &error));
    assert_null(array.data);
    assert_null(strchr(error.text, '\n'));
    if (!strstr(error.text, part) || !strstr(error.text, path))
        fail_msg("\"%s\" does not name %s and %s", error.text, path, part);
}

static void reads_every_type_in_both_byte_orders(void **state)
{
    (void)state;
    const double values[] = { 1, -2 };
    assert_reads("{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", "\x00\x3c\x00\xc0", 4, TOOL_F16,
                 2, values);
    assert_reads("{'descr': '>f2', 'fortran_order': False, 'shape': (2,), }", "\x3c\x00\xc0\x00", 4, TOOL_F16,
                 2, values);
    assert_reads("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "\0\0\x80\x3f\0\0\0\xc0", 8,
                 TOOL_F32, 2, values);
    assert_reads("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "\x3f\x80\0\0\xc0\0\0\0", 8,
                 TOOL_F32, 2, values);
    assert_reads("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }",
                 "\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\xc0", 16, TOOL_F64, 2, values);
    assert_reads("{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }",
                 "\x3f\xf0\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0", 16, TOOL_F64, 2, values);
    assert_reads("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", "\1\0\0\0\xfe\xff\xff\xff", 8,
                 TOOL_I32, 2, values);
    assert_reads("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }", "\0\0\0\1\xff\xff\xff\xfe", 8,
                 TOOL_I32, 2, values);
    assert_reads("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }",
                 "\1\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff", 16, TOOL_I64, 2, values);
    assert_reads("{'descr': '>i8', 'fortran_order': False, 'shape': (2,), }",
                 "\0\0\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xfe", 16, TOOL_I64, 2, values);
    const double bytes[] = { 0, 1, 200 }, bits[] = { 0, 1, 1 };
    assert_reads("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "\0\1\xc8", 3, TOOL_U8, 3,
                 bytes);
    assert_reads("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "\0\1\xc8", 3, TOOL_BOOL, 3,
                 bits);
}

static void reads_versions_1_to_3(void **state)
{
    (void)state;
    for (int version = 1; version <= 3; version++) {
        tool_array array;
        tool_error error;
        store(version, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1), }   \n", "\5\6", 2);
        assert_true(tool_npy_read(path, &array, &error));
        assert_int_equal(array.rank, 2);
        assert_int_equal(array.shape[0], 2);
        assert_int_equal(array.shape[1], 1);
        assert_true(tool_array_get(&array, 1) == 6);
        tool_array_free(&array);
    }
}

static void reads_fields_in_any_order_and_spacing(void **state)
{
    (void)state;
    const double values[] = { 7, 8 };
    assert_reads("{\"shape\":(1,2),'fortran_order':False,'descr':'|u1'}", "\7\10", 2, TOOL_U8, 2, values);
    assert_reads(" { 'fortran_order' : False , 'shape' : ( 2 , ) , 'descr' : '|u1' , } \n", "\7\10", 2,
                 TOOL_U8, 2, values);
}

static void turns_fortran_order_into_c_order(void **state)
{
    (void)state;
    const double matrix[] = { 1, 3, 5, 2, 4, 6 };
    assert_reads("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "\1\2\3\4\5\6", 6, TOOL_U8, 6,
                 matrix);
    const double cube[] = { 1, 5, 3, 7, 2, 6, 4, 8 };
    assert_reads("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2, 2), }", "\1\2\3\4\5\6\7\10", 8,
                 TOOL_U8, 8, cube);
}

static void reads_a_scalar_and_an_empty_array(void **state)
{
    (void)state;
    const double value = 9;
    assert_reads("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "\11", 1, TOOL_U8, 1, &value);
    assert_reads("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 0, 2), }", "", 0, TOOL_F32, 0, NULL);
}

static void refuses_hostile_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header, *part;
    } cases[] = {
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
          "shape (2,) of f32 takes 8 bytes, 4 follow" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "nothing after it" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
          "too large to express" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }",
          "too large to express" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
          "99999999999999999999" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
          "takes 4000000000000 bytes" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "-1" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,), }", ".5" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1), }", "a comma is wanted" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': 1, }", "'(' wanted" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "more than 8 axes" },
        { "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", "neither True nor False" },
        { "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "'<c8'" },
        { "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "'|O'" },
        { "{'descr': '|f4', 'fortran_order': False, 'shape': (1,), }", "'|f4'" },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "structure" },
        { "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
          "'descr' is there twice" },
        { "{'descr': '<f4', 'order': False, 'shape': (1,), }", "field 'order'" },
        { "{'descr': '<f4', 'shape': (1,), }", "'fortran_order' is missing" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", "after its end" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "'}' wanted" },
        { "{'descr': '<f4", "has no end" },
        { "{\n\x1b[31m", "\"?[31m\"" },
        { "", "'{' wanted" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        store(1, cases[index].header, "\0\0\x80\x3f", 4);
        assert_refused(cases[index].part);
    }
}

static void refuses_wrong_magic_version_and_header_length(void **state)
{
    (void)state;
    unsigned char file[4096];
    size_t bytes = make(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "\0", 1, file);
    file[0] = 'N';
    write_file(file, bytes);
    assert_refused("not an .npy file");
    file[0] = 0x93;
    file[6] = 4;
    write_file(file, bytes);
    assert_refused("version 4.0");
    file[6] = 1;
    file[8] = file[9] = 0xff;
    write_file(file, bytes);
    assert_refused("truncated: 65535 bytes wanted");
    bytes = make(2, "{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "\0", 1, file);
    memset(file + 8, 0xff, 4);
    write_file(file, bytes);
    assert_refused("4294967295");
}

static void refuses_what_is_no_regular_file(void **state)
{
    (void)state;
    tool_array array;
    tool_error error;
    assert_false(tool_npy_read("/", &array, &error));
    assert_string_equal(error.text, "/: not a regular file");
    assert_false(tool_npy_read("absent.npy", &array, &error));
    assert_string_equal(error.text, "absent.npy: No such file or directory");
}

static const char good_header[] = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n";

static void refuses_every_truncation(void **state)
{
    (void)state;
    unsigned char file[4096];
    const float data[6] = { 1, 2, 3, 4, 5, 6 };
    size_t bytes = make(1, good_header, data, sizeof data, file);
    for (size_t length = 0; length < bytes; length++) {
        write_file(file, length);
        assert_refused("");
    }
}

static void survives_every_byte_flip(void **state)
{
    (void)state;
    unsigned char file[4096];
    const float data[6] = { 1, 2, 3, 4, 5, 6 };
    size_t bytes = make(2, good_header, data, sizeof data, file);
    static const unsigned char flips[] = { 0x01, 0x10, 0x80, 0xff };
    for (size_t at = 0; at < bytes; at++) {
        for (size_t flip = 0; flip < sizeof flips; flip++) {
            tool_array array;
            tool_error error = { .text = "" };
            file[at] ^= flips[flip];
            write_file(file, bytes);
            bool ok = tool_npy_read(path, &array, &error);
            file[at] ^= flips[flip];
            assert_true(ok == (array.data != NULL));
            assert_true(ok == (error.text[0] == 0));
            double sum = 0;
            for (size_t index = 0; index < array.elements; index++)
                sum += tool_array_get(&array, index);
            assert_true(ok || sum == 0);
            tool_array_free(&array);
        }
    }
}

static void reads_back_what_it_wrote(void **state)
{
    (void)state;
    static const tool_type types[] = { TOOL_F16, TOOL_F32, TOOL_F64, TOOL_I32, TOOL_I64, TOOL_U8, TOOL_BOOL };
    static const int64_t shape[] = { 2, 1, 3 };
    for (size_t index = 0; index < sizeof types / sizeof types[0]; index++) {
        for (int rank = 0; rank <= 3; rank++) {
            tool_array wrote, read;
            tool_error error;
            assert_true(tool_array_create(types[index], rank, shape, "array", &wrote, &error));
            memset(wrote.data, 1, wrote.elements * tool_types[wrote.type].bytes);
            FILE *file = fopen(path, "wb");
            assert_non_null(file);
            assert_true(tool_npy_write(file, path, &wrote, &error));
            assert_int_equal(ftell(file) % 64, wrote.elements * tool_types[wrote.type].bytes % 64);
            fclose(file);
            assert_true(tool_npy_read(path, &read, &error));
            assert_int_equal(read.type, wrote.type);
            assert_int_equal(read.rank, rank);
            assert_memory_equal(read.shape, wrote.shape, sizeof read.shape);
            assert_memory_equal(read.data, wrote.data, wrote.elements * tool_types[wrote.type].bytes);
            tool_array_free(&read);
            tool_array_free(&wrote);
        }
    }
}

static void converts_every_half_there_and_back(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float f16 = tool_f16_to_f32((uint16_t)bits), bf16 = tool_bf16_to_f32((uint16_t)bits);
        assert_true(isnan(f16) ? isnan(tool_f16_to_f32(tool_f32_to_f16(f16))) : tool_f32_to_f16(f16) == bits);
        assert_true(isnan(bf16) ? isnan(tool_bf16_to_f32(tool_f32_to_bf16(bf16)))
                                : tool_f32_to_bf16(bf16) == bits);
    }
}

static void rounds_halves_to_nearest_even(void **state)
{
    (void)state;
    for (uint16_t bits = 0; bits < 0x7bff; bits++) {
        float low = tool_f16_to_f32(bits), high = tool_f16_to_f32((uint16_t)(bits + 1)),
              middle = (low + high) / 2;
        assert_int_equal(tool_f32_to_f16(middle), bits + (bits & 1));
        assert_int_equal(tool_f32_to_f16(nextafterf(middle, 0)), bits);
        assert_int_equal(tool_f32_to_f16(-nextafterf(middle, INFINITY)), 0x8000 + bits + 1);
    }
    assert_int_equal(tool_f32_to_bf16(1.00390625f), 0x3f80);
    assert_int_equal(tool_f32_to_bf16(1.01171875f), 0x3f82);
    assert_int_equal(tool_f32_to_bf16(1.00390637f), 0x3f81);
}

static void refuses_to_make_a_finite_number_infinite(void **state)
{
    (void)state;
    static const int64_t shape[] = { 2 };
    tool_array wide, narrow;
    tool_error error = { .text = "" };
    assert_true(tool_array_create(TOOL_F64, 1, shape, "wide", &wide, &error));
    double *data = wide.data;
    data[0] = -INFINITY;
    data[1] = 65519;
    assert_true(tool_array_convert(&wide, TOOL_F16, "wide", &narrow, &error));
    assert_true(tool_array_get(&narrow, 0) == -INFINITY && tool_array_get(&narrow, 1) == 65504);
    tool_array_free(&narrow);
    data[1] = -65520;
    assert_false(tool_array_convert(&wide, TOOL_F16, "wide", &narrow, &error));
    assert_string_equal(error.text, "wide: -65520 at element 1 is too large for f16");
    data[1] = 1e300;
    assert_false(tool_array_convert(&wide, TOOL_F32, "wide", &narrow, &error));
    assert_false(tool_array_convert(&wide, TOOL_BF16, "wide", &narrow, &error));
    assert_string_equal(error.text, "wide: 1e+300 at element 1 is too large for bf16");
    tool_array_free(&wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_type_in_both_byte_orders),
        cmocka_unit_test(reads_versions_1_to_3),
        cmocka_unit_test(reads_fields_in_any_order_and_spacing),
        cmocka_unit_test(turns_fortran_order_into_c_order),
        cmocka_unit_test(reads_a_scalar_and_an_empty_array),
        cmocka_unit_test(refuses_hostile_headers),
        cmocka_unit_test(refuses_wrong_magic_version_and_header_length),
        cmocka_unit_test(refuses_what_is_no_regular_file),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(survives_every_byte_flip),
        cmocka_unit_test(reads_back_what_it_wrote),
        cmocka_unit_test(converts_every_half_there_and_back),
        cmocka_unit_test(rounds_halves_to_nearest_even),
        cmocka_unit_test(refuses_to_make_a_finite_number_infinite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

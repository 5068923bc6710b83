/* tests/tools/test_output.c: output files appear whole or not at all; text files of tokens; distance of
 * words. Run by ctest and tests/run.sh. */
#define _XOPEN_SOURCE 700

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "files/npy.h"
#include "files/output.h"
#include "files/text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "output_XXXXXX";

static size_t files_in_folder(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

static const char *in_folder(const char *name)
{
    static char text[2][64];
    static int turn;
    turn = !turn;
    snprintf(text[turn], sizeof text[turn], "%s/%s", folder, name);
    return text[turn];
}

static void put_text(const char *path, const char *text, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void assert_holds(const char *path, const char *text)
{
    char found[64] = { 0 };
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof found - 1, file), strlen(text));
    fclose(file);
    assert_string_equal(found, text);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_files(void **state)
{
    (void)state;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        remove(in_folder(entry->d_name));
    closedir(dir);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void files_appear_together_on_commit(void **state)
{
    (void)state;
    tool_outputs outputs = { 0 };
    tool_error error;
    fputs("one", tool_outputs_add(&outputs, in_folder("a"), &error));
    fputs("two", tool_outputs_add(&outputs, in_folder("b"), &error));
    assert_int_not_equal(access(in_folder("a"), F_OK), 0);
    assert_true(tool_outputs_commit(&outputs, &error));
    assert_holds(in_folder("a"), "one");
    assert_holds(in_folder("b"), "two");
    assert_int_equal(files_in_folder(), 2);
}

static void one_full_disk_leaves_every_old_file(void **state)
{
    (void)state;
    tool_outputs outputs = { 0 };
    tool_error error;
    put_text(in_folder("a"), "old", 3);
    fputs("new", tool_outputs_add(&outputs, in_folder("a"), &error));
    fputs("lost", tool_outputs_add(&outputs, "/dev/full", &error));
    assert_false(tool_outputs_commit(&outputs, &error));
    assert_string_equal(error.text, "/dev/full: cannot write: No space left on device");
    assert_holds(in_folder("a"), "old");
    assert_int_equal(files_in_folder(), 1);
}

static void discard_leaves_nothing(void **state)
{
    (void)state;
    tool_outputs outputs = { 0 };
    tool_error error;
    fputs("new", tool_outputs_add(&outputs, in_folder("a"), &error));
    assert_int_equal(files_in_folder(), 1);
    tool_outputs_discard(&outputs);
    assert_int_equal(files_in_folder(), 0);
}

static void refuses_two_outputs_to_one_file(void **state)
{
    (void)state;
    tool_outputs outputs = { 0 };
    tool_error error;
    assert_non_null(tool_outputs_add(&outputs, in_folder("a"), &error));
    assert_null(tool_outputs_add(&outputs, in_folder("a"), &error));
    assert_non_null(strstr(error.text, "two outputs go to this file"));
    assert_null(tool_outputs_add(&outputs, in_folder("./a"), &error));
    assert_non_null(strstr(error.text, "two outputs go to this file"));
    tool_outputs_discard(&outputs);
}

static void refuses_folders_and_absent_folders(void **state)
{
    (void)state;
    tool_outputs outputs = { 0 };
    tool_error error;
    assert_false(tool_output_check(folder, &error));
    assert_non_null(strstr(error.text, "it is a folder"));
    assert_false(tool_output_check(in_folder("absent/x"), &error));
    assert_non_null(strstr(error.text, "No such file or directory"));
    assert_null(tool_outputs_add(&outputs, in_folder("absent/x"), &error));
    assert_non_null(strstr(error.text, "No such file or directory"));
    tool_outputs_discard(&outputs);
    assert_true(tool_output_check(in_folder("new"), &error));
}

static void new_files_get_the_permission_of_the_umask(void **state)
{
    (void)state;
    tool_outputs outputs = { 0 };
    tool_error error;
    struct stat facts;
    mode_t before = umask(026);
    assert_non_null(tool_outputs_add(&outputs, in_folder("a"), &error));
    assert_true(tool_outputs_commit(&outputs, &error));
    umask(before);
    assert_int_equal(stat(in_folder("a"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0640);
}

static void a_symbolic_link_stays_one(void **state)
{
    (void)state;
    tool_outputs outputs = { 0 };
    tool_error error;
    struct stat facts;
    put_text(in_folder("real"), "old", 3);
    assert_int_equal(symlink("real", in_folder("link")), 0);
    fputs("new", tool_outputs_add(&outputs, in_folder("link"), &error));
    assert_true(tool_outputs_commit(&outputs, &error));
    assert_holds(in_folder("real"), "new");
    assert_int_equal(lstat(in_folder("link"), &facts), 0);
    assert_true(S_ISLNK(facts.st_mode));
}

static void a_symbolic_link_to_nothing_is_refused(void **state)
{
    (void)state;
    tool_outputs outputs = { 0 };
    tool_error error;
    assert_int_equal(symlink("absent", in_folder("link")), 0);
    assert_false(tool_output_check(in_folder("link"), &error));
    assert_null(tool_outputs_add(&outputs, in_folder("link"), &error));
    assert_non_null(strstr(error.text, "link: cannot write: it is a symbolic link to nothing"));
    tool_outputs_discard(&outputs);
    assert_int_equal(files_in_folder(), 1);
}

static void bf16_is_written_as_f32(void **state)
{
    (void)state;
    static const int64_t shape[] = { 2 };
    tool_outputs outputs = { 0 };
    tool_array array, back;
    tool_error error;
    assert_true(tool_array_create(TOOL_BF16, 1, shape, "array", &array, &error));
    memcpy(array.data, (uint16_t[]){ 0x3f80, 0xc000 }, 4);
    assert_true(tool_outputs_add_npy(&outputs, in_folder("a"), &array, &error));
    assert_true(tool_outputs_commit(&outputs, &error));
    assert_true(tool_npy_read(in_folder("a"), &back, &error));
    assert_int_equal(back.type, TOOL_F32);
    assert_true(tool_array_get(&back, 0) == 1 && tool_array_get(&back, 1) == -2);
    tool_array_free(&back);
    tool_array_free(&array);
}

static void reads_lines_as_clean_text(void **state)
{
    (void)state;
    static const char text[] = "[CLS]\r\ncaf\xc3\xa9\n\nbad\xff\xc3\nnul\0\x1b\nlast";
    static const char *const wanted[] = { "[CLS]", "caf\xc3\xa9", "", "bad??", "nul??", "last" };
    tool_lines lines;
    tool_error error;
    put_text(in_folder("tokens"), text, sizeof text - 1);
    assert_true(tool_lines_read(in_folder("tokens"), &lines, &error));
    assert_int_equal(lines.count, 6);
    for (size_t index = 0; index < 6; index++)
        assert_string_equal(lines.line[index], wanted[index]);
    tool_lines_free(&lines);
    put_text(in_folder("tokens"), "", 0);
    assert_true(tool_lines_read(in_folder("tokens"), &lines, &error));
    assert_int_equal(lines.count, 0);
    tool_lines_free(&lines);
}

static void counts_the_letters_between_two_words(void **state)
{
    (void)state;
    assert_int_equal(tool_distance("causal", "causal"), 0);
    assert_int_equal(tool_distance("kausal", "causal"), 1);
    assert_int_equal(tool_distance("cuasal", "causal"), 1);
    assert_int_equal(tool_distance("", "causal"), 6);
    assert_int_equal(tool_distance("scale", "sinks"), 4);
    char word[200];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = 0;
    assert_int_equal(tool_distance(word, "b"), 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(files_appear_together_on_commit, remove_files),
        cmocka_unit_test_teardown(one_full_disk_leaves_every_old_file, remove_files),
        cmocka_unit_test_teardown(discard_leaves_nothing, remove_files),
        cmocka_unit_test_teardown(refuses_two_outputs_to_one_file, remove_files),
        cmocka_unit_test_teardown(refuses_folders_and_absent_folders, remove_files),
        cmocka_unit_test_teardown(new_files_get_the_permission_of_the_umask, remove_files),
        cmocka_unit_test_teardown(a_symbolic_link_stays_one, remove_files),
        cmocka_unit_test_teardown(a_symbolic_link_to_nothing_is_refused, remove_files),
        cmocka_unit_test_teardown(bf16_is_written_as_f32, remove_files),
        cmocka_unit_test_teardown(reads_lines_as_clean_text, remove_files),
        cmocka_unit_test(counts_the_letters_between_two_words),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

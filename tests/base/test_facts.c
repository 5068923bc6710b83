/* tests/base/test_facts.c: what a device claims and what of it is true, through clattn/probe.h; drivers that
 * are known to be bad. Run by ctest and tests/run.sh. */
#include "support/harness.h"

#include "base/facts.h"
#include "base/known_bad.h"
#include "support/cl_shim.h"

#include <stdio.h>
#include <string.h>

static void facts_have_names_units_and_values(void **state)
{
    (void)state;
    clattn_fact facts[64];
    size_t count = 0;
    bool line = false, sizes = false;
    ct_ok(clattn_device_facts(ct_device(), 64, facts, &count));
    assert_in_range(count, 25, 64);
    for (size_t index = 0; index < count; index++) {
        const clattn_fact *fact = &facts[index];
        line |= strcmp(fact->name, "cache_line_bytes") == 0 && fact->kind == CLATTN_FACT_NUMBER &&
                strcmp(fact->unit, "B") == 0;
        sizes |= strcmp(fact->name, "max_work_items") == 0 && fact->kind == CLATTN_FACT_TEXT &&
                 strspn(fact->text, "0123456789 ") == strlen(fact->text);
        if (fact->kind == CLATTN_FACT_UNKNOWN)
            assert_true(strlen(fact->text) > 3); /* why */
        for (size_t other = 0; other < index; other++)
            assert_string_not_equal(fact->name, facts[other].name);
    }
    assert_true(line && sizes);
}

static void facts_and_features_fill_what_there_is_room_for(void **state)
{
    (void)state;
    clattn_fact facts[3];
    clattn_feature features[2];
    size_t all = 0, count = 0;
    ct_ok(clattn_device_facts(ct_device(), 0, NULL, &all));
    memset(facts, 0x5a, sizeof facts);
    ct_ok(clattn_device_facts(ct_device(), 2, facts, &count));
    assert_int_equal(count, all);
    assert_string_equal(facts[1].name, "vendor_id");
    assert_int_equal(*(const unsigned char *)&facts[2], 0x5a);
    ct_ok(clattn_device_features(ct_context(), 0, NULL, &all));
    memset(features, 0x5a, sizeof features);
    ct_ok(clattn_device_features(ct_context(), 1, features, &count));
    assert_int_equal(count, all);
    assert_string_equal(features[0].name, "kernel");
    assert_int_equal(features[0].proof, CLATTN_PROOF_OK);
    assert_int_equal(*(const unsigned char *)&features[1], 0x5a);
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    size_t count = 9;
    ct_rejects(clattn_device_facts(ct_device(), 0, NULL, NULL), CLATTN_INVALID_ARGUMENT, "count is NULL");
    ct_rejects(clattn_device_facts(NULL, 0, NULL, &count), CLATTN_INVALID_ARGUMENT, "device is NULL");
    assert_int_equal(count, 0);
    ct_rejects(clattn_device_facts(ct_device(), 1, NULL, &count), CLATTN_INVALID_ARGUMENT, "facts is NULL");
    ct_rejects(clattn_device_features(NULL, 0, NULL, &count), CLATTN_INVALID_ARGUMENT, "context is NULL");
    ct_rejects(clattn_device_features(ct_context(), 1, NULL, &count), CLATTN_INVALID_ARGUMENT,
               "features is NULL");
}

static void a_proof_that_cannot_run_says_which_call_failed(void **state)
{
    (void)state;
    clattn_feature feature;
    size_t count;
    cl_shim_fault.buffer_at = 2;
    ct_ok(clattn_device_features(ct_context(), 1, &feature, &count));
    cl_shim_clear_faults();
    assert_int_equal(feature.proof, CLATTN_PROOF_FAILED);
    assert_non_null(strstr(feature.detail, "clCreateBuffer"));
    cl_shim_fault.launch_at = 1;
    ct_ok(clattn_device_features(ct_context(), 1, &feature, &count));
    cl_shim_clear_faults();
    assert_int_equal(feature.proof, CLATTN_PROOF_FAILED);
    assert_non_null(strstr(feature.detail, "clEnqueueNDRangeKernel"));
}

static void proofs_have_names(void **state)
{
    (void)state;
    assert_string_equal(clattn_proof_name(CLATTN_PROOF_OK), "ok");
    assert_string_equal(clattn_proof_name(CLATTN_PROOF_NONE), "not claimed");
    assert_string_equal(clattn_proof_name((clattn_proof)99), "unknown");
}

static void a_claim_is_a_whole_word(void **state)
{
    (void)state;
    const char *claimed = "cl_khr_fp16x cl_khr_fp64 cl_khr_subgroups";
    assert_false(ca_device_claims(claimed, "cl_khr_fp16"));
    assert_true(ca_device_claims(claimed, "cl_khr_fp64"));
    assert_true(ca_device_claims(claimed, "cl_khr_subgroups"));
    assert_false(ca_device_claims(claimed, "khr_fp64"));
    assert_false(ca_device_claims("", "cl_khr_fp64"));
}

static void texts_become_clean(void **state)
{
    static const struct {
        const char *text, *clean;
    } texts[] = {
        { "  plain \n", "plain" },
        { "a\033[1mb\177", "a?[1mb?" },
        { "Gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82",
          "Gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82" },
        { "\xff\xc0\xaf|\xed\xa0\x80|\xe2\x82|\xf4\x90\x80\x80|\xc2\x80", "???|???|??|????|??" },
        { "", "" },
    };
    (void)state;
    char clean[CLATTN_TEXT_BYTES], longer[2 * CLATTN_TEXT_BYTES];
    for (size_t index = 0; index < sizeof texts / sizeof texts[0]; index++) {
        ca_copy_clean(texts[index].text, clean);
        assert_string_equal(clean, texts[index].clean);
    }
    for (size_t index = 0; index + 3 < sizeof longer; index += 2) /* two bytes a character: cut between two */
        memcpy(longer + index, "\xc3\xbc", 3);
    ca_copy_clean(longer, clean);
    assert_int_equal(strlen(clean), CLATTN_TEXT_BYTES - 2);
}

static void bad_drivers_are_known(void **state)
{
    (void)state;
    clattn_device_info info = { .platform = "Clover", .name = "AMD RX", .driver = "20.0" };
    assert_non_null(ca_known_bad(&info, NULL));
    assert_null(ca_known_bad(&info, "lanes"));
    snprintf(info.platform, sizeof info.platform, "rusticl");
    assert_null(ca_known_bad(&info, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_have_names_units_and_values),
        cmocka_unit_test(facts_and_features_fill_what_there_is_room_for),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(a_proof_that_cannot_run_says_which_call_failed),
        cmocka_unit_test(proofs_have_names),
        cmocka_unit_test(a_claim_is_a_whole_word),
        cmocka_unit_test(texts_become_clean),
        cmocka_unit_test(bad_drivers_are_known),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}

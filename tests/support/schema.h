/* tests/support/schema.h: the part of JSON Schema that tools/probe/probe.schema.json uses: type, enum,
 * required, properties, additionalProperties and items. Called by tests/tools/test_probe.c. */
#ifndef CT_SCHEMA_H
#define CT_SCHEMA_H

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stddef.h>

/* Whether `value` is as the schema says; otherwise `where` is the place and the rule. A word of JSON Schema
 * that is not known here is a broken rule too. */
bool ct_schema_allows(const cJSON *schema, const cJSON *value, char *where, size_t bytes);

#endif

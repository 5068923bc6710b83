/* tests/support/schema.c: judges JSON by a schema. Called by tests/tools/test_probe.c. */
#include "support/schema.h"

#include <stdio.h>
#include <string.h>

static bool complain(char *where, size_t bytes, const char *rule, const cJSON *value)
{
    char *text = cJSON_PrintUnformatted(value);
    snprintf(where, bytes, "%s: %s: %.200s", value && value->string ? value->string : "item", rule,
             text ? text : "");
    cJSON_free(text);
    return false;
}

static bool is_type(const char *type, const cJSON *value)
{
    return strcmp(type, "object") == 0    ? cJSON_IsObject(value)
           : strcmp(type, "array") == 0   ? cJSON_IsArray(value)
           : strcmp(type, "string") == 0  ? cJSON_IsString(value)
           : strcmp(type, "number") == 0  ? cJSON_IsNumber(value)
           : strcmp(type, "boolean") == 0 ? cJSON_IsBool(value)
                                          : strcmp(type, "null") == 0 && cJSON_IsNull(value);
}

/* One type, or one of a list. */
static bool has_type(const cJSON *types, const cJSON *value)
{
    const cJSON *type;
    if (cJSON_IsString(types))
        return is_type(types->valuestring, value);
    cJSON_ArrayForEach(type, types)
    {
        if (is_type(type->valuestring, value))
            return true;
    }
    return false;
}

static bool is_among(const cJSON *list, const cJSON *value)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, list)
    {
        if (cJSON_Compare(one, value, true))
            return true;
    }
    return false;
}

static bool allows_members(const cJSON *schema, const cJSON *value, char *where, size_t bytes)
{
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    const cJSON *others = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    const cJSON *required = cJSON_GetObjectItemCaseSensitive(schema, "required"), *name, *member;
    cJSON_ArrayForEach(name, required)
    {
        if (!cJSON_HasObjectItem(value, name->valuestring))
            return complain(where, bytes, name->valuestring, value);
    }
    cJSON_ArrayForEach(member, value)
    {
        const cJSON *known = cJSON_GetObjectItemCaseSensitive(properties, member->string);
        if (!known && cJSON_IsFalse(others))
            return complain(where, bytes, "not a known key", member);
        if (!known)
            known = others;
        if (cJSON_IsObject(known) && !ct_schema_allows(known, member, where, bytes))
            return false;
    }
    return true;
}

bool ct_schema_allows(const cJSON *schema, const cJSON *value, char *where, size_t bytes)
{
    static const char *const known[] = { "$schema",  "title",      "type",  "enum",
                                         "required", "properties", "items", "additionalProperties" };
    const cJSON *word, *item, *items = cJSON_GetObjectItemCaseSensitive(schema, "items");
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(schema, "type");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(schema, "enum");
    cJSON_ArrayForEach(word, schema)
    {
        size_t index = 0;
        while (index < sizeof known / sizeof known[0] && strcmp(known[index], word->string) != 0)
            index++;
        if (index == sizeof known / sizeof known[0])
            return complain(where, bytes, "a word of the schema that is not understood", word);
    }
    if (types && !has_type(types, value))
        return complain(where, bytes, "of another type", value);
    if (list && !is_among(list, value))
        return complain(where, bytes, "not one of the list", value);
    if (cJSON_IsArray(value) && items) {
        cJSON_ArrayForEach(item, value)
        {
            if (!ct_schema_allows(items, item, where, bytes))
                return false;
        }
    }
    return !cJSON_IsObject(value) || allows_members(schema, value, where, bytes);
}

/* Ranges and marks with payloads: as NCCL makes them, and what else schemas can describe. */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define MASK                                                                              \
    (NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE            \
     | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES)

enum { REDUCE = 0x1000005, OPERATION = 0x1000014 };

static nvtxDomainHandle_t domain;

static uint64_t schema(uint64_t type, const nvtxPayloadSchemaEntry_t *entries, size_t count, size_t size, uint64_t id)
{
    nvtxPayloadSchemaAttr_t attributes = {
        .fieldMask = MASK | (size ? NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE : 0)
                     | (id ? NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID : 0),
        .name = "schema", .type = type, .entries = entries, .numEntries = count,
        .payloadStaticSize = size, .schemaId = id,
    };
    return nvtxPayloadSchemaRegister(domain, &attributes);
}

static uint64_t enumeration(const nvtxPayloadEnum_t *entries, size_t count, size_t size, uint64_t id)
{
    nvtxPayloadEnumAttr_t attributes = {
        .fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES
                     | NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE | (id ? NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID : 0),
        .entries = entries, .numEntries = count, .sizeOfEnum = size, .schemaId = id,
    };
    return nvtxPayloadEnumRegister(domain, &attributes);
}

static void push(nvtxStringHandle_t name, const nvtxPayloadData_t *data, int count)
{
    nvtxEventAttributes_t event = {
        .version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .payloadType = NVTX_PAYLOAD_TYPE_EXT, .reserved0 = count, .payload.ullValue = (uintptr_t)data,
        .messageType = NVTX_MESSAGE_TYPE_REGISTERED, .message.registered = name,
    };
    nvtxDomainRangePushEx(domain, &event);
}

static void like_nccl(void)
{
    static const nvtxPayloadEnum_t operations[] = {{"Sum", 0}, {"Product", 1}, {"Max", 2}};
    enumeration(operations, COUNT(operations), sizeof(int), OPERATION);
    static const nvtxPayloadSchemaEntry_t entries[] = {
        {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "communicator"},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "message size"},
        {0, OPERATION, "operation", NULL, 0, 16},
    };
    struct { uint64_t communicator; size_t bytes; int operation; } reduce = {0xABCDEF0123456789, 4096, 2};
    schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, entries, COUNT(entries), sizeof(reduce), REDUCE);
    nvtxPayloadData_t data = {REDUCE, sizeof(reduce), &reduce};
    push(nvtxDomainRegisterStringA(domain, "ncclAllReduce"), &data, 1);
    nvtxDomainRangePop(domain);
    push(nvtxDomainRegisterStringA(domain, "ncclCommInitRankConfig"), NULL, 0);
    nvtxRangePopPayload(domain, &data, 1);
}

static void all_of_the_extension(void)
{
    static const nvtxPayloadEnum_t flags[] = {{"read", 1, 1}, {"write", 2, 1}};
    uint64_t access = enumeration(flags, COUNT(flags), 1, 0);
    struct point { float x; int16_t y; };
    static const nvtxPayloadSchemaEntry_t point_entries[] = {
        {0, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "x"}, {0, NVTX_PAYLOAD_ENTRY_TYPE_INT16, "y"},
    };
    uint64_t point = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, point_entries, 2, sizeof(struct point), 0);
    struct whole {
        const char *name; const char *elsewhere; uint8_t access; struct point at[2]; double ratio; char tag[4];
        void *pointer; uint32_t category; uint32_t color; nvtxStringHandle_t registered; uint32_t count;
        int32_t hidden;
    } whole = {
        "all of it", NULL, 3, {{0.1f, -1}, {2, 3}}, 0.5, "tag", (void *)0x1234, 7, 0xFF00A000,
        nvtxDomainRegisterStringA(domain, "registered"), 3, 9,
    };
    static const char blob[] = "in another payload";
    whole.elsewhere = blob + 3;
    nvtxPayloadSchemaEntry_t entries[] = {
        {NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE | NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING,
         "name"},
        {NVTX_PAYLOAD_ENTRY_FLAG_POINTER | NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED,
         NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "elsewhere"},
        {0, access, "access"},
        {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, point, "at", NULL, 2},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "ratio"},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "tag", NULL, 4},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS, "pointer"},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY, "category"},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB, "color"},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE, "registered"},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "count"},
        {NVTX_PAYLOAD_ENTRY_FLAG_HIDE, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "hidden"},
    };
    uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, entries, COUNT(entries), sizeof(whole), 0);
    nvtxPayloadData_t data[] = {{id, sizeof(whole), &whole}, {NVTX_TYPE_PAYLOAD_SCHEMA_REFERENCED, sizeof(blob), blob}};
    nvtxRangePushPayload(domain, data, 2);
    nvtxRangePopPayload(domain, NULL, 0);

    /* What Python makes of an array. */
    static const nvtxPayloadSchemaEntry_t array_entries[] = {
        {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "length"},
        {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "values", NULL, 0},
    };
    struct { uint64_t length; int32_t values[3]; } array = {3, {1, -2, 3}};
    id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC, array_entries, 2, 0, 0);
    nvtxPayloadData_t array_data = {id, sizeof(uint64_t) + 3 * sizeof(int32_t), &array};
    nvtxMarkPayload(domain, &array_data, 1);

    uint16_t numbers[] = {1, 2, 3};
    nvtxPayloadData_t plain[] = {
        {NVTX_PAYLOAD_ENTRY_TYPE_UINT16, sizeof(numbers), numbers},
        {NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8, SIZE_MAX, "plain"},
        {NVTX_TYPE_PAYLOAD_SCHEMA_RAW, 3, numbers},
        {12345678901, 5, numbers},
        {id, 8, NULL},
    };
    nvtxRangeId_t range = nvtxRangeStartPayload(domain, plain, COUNT(plain));
    nvtxRangeEndPayload(domain, range, plain, 1);
}

int main(void)
{
    domain = nvtxDomainCreateA("payloads");
    if (!nvtxDomainIsEnabled(domain))
        return 1;
    like_nccl();
    all_of_the_extension();
    return 0;
}

/* Ranges through the library of NVTX 2. */
#include <nvToolsExt.h>

int main(void)
{
    nvtxRangePushA("outer");
    nvtxDomainHandle_t domain = nvtxDomainCreateA("domain");
    nvtxEventAttributes_t event = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .category = 3,
        .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
        .message.registered = nvtxDomainRegisterStringW(domain, L"registered \u00fc"),
    };
    nvtxDomainRangePushEx(domain, &event);
    nvtxMarkW(L"wide");
    nvtxDomainRangePop(domain);
    nvtxRangePop();
    nvtxRangeEnd(nvtxRangeStartA("started"));
    return 0;
}

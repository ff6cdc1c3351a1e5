/* A library that makes ranges, and is unloaded. Its names are gone with it. */
#include <nvtx3/nvToolsExt.h>

void ranges(void) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("plugin");
    nvtxEventAttributes_t named = {0};
    named.version = NVTX_VERSION;
    named.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    named.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    named.message.registered = nvtxDomainRegisterStringA(domain, "registered");
    for (int i = 0; i < 3; i++) {
        nvtxRangePushA("of a library");
        nvtxDomainRangePushEx(domain, &named);
        nvtxDomainRangePop(domain);
        nvtxRangePop();
    }
}

import nvtx

with nvtx.annotate("outer", color="red", domain="python", category="kind", payload=3):
    nvtx.mark("moment", domain="python")


@nvtx.annotate("decorated")
def decorated():
    pass


decorated()
nvtx.end_range(nvtx.start_range("started"))
nvtx.push_range("pushed")
nvtx.pop_range()

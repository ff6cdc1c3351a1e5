import os

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

child = os.fork()
if child == 0:
    with nvtx.annotate("child", domain="made in the child"):
        os._exit(0)
os.waitpid(child, 0)
nvtx.mark("parent")

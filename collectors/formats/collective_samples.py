"""Lines of the collective libraries, composed, with the records that `bodies.collective` reads from them."""

from collectors.formats.bodies import Sample
from sickbay.messages import Action, RankPlace

SAMPLES = (
    Sample(
        "gx-r04-n11:2204:2391 [2] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 203.0.113.44<51022> "
        "with status=12 opcode=129 len=65536 vendor err 129 (Send) "
        "localGid ::ffff:192.0.2.14 remoteGids::ffff:192.0.2.71",
        (
            {
                "type": "event",
                "component": "path:192.0.2.14~192.0.2.71",
                "kind": "path.retry_exceeded",
                "severity": "error",
                "host": "gx-r04-n11",
                "code": "status 12 RETRY_EXC_ERR",
            },
        ),
    ),
    Sample(
        "gx-r04-n11:2204:2391 [2] NCCL WARN NET/IB: Got completion from peer 203.0.113.44<51022> with "
        "status=IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_RDMA_WRITE(32711) vendor_err=249 localGid fe80::9 "
        "remoteGidsfe80::2b hca mlx5_6",
        ({"type": "event", "component": "path:fe80::2b~fe80::9", "kind": "path.flushed", "severity": "info"},),
    ),
    Sample(
        "trn-0118:20311:20544 [3] /build/rccl/src/transport/net_ib.cc:1190 NCCL WARN NET/IB : Got completion from peer "
        "10.9.8.7 with status=11",
        ({"type": "event", "component": "path:10.9.8.7~trn-0118", "kind": "path.remote_error"},),
    ),
    Sample(
        "gx-r04-n12:2204:2391 [2] NCCL WARN NET/IB : Got completion with error 13, opcode 0, len 0, vendor err 135",
        ({"type": "event", "component": "path:gx-r04-n12~?", "kind": "path.receiver_not_ready"},),
    ),
    Sample(
        "gx-r04-n12:2204:2391 [2] NCCL WARN NET/IB : mlx5_2:1 Got non-fatal async event: port error(10)",
        ({"type": "event", "component": "port:gx-r04-n12/mlx5_2/1", "kind": "port.down", "host": "gx-r04-n12"},),
    ),
    Sample(
        "gx-r04-n12:2204:2391 [2] NCCL WARN NET/IB : mlx5_2:1 Got async fatal event: local catastrophic error",
        ({"type": "event", "component": "nic:gx-r04-n12/mlx5_2", "kind": "nic.health", "severity": "fatal"},),
    ),
    Sample(
        "gx-r04-n12:2204:2391 [2] NCCL INFO NET/IB : mlx5_2:1 speed change detected: 400000 -> 100000 Mbps",
        ({"type": "event", "component": "port:gx-r04-n12/mlx5_2/1", "kind": "port.speed_reduced"},),
    ),
    Sample(
        "gx-r04-n12:2204:2391 [2] NCCL WARN socketProgress: Connection closed by remote peer gx-r04-n15<38011>",
        ({"type": "event", "component": "path:gx-r04-n12~gx-r04-n15", "kind": "path.peer_closed"},),
    ),
    Sample("gx-r04-n12:2204:2391 [2] NCCL WARN NET/IB : HINT: status 12 may come from a port error(10)", ()),
    Sample(
        "gx-r01-n01:50:90 [0] NCCL INFO ncclCommInitRank comm 0x5581a0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 "
        "commId 0x77 - Init COMPLETE\n"
        "gx-r01-n02:51:91 [5] NCCL INFO ncclCommInitRank comm 0x5581b0 rank 1 nranks 2 cudaDev 5 nvmlDev 5 busId c4000 "
        "commId 0x77 - Init COMPLETE",
        (
            {
                "type": "placement",
                "job": "?",
                "ranks": (
                    RankPlace(rank=0, host="gx-r01-n01", component="accelerator:gx-r01-n01/0000:1b:00"),
                    RankPlace(rank=1, host="gx-r01-n02", component="accelerator:gx-r01-n02/0000:c4:00"),
                ),
            },
        ),
    ),
    Sample(
        "gx-r04-n12:2204:2391 [2] ibvwrap.cc:328 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, "
        "on dev mlx5_4:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:192.0.2.14, remote GID "
        "::ffff:192.0.2.71",
        ({"type": "event", "component": "path:192.0.2.14~192.0.2.71", "kind": "path.not_connected"},),
    ),
    Sample(
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [192.0.2.71]:40111",
        ({"type": "event", "component": "path:192.0.2.71~?", "kind": "path.peer_closed"},),
    ),
    Sample(
        "gx-r04-n12:2204:2391 [2] misc/socket.cc:518 NCCL WARN Net : Call to recv from 192.0.2.90<58001> failed : "
        "Broken pipe",
        ({"type": "event", "component": "path:192.0.2.90~gx-r04-n12", "kind": "path.peer_closed"},),
    ),
    Sample(
        "gx-r04-n12:2204:2391 [2] transport/net_ib.cc:1040 NCCL WARN NET/IB : req 0/1 tag 0 peer 192.0.2.90<58001> "
        "collective mismatch error, local size 65536 remote size 4096",
        (
            {
                "type": "event",
                "kind": "rank.collective_mismatch",
                "host": "gx-r04-n12",
                "attributes": {"device": "2", "peer_address": "192.0.2.90"},
            },
        ),
    ),
    Sample(
        "gx-r04-n12:2204:2391 [0] init.cc:750 NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on CUDA device "
        "1b000",
        ({"type": "event", "kind": "rank.collective_error", "blame": "application", "code": "Duplicate GPU detected"},),
    ),
    Sample(
        "gx-r04-n12:5511:5570 [3] process_err_completion:1723 NCCL WARN NET/OFI Request 0x7f completed with error. RC: "
        "103. Error: 4169 (Unresponsive receiver (reachable by EFA device but handshake failed)).",
        ({"type": "event", "component": "path:gx-r04-n12~?", "kind": "path.retry_exceeded"},),
    ),
    Sample(
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before? Error 802: "
        "system not yet initialized",
        ({"type": "event", "kind": "rank.device_error", "advice": Action.FIX_SOFTWARE},),
    ),
    Sample(
        "[rank3]: pynvml.nvml.NVMLError_GpuIsLost: GPU is lost",
        ({"type": "event", "component": "rank:?/3", "kind": "rank.device_error", "blame": "hardware"},),
    ),
    Sample(
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [192.0.2.71]:41212: Connection reset by "
        "peer",
        ({"type": "event", "component": "path:192.0.2.71~?", "kind": "path.peer_closed"},),
    ),
    Sample(
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        ({"type": "event", "kind": "rank.collective_error", "blame": "application"},),
    ),
    Sample(
        "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 2000",
        ({"type": "event", "component": "rank:?/?", "kind": "rank.collective_error", "blame": "application"},),
    ),
    Sample(
        "THCudaCheck FAIL file=/src/THC/THCStream.cpp line=40 error=46 : all CUDA-capable devices are busy or "
        "unavailable",
        ({"type": "event", "component": "rank:?/?", "kind": "rank.device_error", "code": "busy or unavailable"},),
    ),
    Sample(
        "[WARN][BKCL][/src/bkcl/src/init.cpp:714] init_bkcl_context failed",
        ({"type": "event", "component": "rank:?/?", "kind": "rank.collective_notice"},),
    ),
    Sample(
        "E external/xla/xla/service/gpu/nccl_utils.cc:191] Aborting communicator: 0x5555a108ff90 due to async NCCL "
        "error: remote process exited or there was a network error",
        ({"type": "event", "component": "rank:?/?", "kind": "rank.collective_error"},),
    ),
    Sample(
        "socketProgressOpt: Call to recv from 192.0.2.90<33759> failed : Connection reset by peer",
        ({"type": "event", "component": "path:192.0.2.90~?", "kind": "path.peer_closed"},),
    ),
    Sample(
        "gx-r04-n12: Test NCCL failure common.cu:958 'internal error - please report this issue / '",
        ({"type": "event", "kind": "rank.collective_error", "host": "gx-r04-n12"},),
    ),
    Sample(
        'gx-r04-n12:2204:2391 [0] init.cc:127 NCCL WARN Missing "iommu=pt" from kernel command line which can lead to '
        "system instablity or hang!",
        ({"type": "event", "kind": "rank.collective_notice", "severity": "info", "host": "gx-r04-n12"},),
    ),
    Sample(
        "failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
        ({"type": "event", "component": "rank:?/?", "kind": "rank.device_error", "blame": "hardware"},),
    ),
    Sample(
        "[rank44]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
        (
            {
                "type": "event",
                "component": "rank:?/44",
                "kind": "rank.device_error",
                "severity": "error",
                "blame": "hardware",
            },
        ),
    ),
    Sample(
        "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
        ({"type": "event", "component": "job:?", "kind": "job.out_of_memory", "blame": "application"},),
    ),
    Sample(
        "[rank3]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
        "prematurely.",
        ({"type": "event", "component": "rank:?/3", "kind": "rank.collective_error", "code": "RemoteError"},),
    ),
    Sample(
        "[04:05:06][trn-0233][51877][ERR][BKCL][ring_exec.cpp:412] xpu_wait call failed, expected 0, error code=-17",
        ({"type": "event", "component": "rank:?/?", "kind": "rank.collective_error", "host": "trn-0233"},),
    ),
)

//! The run in the README's pictures: a network is trained on a GPU; one thread computes, two load pictures.

use range_model::timeline::Value;
use tracing_gpu::summary::MemoryKind;

use super::invented::{PID, Run, copy, kernel};

const COMPUTE: u32 = 7;
const COPIES: u32 = 13;
const LOADERS: [u32; 2] = [4_718, 4_719];
const GEMM: &str = "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_128x128_32x4_nn_align8>(Params)";
const STAGES: [(&str, u64); 4] =
    [("stage1", 1_650_000), ("stage2", 1_150_000), ("stage3", 820_000), ("stage4", 560_000)];
const STEPS: u64 = 14;

pub(crate) fn training() -> Run {
    let mut run =
        Run { threads: vec![(PID, "main"), (LOADERS[0], "loader-0"), (LOADERS[1], "loader-1")], ..Run::default() };
    let mut at = load(&mut run);
    let began = at;
    let epoch = run.open(PID, at, "train epoch", None);
    run.spans[epoch].category = Some("training");
    for step in 0..STEPS {
        at = one_step(&mut run, epoch, at + 40_000, step);
    }
    at = run.leaf(PID, at, 5_400_000, "save checkpoint", Some(epoch));
    let end = run.close(epoch, at + 60_000);
    run.marks.push((PID, end, 3, "epoch 1 done: loss 2.113, 14 steps".to_owned()));
    loaders(&mut run, began - 3_000_000, end - 4_000_000);
    run.notes.push("2 GPU operations (8.104 us busy) were launched outside any range.".to_owned());
    run
}

fn load(run: &mut Run) -> u64 {
    let load = run.open(PID, 400_000, "Load Module", None);
    run.spans[load].category = Some("setup");
    let mut at = run.leaf(PID, 460_000, 4_100_000, "read_file", Some(load));
    at = run.leaf(PID, at, 11_700_000, "parse", Some(load));
    at = run.leaf(PID, at, 6_800_000, "fold_and_pack", Some(load));
    let upload = run.open(PID, at, "upload weights", Some(load));
    for _ in 0..6 {
        at = run.launch(upload, at, COMPUTE, 420_000, copy(MemoryKind::HtoD, 7_864_320), "").0 + 30_000;
    }
    at = run.close(upload, at + 2_500_000);
    run.close(load, at + 80_000) + 900_000
}

fn one_step(run: &mut Run, epoch: usize, start: u64, number: u64) -> u64 {
    let step = run.open(PID, start, "step", Some(epoch));
    run.spans[step].payload = Some(Value::Unsigned(number));
    run.spans[step].fields = vec![("step", Value::Unsigned(number)), ("batch", Value::Unsigned(64))];
    let slow = number == 8; // waits for its pictures
    let mut at = run.leaf(PID, start + 9_000, if slow { 14_000_000 } else { 700_000 }, "wait for batch", Some(step));
    if slow {
        run.marks.push((PID, at, 2, "batch 8 came late: the loaders are behind".to_owned()));
    }
    let input = run.open(PID, at, "Set input data", Some(step));
    run.spans[input].category = Some("copy");
    let (returned, copied) = run.launch(input, at + 6_000, COPIES, 610_000, copy(MemoryKind::HtoD, 38_535_168), "");
    at = run.close(input, returned + 12_000).max(copied - 300_000);
    let forward = run.open(PID, at, "forward", Some(step));
    for (name, length) in STAGES {
        at = stage(run, forward, at, name, length, false);
    }
    at = run.close(forward, at + 8_000);
    at = run.leaf(PID, at, 160_000, "loss", Some(step));
    let backward = run.open(PID, at, "backward", Some(step));
    run.spans[backward].color = Some(0xff_e0_6c_1f);
    for (name, length) in STAGES.iter().rev() {
        at = stage(run, backward, at, name, length * 2, true);
    }
    at = run.close(backward, at + 8_000);
    let optimizer = run.open(PID, at, "optimizer", Some(step));
    let mut done = 0;
    for _ in 0..3 {
        (at, done) = run.launch(
            optimizer,
            at + 25_000,
            COMPUTE,
            210_000,
            kernel(512, 256),
            "adam_update(float*, float const*, float*, float*, int)",
        );
    }
    at = run.close(optimizer, at + 30_000);
    let wait = run.open(PID, at, "synchronize", Some(step));
    run.calls.push((PID, at + 2_000, done.max(at) + 9_000, "cuStreamSynchronize"));
    at = run.close(wait, done.max(at) + 14_000);
    run.launch(step, at, COMPUTE, 9_000, copy(MemoryKind::DtoH, 4), "");
    run.close(step, at + 30_000)
}

fn stage(run: &mut Run, parent: usize, start: u64, name: &str, length: u64, back: bool) -> u64 {
    let stage = run.open(PID, start, name, Some(parent));
    let mut at = start + 3_000;
    for block in 0..2_u64 {
        let span = run.open(PID, at, "block", Some(stage));
        run.spans[span].fields = vec![("block", Value::Unsigned(block))];
        let first = if back { "dgrad_3x3(float const*, float const*, float*, ConvShape)" } else { GEMM };
        at = run.launch(span, at + 2_000, COMPUTE, length * 30 / 100, kernel(256, 128), first).0;
        at = run
            .launch(
                span,
                at + 4_000,
                COMPUTE,
                length * 6 / 100,
                kernel(784, 256),
                "batch_norm_relu(float*, Norm const*, int)",
            )
            .0;
        at = run
            .launch(
                span,
                at + 4_000,
                COMPUTE,
                length * 12 / 100,
                kernel(256, 128),
                if back { "wgrad_3x3(float const*, float const*, float*, ConvShape)" } else { GEMM },
            )
            .0;
        at = run.close(span, at + length / 40);
    }
    run.close(stage, at + 4_000)
}

fn loaders(run: &mut Run, start: u64, end: u64) {
    for (index, thread) in LOADERS.into_iter().enumerate() {
        let mut at = start + index as u64 * 2_300_000;
        let mut picture = index as u64;
        while at < end {
            let batch = run.open(thread, at, "load batch", None);
            run.spans[batch].category = Some("input");
            run.spans[batch].fields = vec![("batch", Value::Unsigned(picture))];
            let slow = picture == 8;
            for _ in 0..8 {
                at = run.leaf(thread, at + 6_000, if slow { 1_900_000 } else { 260_000 }, "decode jpeg", Some(batch));
                at = run.leaf(thread, at + 3_000, 190_000, "augment", Some(batch));
            }
            at = run.close(batch, at + 20_000);
            let mut life = run.spans[batch].clone();
            (life.name, life.lifetime, life.parent, life.depth) = ("batch in flight".to_owned(), true, None, 0);
            life.end = at + 9_000_000;
            run.spans.push(life);
            picture += 2;
            at += run.about(7_400_000);
        }
    }
}

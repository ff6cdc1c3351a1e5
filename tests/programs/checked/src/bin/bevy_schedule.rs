//! Systems of bevy on the threads of its pool, while the thread that runs the schedule waits for them. The span of a
//! system is made once, without a parent, and entered at each run.

use std::process::ExitCode;
use std::time::Duration;

use bevy_ecs::prelude::*;
use bevy_ecs::schedule::MultiThreadedExecutor;
use bevy_tasks::{ComputeTaskPool, TaskPoolBuilder};
use checked::{Expected, Run, spin};
use tracing_subscriber::prelude::*;

const FRAMES: u64 = 1000;

#[derive(Resource)]
struct Bodies(u64);

#[derive(Resource)]
struct Sounds(u64);

fn physics(mut bodies: ResMut<'_, Bodies>) {
    spin(Duration::from_micros(400));
    bodies.0 += 1;
}

fn sound(mut sounds: ResMut<'_, Sounds>) {
    spin(Duration::from_micros(100));
    sounds.0 += 1;
}

fn run_all() {
    ComputeTaskPool::get_or_init(|| TaskPoolBuilder::new().num_threads(2).build());
    let mut world = World::new();
    world.insert_resource(Bodies(0));
    world.insert_resource(Sounds(0));
    let mut schedule = Schedule::default();
    schedule.set_executor(MultiThreadedExecutor::new());
    schedule.add_systems((physics, sound));
    for _ in 0..FRAMES {
        schedule.run(&mut world);
    }
    assert_eq!((world.resource::<Bodies>().0, world.resource::<Sounds>().0), (FRAMES, FRAMES));
}

fn main() -> ExitCode {
    // bevy puts the name of a system or schedule into a field, which splits their rows.
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    run_all();
    run.finish(Expected {
        spans: &[("system: bevy_schedule::physics", 1), ("system: bevy_schedule::sound", 1)],
        calls: &[("system: bevy_schedule::physics", FRAMES), ("system: bevy_schedule::sound", FRAMES)],
        culprits: &["physics"],
        ..Expected::default()
    })
}

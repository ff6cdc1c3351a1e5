//! Programs for the tests of the NVTX client: `nvtx_calls SCENARIO [nvidia]`.

use nvtx_rs::tool::{self, Call};
use nvtx_rs::{Attributes, Color, Domain, PushRange, Resource, ResourceKind, StartRange, SyncObject};
use nvtx_rs::{Payload, client, is_tool_attached, mark, naming, range};
use std::error::Error;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let scenario = arguments.next().unwrap_or_default();
    if arguments.next().as_deref() == Some("nvidia") {
        use_nvidia()?;
    }
    match scenario.as_str() {
        "all" => all()?,
        "names" => names(),
        "ours" => ours()?,
        #[cfg(feature = "nvidia")]
        "theirs" => theirs(),
        "state" => state()?,
        "empty-domain" => println!("{:?}", Domain::named("")),
        "many-domains" => many_domains(),
        "threads" => threads(),
        "deep" => deep(),
        "exit" => {
            Domain::DEFAULT.push(&Attributes::new().message("open at the end"));
            std::process::exit(3);
        }
        "attach" => attach()?,
        "attach-late" => println!("{} {:?}", is_tool_attached(), tool::attach(Box::new(|_: &Call<'_>| {}))),
        "attach-from-tool" => attach_from_tool()?,
        "unruly-tool" => unruly_tool()?,
        other => return Err(format!("no scenario {other:?}").into()),
    }
    Ok(())
}

#[cfg(feature = "nvidia")]
fn use_nvidia() -> Result<(), Box<dyn Error>> {
    Ok(nvtx_rs::transport::use_nvidia()?)
}

#[cfg(not(feature = "nvidia"))]
fn use_nvidia() -> Result<(), Box<dyn Error>> {
    Err("built without the feature `nvidia`".into())
}

/// Every call of the interface that the crate makes.
fn all() -> Result<(), Box<dyn Error>> {
    let app = Domain::named("app")?;
    let default = Domain::DEFAULT;

    default.push(&Attributes::new().message("plain"));
    app.push(&Attributes::new().message("in app"));
    app.pop();
    default.pop();
    default.push(&Attributes::new());
    default.pop();

    for payload in [
        Payload::U64(u64::MAX),
        Payload::I64(i64::MIN),
        Payload::F64(-0.1),
        Payload::U32(u32::MAX),
        Payload::I32(i32::MIN),
        Payload::F32(0.1),
    ] {
        app.mark(&Attributes::new().message("payload").payload(payload));
    }
    for color in [Color::argb(0x0102_0304), Color::rgb(255, 0, 1), "rebeccapurple".parse()?] {
        default.mark(&Attributes::new().message("color").color(color));
    }

    default.name_category(7, "seven");
    app.name_category(7, "seven of app");
    let (io, net) = (app.category("io"), app.category("net"));
    assert_eq!(app.category("io"), io);
    app.mark(&Attributes::new().message("category").category(io));
    app.mark(&Attributes::new().message("category").category(net));
    default.mark(&Attributes::new().message("category").category(default.category("io")));
    default.mark(&Attributes::new().message("category").category(7u32));

    let registered = app.register("registered");
    let everything = Attributes::new().registered(registered).color(Color::argb(9)).category(io).payload(5u32);
    for _ in 0..2 {
        app.push(&everything);
        app.pop();
    }
    let elsewhere = app.start(&everything);
    let first = default.start(&Attributes::new().message("first"));
    thread::spawn(move || app.end(elsewhere)).join().map_err(|_| "the thread panicked")?;
    default.end(first);

    {
        let _guard = PushRange::new(app, &Attributes::new().message("guard"));
        let request = StartRange::new(default, &Attributes::new().message("request"));
        thread::spawn(move || drop(request)).join().map_err(|_| "the thread panicked")?;
    }
    for step in 0..2u32 {
        let domain = if step == 0 { app } else { default };
        let _plain = range!("macro");
        let _full = range!(domain: domain, "full", color: Color::rgb(1, 2, 3), category: 7u32, payload: step);
        mark!("marked");
        mark!(domain: app, "marked", payload: 2.5f64, category: net);
    }

    naming::name_thread(4321, "other");
    thread::spawn(|| naming::name_current_thread("worker")).join().map_err(|_| "the thread panicked")?;
    naming::driver::name_device(1, "driver device");
    naming::driver::name_context(0x10, "driver context");
    naming::driver::name_stream(0x20, "driver stream");
    naming::driver::name_event(0x30, "driver event");
    naming::runtime::name_device(2, "runtime device");
    naming::runtime::name_stream(0x40, "runtime stream");
    naming::runtime::name_event(0x50, "runtime event");

    let lock = SyncObject::new(app, "lock");
    lock.acquire_start();
    lock.acquire_failed();
    lock.acquire_start();
    lock.acquire_success();
    lock.releasing();
    let resource = Resource::new(app, ResourceKind::PTHREAD_MUTEX, 0x1234, "mutex");
    drop(resource);
    drop(lock);
    Ok(())
}

/// The same calls as [`theirs`], through this project's crate. NVIDIA's registers every string of a named domain.
fn ours() -> Result<(), Box<dyn Error>> {
    let domain = Domain::named("twin")?;
    for payload in [
        Payload::U64(u64::MAX - 1),
        Payload::I64(i64::MIN + 1),
        Payload::F64(1.5),
        Payload::U32(u32::MAX - 1),
        Payload::I32(i32::MIN + 1),
        Payload::F32(2.5),
    ] {
        domain.mark(&Attributes::new().registered(domain.register("payload")).payload(payload));
    }
    domain.name_category(1, "io");
    let name = domain.register("registered");
    let full = Attributes::new().registered(name).color(Color::argb(0x1122_3344)).category(1u32).payload(7u64);
    drop(PushRange::new(domain, &full));
    drop(StartRange::new(domain, &full));
    drop(PushRange::new(domain, &Attributes::new().registered(domain.register("größe"))));
    let lock = SyncObject::new(domain, "lock");
    lock.acquire_start();
    lock.acquire_failed();
    lock.acquire_start();
    lock.acquire_success();
    lock.releasing();
    drop(lock);
    Domain::DEFAULT.mark(&Attributes::new().message("default").color(Color::rgb(1, 2, 3)));
    Ok(())
}

/// The same calls as [`ours`], through the API of NVIDIA's crate.
#[cfg(feature = "nvidia")]
fn theirs() {
    use nvtx::{EventAttributes, Str};
    let text = |text: &str| Str::from_str_lossy(text);
    let domain = nvtx::Domain::new(text("twin"));
    let payloads: [nvtx::Payload; 6] = [
        (u64::MAX - 1).into(),
        (i64::MIN + 1).into(),
        1.5f64.into(),
        (u32::MAX - 1).into(),
        (i32::MIN + 1).into(),
        2.5f32.into(),
    ];
    for payload in payloads {
        domain.mark(domain.event_attributes_builder().message(text("payload")).payload(payload).build());
    }
    let io = domain.register_category(text("io"));
    let name = domain.register_string(text("registered"));
    let full = || {
        let color = nvtx::Color::new(0x22, 0x33, 0x44, 0x11);
        domain.event_attributes_builder().message(name).color(color).category(io).payload(7u64).build()
    };
    drop(domain.local_range(full()));
    drop(domain.range(full()));
    drop(domain.local_range(text("größe")));
    let lock = domain.user_sync(text("lock")).acquire().failed().acquire().success().release();
    drop(lock);
    nvtx::mark(EventAttributes::builder().message(text("default")).color(nvtx::Color::new(1, 2, 3, 255)).build());
}

/// Names that do not fit the interface.
fn names() {
    let long = |unit: &str, pad: usize| "p".repeat(pad) + &unit.repeat(1_000_000 / unit.len());
    let mut names: Vec<String> = ["", "\0", "a\0b", "größe", "名前", "😀\t\n\"quoted\"\\"].map(str::to_owned).into();
    names.extend([long("x", 0), long("é", 0), long("é", 1), long("€", 0), long("€", 1), long("😀", 0), long("😀", 3)]);
    names.push(long("\0", 0));
    let domain = Domain::named("do\0main").unwrap_or(Domain::DEFAULT);
    for name in &names {
        domain.mark(&Attributes::new().message(name));
        domain.mark(&Attributes::new().registered(domain.register(name)));
        domain.name_category(1, name);
        naming::name_thread(1, name);
    }
}

/// Prints the state of the tool, and makes every kind of call.
fn state() -> Result<(), Box<dyn Error>> {
    println!("{} {:?}", is_tool_attached(), client::state());
    all()
}

fn many_domains() {
    let made = (0..Domain::LIMIT + 10).map(|i| Domain::named(&format!("domain {i}"))).filter(Result::is_ok).count();
    println!("{made} {:?} {:?}", Domain::named("one more"), Domain::named("domain 7"));
}

/// All threads make the first call of the process together.
fn threads() {
    let barrier = Arc::new(Barrier::new(32));
    let work = |number: usize| {
        let barrier = barrier.clone();
        thread::spawn(move || {
            barrier.wait();
            let Ok(domain) = Domain::named("shared") else { return };
            let name = domain.register("registered");
            domain.push(&Attributes::new().registered(name).payload(number));
            let _named = domain.category("category");
            domain.pop();
        })
    };
    let threads: Vec<_> = (0..32).map(work).collect();
    threads.into_iter().for_each(|thread| drop(thread.join()));
}

fn deep() {
    let names: Vec<String> = (0..1_500).map(|depth| format!("depth {depth}")).collect();
    for name in &names {
        Domain::DEFAULT.push(&Attributes::new().message(name));
    }
    for _ in &names {
        Domain::DEFAULT.pop();
    }
    Domain::DEFAULT.pop();
}

/// Receives its own calls.
fn attach() -> Result<(), Box<dyn Error>> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let sink = calls.clone();
    tool::attach(Box::new(move |call: &Call<'_>| {
        if let Ok(mut calls) = sink.lock() {
            calls.push(format!("{call:?}"));
        }
    }))?;
    assert!(is_tool_attached());
    all()?;
    println!("{:?} {:?}", client::state(), tool::next_tool());
    for call in calls.lock().map_err(|_| "a call panicked")?.iter() {
        println!("{call}");
    }
    Ok(())
}

/// A tool that makes calls while it is called.
fn attach_from_tool() -> Result<(), Box<dyn Error>> {
    tool::attach(Box::new(|call: &Call<'_>| {
        println!("{call:?}");
        drop(range!("from the tool"));
        if let Ok(domain) = Domain::named("app") {
            domain.mark(&Attributes::new().registered(domain.register("from the tool")));
        }
        assert!(tool::attach(Box::new(|_: &Call<'_>| {})).is_err());
    }))?;
    let domain = Domain::named("app")?;
    domain.push(&Attributes::new().registered(domain.register("range")));
    domain.mark(&Attributes::new().registered(domain.register("from the tool")));
    domain.pop();
    Ok(())
}

/// A tool that panics.
fn unruly_tool() -> Result<(), Box<dyn Error>> {
    tool::attach(Box::new(|call: &Call<'_>| match call {
        Call::Attach => {}
        _ => panic!("no"),
    }))?;
    all()?;
    println!("survived");
    Ok(())
}

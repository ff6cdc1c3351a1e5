//! The hello-world of a program that logs.

fn main() {
    tracing_subscriber::fmt::init();
    let _span = tracing::info_span!("hello").entered();
    println!("hello");
}

//! The hello-world of a program that measures.

fn main() {
    let _profile = tracing_gpu::init();
    let _span = tracing::info_span!("hello").entered();
    println!("hello");
}
